package actor

import (
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// maxDown bounds how many dead procs are remembered (DEL-5): the newest. One that is forgotten is
// still refused by its link, which it would have to open anew.
const maxDown = 1 << 16

// follow is this proc's subscription to the proc events of one mesh.
type follow struct {
	ready chan struct{} // closed once err is set
	err   error
}

// watcher is told when a proc cannot be reached any more.
type watcher struct {
	f func(subjects.ProcID, error)
}

// Follow makes sure that this proc hears when a proc of a mesh dies, before anything is sent
// there. The first call for a mesh waits for the server; it must not run on a pump.
func (p *Proc) Follow(mesh subjects.MeshID) error {
	p = p.process.first
	if !mesh.IsValid() {
		return errorf(CodeInvalid, "", "", "follow a mesh: want a valid ID, got the zero value")
	}
	p.mu.Lock()
	w, known := p.watched[mesh]
	if !known {
		w = &follow{ready: make(chan struct{})}
		p.watched[mesh] = w
	}
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

// receiveProcEvent takes the host agents' word that a proc is gone, or has the rank of one that was, on the
// control pump.
func (p *Proc) receiveProcEvent(m bus.Msg) {
	e, err := OpenEvent(p.space, m)
	if err != nil {
		p.malformed(m, err)
		return
	}
	switch {
	case e.Kind != KindProc:
	case e.Terminal(): // what it said before comes first
		p.bus.Data().AfterReceived(func() { e.Each(p.MarkDown) })
	case e.Status == string(Running):
		e.Each(p.Learn)
	}
}

// MarkDown records that a proc is dead: nothing more is sent to it or taken from it (DEL-5), and
// what waits for it fails. A second word about the same proc changes nothing.
func (p *Proc) MarkDown(e Event) {
	p = p.process.first
	id := e.Proc()
	if !id.IsValid() || id == p.id {
		return
	}
	p.mu.Lock()
	_, known := p.down[id]
	if !known {
		p.rememberLocked(id, e)
	}
	p.mu.Unlock()
	if known {
		return
	}
	p.later.changed(id.Mesh)
	if id.Seat == 0 { // else its process goes on without it
		p.links.Die(id.Process(), procDead(id.String(), "", e))
	}
	p.process.asked.lost(id)
	for _, q := range p.process.procs() {
		q.targets.lose(id)
		q.failCalls(func(c *call) bool { return c.to.Proc == id || c.to.Proc.Lead() == id }, procDead(id.String(), "", e))
	}
	p.notify(id, procDead(id.String(), "", e))
}

// rememberLocked keeps a dead proc's event, in place of the one that was known longest.
func (p *Proc) rememberLocked(id subjects.ProcID, e Event) {
	if len(p.downOrder) >= maxDown {
		delete(p.down, p.downOrder[0])
		p.downOrder = slices.Delete(p.downOrder, 0, 1)
	}
	e.StderrTail = nil // whoever shows it takes it from the event itself
	p.down[id] = e
	p.downOrder = append(p.downOrder, id)
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
	e, ok := p.down[id]
	if !ok && id.Seat > 0 {
		e, ok = p.down[id.Lead()]
	}
	return e, ok
}

// Downs are the events of the procs of a mesh that are known to be dead, and whose rank no later one has.
func (p *Proc) Downs(mesh subjects.MeshID) (all []Event) {
	p = p.process.first
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, e := range p.down {
		if id.Mesh != mesh {
			continue
		}
		if _, later := p.Successor(id); !later {
			all = append(all, e)
		}
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
