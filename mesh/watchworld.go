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

// ofWorld is the source of events of a world's ranks. Their hosts report changes at once. The
// acting system controller knows lost events and dead hosts, and reports changes of the world.
type ofWorld struct {
	watched
	world string
	mesh  subjects.MeshID
	ranks int              // of the world
	by    subjects.ActorID // the controller that answered last
}

func (w *ofWorld) name() string { return "world " + w.world }

func (w *ofWorld) asked() subjects.ActorID { return w.by }

func (w *ofWorld) read(e actor.Event, _ incarnations) (actor.Event, bool) { return e, true }

func (w *ofWorld) listen(said *backlog, changed chan<- struct{}) (end func(), err error) {
	space := w.net.proc.Space()
	return w.subscribe(map[string]func(actor.Event){
		space.Events(actor.KindProc, w.mesh): func(e actor.Event) {
			if e, in := e.ClampRanks(w.ranks); in && (e.Terminal() || e.Status == string(actor.Running)) {
				e.Each(said.take)
			}
		},
		space.Events(actor.KindMesh, w.mesh): func(actor.Event) {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
}

func (w *ofWorld) ask(ctx context.Context, said *backlog, known incarnations) error {
	ctl, err := system.Find(ctx, w.net.proc)
	if err != nil {
		return err
	}
	now, err := agent.Insist(ctx, system.GetSnapshot, ctl, system.Filter{Worlds: []string{w.world}})
	if err != nil {
		return err
	}
	w.by = ctl.ID()
	if len(now.Worlds) == 0 || now.Worlds[0].Mesh != w.mesh.String() {
		for _, e := range known.over(w.mesh, fmt.Sprintf("world %s is gone", w.world)) {
			said.take(e)
		}
		return nil
	}
	for _, p := range now.Worlds[0].Procs {
		said.take(eventOf(p))
	}
	return nil
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
