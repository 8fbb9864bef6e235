package mesh

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// worldSource is the source of a world's ranks. Their hosts report changes at once. The acting
// system controller lists the ranks, knows dead hosts, and reports changes of the world.
type worldSource struct {
	net   *Net
	world string
	mesh  subjects.MeshID
	ranks int              // of the world
	by    subjects.ActorID // the controller that answered last; before, the owner in the description
}

func (w *worldSource) watched() subjects.ActorID { return w.by }

func (w *worldSource) subscribe(hear func(actor.Event), relist func()) (cancel func(), err error) {
	p := w.net.proc
	deafen, err := p.Members().ListenProcs(w.mesh, w.ranks, func(e actor.Event) {
		if e.Terminal() || e.Status == string(actor.Running) {
			hear(e)
		}
	})
	if err != nil {
		return nil, err
	}
	changed := func(actor.Event) { relist() }
	unlisten, err := listen(w.net.proc, p.Space().Events(actor.KindMesh, w.mesh), changed, relist)
	if err != nil {
		deafen()
		return nil, err
	}
	return func() { unlisten(); deafen() }, nil
}

func (w *worldSource) list(ctx context.Context, _ uint64, known func() rankStates) (l eventList, err error) {
	ctx, cancel := context.WithTimeout(ctx, listInterval(w.net))
	defer cancel()
	ctl, err := system.Find(ctx, w.net.proc)
	if err != nil {
		return l, err
	}
	before := known()
	now, err := agent.CallWithFallback(ctx, system.GetSnapshot, ctl, system.Filter{Worlds: []string{w.world}})
	if err != nil {
		return l, err
	}
	w.by = ctl.ID()
	if len(now.Worlds) == 0 || now.Worlds[0].Mesh != w.mesh.String() {
		for _, rank := range before.live() {
			gone := endOf(before.latest[rank], actor.Stopped, fmt.Sprintf("world %s is gone", w.world))
			l.events = append(l.events, gone)
		}
		return l, nil
	}
	for _, p := range now.Worlds[0].Procs {
		l.events = append(l.events, eventOf(p))
	}
	return l, nil
}

// eventOf returns the state of a world's proc as an event of its host.
func eventOf(p system.ProcState) actor.Event {
	id := p.ID
	e := actor.Event{
		Kind: actor.KindProc, Status: string(actor.Running), Mesh: id.Mesh.String(), Rank: int(id.Rank),
		Gen: int(id.Gen), ProcIndex: int(id.Index), Host: p.Host, Reason: p.Reason, At: time.Now(),
	}
	if p.Health == system.HealthEnded && strings.HasPrefix(p.Reason, agent.Stopped.String()) {
		e.Status = string(actor.Stopped)
	} else if p.Health == system.HealthEnded || p.Health == system.HealthExpired {
		e.Status = string(actor.Failed)
	}
	return e
}
