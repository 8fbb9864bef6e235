package actor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// meshSubscription is the process's only subscription to the proc events of one mesh. Each event is
// decoded once, for the proc itself and for all listeners.
type meshSubscription struct {
	ready chan struct{} // closed once err is set
	err   error

	// Guarded by the lock of the proc.
	ranks     int // the known size of the mesh: events about other ranks are ignored
	listeners map[*procListener]struct{}
}

// procListener receives the proc events of a mesh.
type procListener struct{ f func(Event) }

// unreachableWatcher is notified when a proc becomes unreachable.
type unreachableWatcher struct {
	f func(subjects.ProcID, error)
}

// FollowMesh subscribes this proc to the deaths of a mesh's first ranks, before any message is sent
// there. The first call for a mesh waits for the server; it must not run on a pump.
func (p *Proc) FollowMesh(mesh subjects.MeshID, ranks int) error {
	p = p.process.lead
	if !mesh.IsValid() {
		return errorf(CodeInvalid, "", "", "follow a mesh: want a valid ID, got the zero value")
	}
	p.mu.Lock()
	w, known := p.subscriptions[mesh]
	if !known {
		w = &meshSubscription{ready: make(chan struct{}), listeners: map[*procListener]struct{}{}}
		p.subscriptions[mesh] = w
	}
	w.ranks = max(w.ranks, ranks)
	p.mu.Unlock()
	if !known {
		w.err = p.subscribe(p.bus.Control(), p.space.Events(KindProc, mesh), p.receiveProcEvent)
		if w.err != nil {
			p.mu.Lock()
			delete(p.subscriptions, mesh) // the next sender tries again
			p.mu.Unlock()
		}
		close(w.ready)
	}
	<-w.ready
	if w.err != nil {
		return busError("", "", fmt.Errorf("follow mesh %s: %w", mesh, w.err))
	}
	return nil
}

// ListenProcs is FollowMesh, and also calls f with each event about a proc of those ranks, in
// order. f runs on the control pump and must not block it. The returned function ends it.
func (p *Proc) ListenProcs(mesh subjects.MeshID, ranks int, f func(Event)) (cancel func(), err error) {
	if err := p.FollowMesh(mesh, ranks); err != nil {
		return nil, err
	}
	p = p.process.lead
	l := &procListener{f}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.subscriptions[mesh]
	w.listeners[l] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(w.listeners, l)
	}, nil
}

// receiveProcEvent handles an event about ended or replaced procs of a mesh, on the control pump.
func (p *Proc) receiveProcEvent(m bus.Msg) {
	e, err := DecodeEventFrom(p.space, m)
	if err != nil {
		p.malformed(m, err)
		return
	}
	id := e.Proc()
	if e.Kind != KindProc || !id.IsValid() {
		return
	}
	p.mu.Lock()
	w := p.subscriptions[id.Mesh]
	if w == nil {
		p.mu.Unlock()
		return
	}
	e, in := e.ClampRanks(w.ranks)
	p.mu.Unlock()
	if !in {
		return
	}
	if e.Terminal() { // its earlier messages come first (DEL-5)
		p.NoteEnd(e)
	} else if e.Status == string(Running) {
		e.Each(p.NoteGeneration)
	}
	p.mu.Lock()
	all := slices.Collect(maps.Keys(w.listeners))
	p.mu.Unlock()
	for _, l := range all { // supervision waits for no data
		l.f(e)
	}
}

// NoteEnd records that procs have ended, and marks them down after the messages that the server
// already has from them (DEL-5).
func (p *Proc) NoteEnd(e Event) {
	p = p.process.lead
	n := deathRangeOf(e)
	p.mu.Lock()
	p.ending = append(p.ending, n)
	p.mu.Unlock()
	p.bus.Data().AfterReceived(func() {
		p.MarkDown(e)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ending = slices.DeleteFunc(p.ending, func(m deathRange) bool { return m.source == n.source })
	})
}

// IsEnded reports whether the end of a proc, or of its process, is known. Down knows it up to 1 s
// later, after the proc's earlier messages.
func (p *Proc) IsEnded(id subjects.ProcID) bool {
	if _, down := p.Down(id); down {
		return true
	}
	p = p.process.lead
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.ending, func(n deathRange) bool {
		return n.contains(id) || n.contains(id.Lead())
	})
}

// MarkDown records that procs are dead: their messages are dropped, none are sent to them (DEL-5),
// and waiting calls to them fail. A second event about a proc changes nothing. One event is one
// pass, for any number of ranks.
func (p *Proc) MarkDown(e Event) {
	p = p.process.lead
	if !e.Proc().IsValid() {
		return
	}
	p.mu.Lock()
	news := p.dead.add(deathRangeOf(e), p.id, p.generations.isNewest)
	p.mu.Unlock()
	if len(news) == 0 {
		return
	}
	p.generations.countChange(news[0].mesh)
	for _, n := range news {
		n.each(func(id subjects.ProcID) {
			if id.Index == 0 { // else its process goes on without it
				p.links.MarkDead(id.Process(), procDead(id.String(), "", e))
			}
		})
	}
	among := func(id subjects.ProcID) bool {
		return slices.ContainsFunc(news, func(n deathRange) bool {
			return n.contains(id) || n.contains(id.Lead())
		})
	}
	p.process.pending.cancelFrom(among)
	for _, q := range p.process.procs() {
		q.targets.dropDead(func(id subjects.ProcID) bool {
			return slices.ContainsFunc(news, func(n deathRange) bool { return n.contains(id) })
		})
		q.failCalls(func(c *call) bool { return among(c.to.Proc) },
			func(c *call) error { return procDead(c.to.Proc.String(), "", e) })
	}
	for _, n := range news {
		n.each(func(id subjects.ProcID) { p.notifyUnreachable(id, procDead(id.String(), "", e)) })
	}
}

func procDead(actor, endpoint string, e Event) *Error {
	reason := e.Reason
	if reason == "" {
		reason = e.Status
	}
	err := errorf(CodeProcDead, actor, endpoint, "the proc is gone: %s", reason)
	err.Event = &e
	return err
}

// Down returns the event that ended a proc, or its process, if known. Listeners receive an end
// before Down returns it. Down first waits for the proc's earlier messages (DEL-5): until the
// server has answered on the data connection, or for 1 s.
func (p *Proc) Down(id subjects.ProcID) (Event, bool) {
	p = p.process.lead
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.dead.find(id)
	if !ok && id.Index > 0 {
		id = id.Lead()
		n, ok = p.dead.find(id)
	}
	if !ok {
		return Event{}, false
	}
	return n.event(id), true
}

// DeadProcs returns the events of dead procs of a mesh whose rank has no later generation.
func (p *Proc) DeadProcs(mesh subjects.MeshID) (all []Event) {
	p = p.process.lead
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.dead.all(mesh) {
		n.each(func(id subjects.ProcID) {
			if _, later := p.Successor(id); !later {
				all = append(all, n.event(id))
			}
		})
	}
	return all
}

// OnUnreachable calls f for every proc found to be dead, absent, or behind a broken link, with the
// reason. The first proc of a process stands for all of them. f runs on a pump and must not block.
// The returned function ends it.
func (p *Proc) OnUnreachable(f func(subjects.ProcID, error)) (cancel func()) {
	mustHold(f != nil, "OnUnreachable", "a function, got nil")
	w := &unreachableWatcher{f}
	p = p.process.lead
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers[w] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watchers, w)
	}
}

func (p *Proc) notifyUnreachable(id subjects.ProcID, reason error) {
	p.mu.Lock()
	fs := make([]func(subjects.ProcID, error), 0, len(p.watchers))
	for w := range p.watchers {
		fs = append(fs, w.f)
	}
	p.mu.Unlock()
	for _, f := range fs {
		f(id, reason)
	}
}
