package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

var errNetClosed = errors.New("the Net is closed")

// Watch yields the end of every host of the region, known ones included, until ctx ends or the loop
// is left: dead (failed), or left cleanly (stopped). A host that returns may end again (MESH-19).
func (h HostMesh) Watch(ctx context.Context) iter.Seq2[actor.Event, error] {
	return ends(h.Changes(ctx))
}

// Changes yields the changes of the region's hosts: first the unhealthy hosts, then each host that
// becomes suspect, unknown, dead, alive again, or changes its mode.
func (h HostMesh) Changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		if err := h.Err(); err != nil {
			yield(actor.Event{}, err)
			return
		}
		hosts, err := h.net.presenceWatcher()
		if err != nil {
			yield(actor.Event{}, err)
			return
		}
		w := newHostWatch(h)
		defer context.AfterFunc(h.net.ctx, func() {
			w.said.end(actor.Event{}, fmt.Errorf("watch %s: %w", h.name, h.net.endCause()))
		})()
		defer w.alarm.Stop()
		defer hosts.Watch(h.hosts, w.hear)()
		w.said.tell(ctx, yield)
	}
}

// hostWatch converts changes of hosts to events of their mesh. The program itself watches the
// hosts, as for all its meshes, and so depends on no other process.
type hostWatch struct {
	mesh    HostMesh
	said    *backlog
	base    map[subjects.HostID]int // rank
	teller  presence.EventReporter
	unknown map[subjects.HostID]bool

	watchdog time.Duration
	alarm    *time.Timer // runs while a host is unknown
}

func newHostWatch(h HostMesh) *hostWatch {
	w := &hostWatch{
		mesh: h, said: newBacklog(h.region), base: map[subjects.HostID]int{},
		unknown: map[subjects.HostID]bool{}, watchdog: config.SupervisionControllerTimeout.Get(h.net.config),
	}
	for view, base := range h.region.Ranks() {
		w.base[h.hosts[view]] = base
	}
	w.alarm = time.AfterFunc(w.watchdog, w.deaf)
	w.alarm.Stop()
	return w
}

// hear applies a change of a host. Calls are serial.
func (w *hostWatch) hear(c presence.Change) {
	w.listen(c)
	e, news := w.teller.Event(c)
	if !news {
		return
	}
	e.Name = w.mesh.name
	e.Rank = w.base[c.Host]
	if p, err := w.mesh.region.PointOf(e.Rank); err == nil {
		e.Point = p.String()
	}
	w.said.take(e)
}

// listen runs the alarm while a host is unknown. A connected program soon learns the state of a
// host.
func (w *hostWatch) listen(c presence.Change) {
	before := len(w.unknown)
	delete(w.unknown, c.Host)
	if c.State == presence.Unknown {
		w.unknown[c.Host] = true
	}
	now := len(w.unknown)
	if now == 0 {
		w.alarm.Stop()
	} else if before == 0 {
		w.alarm.Reset(w.watchdog)
	}
}

// deaf ends the watch of a program that received no heartbeats for too long. No host has failed.
func (w *hostWatch) deaf() {
	self := w.mesh.net.proc.ID().Actor("presence")
	why := &deafError{w.mesh.name, w.watchdog}
	w.said.end(blamed(self, why), &ControllerError{self, why})
}

// deafError reports that a program received no heartbeats of hosts.
type deafError struct {
	mesh string
	For  time.Duration
}

func (e *deafError) Error() string {
	return fmt.Sprintf("this program received nothing from the hosts of %s for %s", e.mesh, e.For)
}
