package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

var errNetClosed = errors.New("the Net is closed")

// Watch yields the end of every host of the region, known ones included, until ctx ends or the loop
// is left: dead (failed), or left cleanly (stopped). A host that returns may end again, as the next
// generation of its rank (MESH-6).
func (h HostMesh) Watch(ctx context.Context) iter.Seq2[actor.Event, error] {
	return ends(h.Changes(ctx))
}

// Changes yields the changes of the region's hosts: first the unhealthy hosts, then each host that
// becomes suspect, unknown, dead, alive again, or changes its mode.
func (h HostMesh) Changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	find := func(context.Context) (source, error) { return newOfHosts(h), nil }
	return watchTarget{net: h.net, region: h.region, bad: h.Err(), find: find}.changes(ctx)
}

// hostSource is the source of a mesh of hosts. The program itself watches the hosts, as for all its
// meshes, and so depends on no other process. The events are numbered here.
type hostSource struct {
	mesh     HostMesh
	base     map[subjects.HostID]int // rank
	reporter presence.EventReporter  // used by serial calls of event
	seq      uint64                  // of the last event
	gens     map[int]int             // generations by rank
	ended    map[int]bool            // ranks whose present generation has ended

	mu      sync.Mutex // guards unknown
	unknown map[subjects.HostID]bool
}

func newOfHosts(h HostMesh) *hostSource {
	w := &hostSource{
		mesh: h, base: map[subjects.HostID]int{}, gens: map[int]int{}, ended: map[int]bool{},
		unknown: map[subjects.HostID]bool{},
	}
	for view, base := range h.region.Ranks() {
		w.base[h.hosts[view]] = base
	}
	return w
}

// watched is the program's own watcher: a silence blames no host.
func (w *hostSource) watched() subjects.ActorID { return w.mesh.net.proc.ID().Actor("presence") }

func (w *hostSource) subscribe(hear func(actor.Event), _ func()) (cancel func(), err error) {
	hosts, err := w.mesh.net.controllers.hostWatcher()
	if err != nil {
		return nil, err
	}
	return hosts.Watch(w.mesh.hosts, func(c presence.Change) {
		if e, news := w.event(c); news {
			hear(e)
		}
	}), nil
}

// event returns the event of a change, as one of the mesh. Calls are serial.
func (w *hostSource) event(c presence.Change) (e actor.Event, news bool) {
	w.mu.Lock()
	delete(w.unknown, c.Host)
	if c.State == presence.Unknown {
		w.unknown[c.Host] = true
	}
	w.mu.Unlock()
	e, news = w.reporter.Event(c)
	if !news {
		return e, false
	}
	e.Name = w.mesh.name
	e.Rank = w.base[c.Host]
	if p, err := w.mesh.region.PointOf(e.Rank); err == nil {
		e.Point = p.String()
	}
	if w.ended[e.Rank] && c.State == presence.Alive {
		w.gens[e.Rank]++
		w.ended[e.Rank] = false
	}
	w.ended[e.Rank] = w.ended[e.Rank] || e.Terminal()
	e.Gen = w.gens[e.Rank]
	w.seq++
	e.Seq = w.seq
	return e, true
}

// list returns an error while a host is unknown. A connected program soon learns the state of a
// host.
func (w *hostSource) list(context.Context, uint64, func() rankStates) (eventList, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.unknown) > 0 {
		return eventList{}, &deafError{w.mesh.name, config.SupervisionControllerTimeout.Get(w.mesh.net.config)}
	}
	return eventList{}, nil
}

// deafError reports that a program received no heartbeats of hosts.
type deafError struct {
	mesh string
	For  time.Duration
}

func (e *deafError) Error() string {
	return fmt.Sprintf("this program received nothing from the hosts of %s for %s", e.mesh, e.For)
}
