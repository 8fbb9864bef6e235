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

// watch is this proc's subscription to the proc events of one mesh.
type watch struct {
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
	if !mesh.IsValid() {
		return errorf(CodeInvalid, "", "", "follow a mesh: want a valid ID, got the zero value")
	}
	p.mu.Lock()
	w, known := p.watched[mesh]
	if !known {
		w = &watch{ready: make(chan struct{})}
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
		return sendError("", "", fmt.Errorf("follow mesh %s: %w", mesh, w.err))
	}
	return nil
}

// receiveProcEvent takes the host agents' word that a proc is gone, on the control pump.
func (p *Proc) receiveProcEvent(m bus.Msg) {
	e, err := OpenEvent(p.space, m)
	if err != nil {
		p.malformed(m, err)
		return
	}
	if e.Kind == KindProc && e.Terminal() {
		p.MarkDown(e)
	}
}

// MarkDown records that a proc is dead: nothing more is sent to it or taken from it (DEL-5), and
// what waits for it fails. A second word about the same proc changes nothing.
func (p *Proc) MarkDown(e Event) {
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
	p.receiver.Forget(id.Process())
	p.sender.Forget(id.Process())
	p.failCalls(func(c *call) bool { return c.to.Proc == id }, procDead(id.String(), "", e))
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
	return errorf(CodeProcDead, actor, endpoint, "the proc is gone: %s", reason)
}

// Down returns the event that ended a proc, when one is known.
func (p *Proc) Down(id subjects.ProcID) (Event, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.down[id]
	return e, ok
}

// OnUnreachable tells f of every proc that turns out to be dead, absent, or behind a broken link,
// with the reason. f runs on a pump and must not block. The returned function ends it.
func (p *Proc) OnUnreachable(f func(subjects.ProcID, error)) (cancel func()) {
	w := &watcher{f}
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

// Info is a look at one actor.
type Info struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Status  Status `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Queued  int    `json:"queued"`
	Handled uint64 `json:"handled"`
	Current string `json:"current,omitempty"`
}

func (in *instance) snapshot() Info {
	in.mu.Lock()
	defer in.mu.Unlock()
	return Info{
		Name: in.id.Name, Type: in.def.name, Status: in.status, Reason: in.reason,
		Queued: in.mail.len(), Handled: in.handled, Current: in.current,
	}
}

// Actor looks at one actor; false when the proc never had one of that name.
func (p *Proc) Actor(name string) (Info, bool) {
	in := p.find(name)
	if in == nil {
		return Info{}, false
	}
	return in.snapshot(), true
}

// Actors looks at every actor of the proc, the ended ones included, in no order.
func (p *Proc) Actors() []Info {
	p.mu.Lock()
	all := make([]*instance, 0, len(p.actors))
	for _, in := range p.actors {
		all = append(all, in)
	}
	p.mu.Unlock()
	infos := make([]Info, len(all))
	for i, in := range all {
		infos[i] = in.snapshot()
	}
	return infos
}

// Answers is what the runtime knows about the answers of an endpoint, for those who fold them.
type Answers struct{ m *method }

// AnswersOf describes the answers of an actor's endpoint; the actor may have ended.
func (p *Proc) AnswersOf(actor, endpoint string) (Answers, error) {
	in := p.find(actor)
	if in == nil || in.def.methods[endpoint] == nil {
		return Answers{}, fmt.Errorf("proc %s has no actor %s with an endpoint %s", p.id, actor, endpoint)
	}
	return Answers{in.def.methods[endpoint]}, nil
}

// Open decodes an answer, or returns the one that never left the process.
func (a Answers) Open(answer Answer) (any, error) { return answer.open(a.m.result) }

// Fold returns the reducer of that name when the endpoint declares it.
func (a Answers) Fold(name string) (Fold, bool) {
	f, ok := a.m.folds[name]
	return f, ok
}
