package actor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// follow is this proc's subscription to the proc events of one mesh: the only one of the process. Each event is
// decoded once, for the proc itself and for all who listen.
type follow struct {
	ready chan struct{} // closed once err is set
	err   error

	// Guarded by the lock of the proc.
	ranks     int // that the mesh has, as far as this process knows: events about others are passed over
	listeners map[*procListener]struct{}
}

// procListener hears the proc events of a mesh.
type procListener struct{ f func(Event) }

// watcher is told when a proc cannot be reached any more.
type watcher struct {
	f func(subjects.ProcID, error)
}

// Follow makes sure that this proc hears when one of the first so many ranks of a mesh dies, before anything is
// sent there. The first call for a mesh waits for the server; it must not run on a pump.
func (p *Proc) Follow(mesh subjects.MeshID, ranks int) error {
	p = p.process.first
	if !mesh.IsValid() {
		return errorf(CodeInvalid, "", "", "follow a mesh: want a valid ID, got the zero value")
	}
	p.mu.Lock()
	w, known := p.watched[mesh]
	if !known {
		w = &follow{ready: make(chan struct{}), listeners: map[*procListener]struct{}{}}
		p.watched[mesh] = w
	}
	w.ranks = max(w.ranks, ranks)
	p.mu.Unlock()
	if !known {
		w.err = p.subscribe(p.bus.Control(), p.space.Events(KindProc, mesh), p.receiveProcEvent)
		if w.err != nil {
			p.mu.Lock()
			delete(p.watched, mesh) // the next sender tries again
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

// ListenProcs is Follow, and calls f with each event about a proc of those ranks, in order, on the control pump, which f
// must not block. The returned function ends it.
func (p *Proc) ListenProcs(mesh subjects.MeshID, ranks int, f func(Event)) (cancel func(), err error) {
	if err := p.Follow(mesh, ranks); err != nil {
		return nil, err
	}
	p = p.process.first
	l := &procListener{f}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.watched[mesh]
	w.listeners[l] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(w.listeners, l)
	}, nil
}

// receiveProcEvent takes the word that procs of a mesh have ended, or have the ranks of others, on the control pump.
func (p *Proc) receiveProcEvent(m bus.Msg) {
	e, err := OpenEvent(p.space, m)
	if err != nil {
		p.malformed(m, err)
		return
	}
	id := e.Proc()
	if e.Kind != KindProc || !id.IsValid() {
		return
	}
	p.mu.Lock()
	w := p.watched[id.Mesh]
	if w == nil {
		p.mu.Unlock()
		return
	}
	e, in := e.Within(w.ranks)
	p.mu.Unlock()
	if !in {
		return
	}
	switch {
	case e.Terminal(): // what it said before comes first (DEL-8)
		p.bus.Data().AfterReceived(func() { p.MarkDown(e) })
	case e.Status == string(Running):
		e.Each(p.Learn)
	}
	p.mu.Lock()
	all := slices.Collect(maps.Keys(w.listeners))
	p.mu.Unlock()
	for _, l := range all { // supervision waits for no data
		l.f(e)
	}
}

// MarkDown records that procs are dead: nothing more is sent to them or taken from them (DEL-5), and what waits for
// them fails. A second word about a proc changes nothing. One event is one pass, whatever the number of its ranks.
func (p *Proc) MarkDown(e Event) {
	p = p.process.first
	if !e.Proc().IsValid() {
		return
	}
	p.mu.Lock()
	news := p.down.add(endOf(e), p.id)
	p.mu.Unlock()
	if len(news) == 0 {
		return
	}
	p.later.changed(news[0].mesh)
	for _, n := range news {
		n.each(func(id subjects.ProcID) {
			if id.Seat == 0 { // else its process goes on without it
				p.links.Die(id.Process(), procDead(id.String(), "", e))
			}
		})
	}
	among := func(id subjects.ProcID) bool {
		return slices.ContainsFunc(news, func(n ends) bool { return n.has(id) || n.has(id.Lead()) })
	}
	p.process.asked.lost(among)
	for _, q := range p.process.procs() {
		q.targets.lose(func(id subjects.ProcID) bool {
			return slices.ContainsFunc(news, func(n ends) bool { return n.has(id) })
		})
		q.failCalls(func(c *call) bool { return among(c.to.Proc) }, func(c *call) error { return procDead(c.to.Proc.String(), "", e) })
	}
	for _, n := range news {
		n.each(func(id subjects.ProcID) { p.notify(id, procDead(id.String(), "", e)) })
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

// Down returns the event that ended a proc, or its process, when one is known.
func (p *Proc) Down(id subjects.ProcID) (Event, bool) {
	p = p.process.first
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.down.find(id)
	if !ok && id.Seat > 0 {
		id = id.Lead()
		n, ok = p.down.find(id)
	}
	if !ok {
		return Event{}, false
	}
	return n.event(id), true
}

// Downs are the events of the procs of a mesh that are known to be dead, and whose rank no later one has.
func (p *Proc) Downs(mesh subjects.MeshID) (all []Event) {
	p = p.process.first
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.down.of[mesh] {
		n.each(func(id subjects.ProcID) {
			if _, later := p.Successor(id); !later {
				all = append(all, n.event(id))
			}
		})
	}
	return all
}

// OnUnreachable tells f of every proc that turns out to be dead, absent, or behind a broken link,
// with the reason; the first proc of a process stands for all of them. f runs on a pump and must not
// block. The returned function ends it.
func (p *Proc) OnUnreachable(f func(subjects.ProcID, error)) (cancel func()) {
	mustBe(f != nil, "OnUnreachable", "a function, got nil")
	w := &watcher{f}
	p = p.process.first
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers[w] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watchers, w)
	}
}

func (p *Proc) notify(id subjects.ProcID, reason error) {
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
