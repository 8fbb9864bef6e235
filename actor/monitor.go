package actor

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/subjects"
)

// Down says that an actor is gone, or cannot be known to be there.
type Down struct {
	Actor subjects.ActorID
	// Reason is ErrStopped or ErrFailed, with the Event that ended the actor when it is known;
	// ErrNoActor when there is none; else what is known: ErrProcDead, ErrNoProc, ErrLinkBroken.
	Reason *Error
	// Overtook is set when data were held up on their way from the actor, or to it, and the word of its end came by
	// the control lane (ACT-13): what it had sent before may still come.
	Overtook bool
}

// Failed reports whether the actor has not just stopped.
func (d Down) Failed() bool { return d.Reason.Code != CodeStopped }

// Monitor runs f on the turn of the actor whose Context this is, before its mail, once the actor of
// that ID is gone: exactly once, also when it is gone already, unless cancel is called before. The
// actor may live in any proc; in another one the first Monitor of a mesh waits for the server.
func (c *Context) Monitor(id subjects.ActorID, f func(*Context, Down)) (cancel func(), err error) {
	if f == nil {
		return nil, errorf(CodeInvalid, id.String(), "", "monitor: want a function, got nil")
	}
	in := c.in
	var off atomic.Bool
	quit, err := in.monitor(id, func(d Down) {
		in.post(func(ctx *Context) {
			if !off.Load() {
				f(ctx, d)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return func() {
		off.Store(true)
		quit()
	}, nil
}

// monitor is Proc.monitor for an actor: the watch ends with it.
func (in *instance) monitor(id subjects.ActorID, down func(Down)) (cancel func(), err error) {
	m := &monitoring{down: down}
	cancel, err = in.proc.monitor(m, in.name, id)
	if err == nil {
		m.left(in.watch(&watch{func(Down) { cancel() }}))
	}
	return cancel, err
}

// Monitor is Context.Monitor for code that is not an actor. f runs on a goroutine of the proc, which
// it must not block.
func (p *Proc) Monitor(id subjects.ActorID, f func(Down)) (cancel func(), err error) {
	if f == nil {
		return nil, errorf(CodeInvalid, id.String(), "", "monitor: want a function, got nil")
	}
	return p.monitor(&monitoring{down: f}, clientName, id)
}

// Link ties two actors together: when one of them ends otherwise than by stopping, the other fails
// with its end as the cause. A second Link of the same two does nothing more.
func (c *Context) Link(id subjects.ActorID) error {
	in := c.in
	if id == in.id() {
		return errorf(CodeInvalid, id.String(), "", "link an actor to itself: want another one")
	}
	if err := in.linkTo(id); err != nil {
		return err
	}
	if id.Proc == in.proc.id {
		if other := in.proc.find(id.Name); other != nil {
			return other.linkTo(in.id())
		}
		return nil
	}
	return in.proc.says(id.Port(portLink), in.id())
}

// linkTo makes this actor fail with another one.
func (in *instance) linkTo(id subjects.ActorID) error {
	in.mu.Lock()
	r := in.rarely()
	if _, linked := r.links[id]; linked || in.over || in.state.terminal() {
		in.mu.Unlock()
		return nil
	}
	if r.links == nil {
		r.links = map[subjects.ActorID]struct{}{}
	}
	r.links[id] = struct{}{}
	in.mu.Unlock()
	_, err := in.monitor(id, func(d Down) {
		if d.Failed() {
			in.fail(ending{code: CodeCascade, reason: "it is linked to " + id.String() + ", which is gone: " + d.Reason.Text, cause: d.Reason.Event})
		} else {
			in.unlink(id)
		}
	})
	if err != nil {
		in.unlink(id)
	}
	return err
}

func (in *instance) unlink(id subjects.ActorID) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.rare.links, id)
}

// Ports of every actor that the runtime serves itself: they do not wait for its handler. Their names
// are all letters; ports that are opened have a 0 in front.
const (
	portDown   = "_down"   // answered with the actor's end
	portForget = "_forget" // takes a _down back; the message is its reply port
	portLink   = "_link"   // the message is the actor to be linked to
	portInfo   = "_info"   // answered with an Info; of the client: the proc's
	portBack   = "_back"   // takes what comes back
)

// watch is somebody who wants to know of an actor's end. down must not block.
type watch struct{ down func(Down) }

// monitor starts a watch that is told, once, when an actor is gone.
func (p *Proc) monitor(m *monitoring, from string, id subjects.ActorID) (cancel func(), err error) {
	if !id.IsValid() {
		return nil, errorf(CodeInvalid, "", "", "monitor: want the ID of an actor, got %q", id)
	}
	if id.Proc == p.id {
		m.left(p.watchHere(id.Name, &watch{m.end}))
		return func() { m.quit() }, nil
	}
	c := &call{to: id, heard: func(a Answer) {
		if a.Err != nil {
			d := gone(id, a.Err)
			d.Overtook = a.overtook
			m.end(d)
		}
	}}
	switch err := p.watchFar(m, c, from); {
	case err == nil:
	case errors.Is(err, ErrProcDead) || errors.Is(err, ErrLinkBroken):
		m.end(gone(id, err))
		return func() {}, nil
	default:
		return nil, err
	}
	return func() {
		if m.quit() { // when this cannot be sent the watch is over, too
			_ = p.says(id.Port(portForget), c.at)
		}
	}, nil
}

// gone says of an actor in another proc why it is gone.
func gone(id subjects.ActorID, err error) Down {
	e := plainError(err)
	e.Actor, e.Endpoint = id.String(), ""
	return Down{Actor: id, Reason: e}
}

// monitoring is one watch from the watcher's side. It ends once: when the actor is gone, or by its
// owner.
type monitoring struct {
	down func(Down)

	mu   sync.Mutex // guards the fields below
	over bool
	undo []func() // takes back what it left elsewhere
}

// left says how to take back something that the watch left elsewhere.
func (m *monitoring) left(undo func()) {
	m.mu.Lock()
	over := m.over
	if !over {
		m.undo = append(m.undo, undo)
	}
	m.mu.Unlock()
	if over {
		undo()
	}
}

// quit ends the watch without a word; false: it has ended.
func (m *monitoring) quit() bool {
	m.mu.Lock()
	over, undo := m.over, m.undo
	m.over, m.undo = true, nil
	m.mu.Unlock()
	for _, f := range undo {
		f()
	}
	return !over
}

// end is told that the actor is gone.
func (m *monitoring) end(d Down) {
	if m.quit() {
		m.down(d)
	}
}

// watchHere watches an actor of this proc. The watch ends with the actor, or by cancel.
func (p *Proc) watchHere(name string, w *watch) (cancel func()) {
	if in := p.find(name); in != nil {
		return in.watch(w)
	}
	id := p.id.Actor(name)
	w.down(Down{Actor: id, Reason: errorf(CodeNoActor, id.String(), "", "proc %s has no such actor", p.id)})
	return func() {}
}

func (in *instance) watch(w *watch) (cancel func()) {
	in.mu.Lock()
	if in.state.terminal() {
		why := in.why()
		in.mu.Unlock()
		w.down(Down{Actor: in.id(), Reason: why})
		return func() {}
	}
	defer in.mu.Unlock()
	r := in.rarely()
	if r.watches == nil {
		r.watches = map[*watch]struct{}{}
	}
	r.watches[w] = struct{}{}
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(r.watches, w)
	}
}
