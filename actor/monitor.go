package actor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// Down reports that an actor is gone, or unreachable.
type Down struct {
	Actor subjects.ActorID
	// Reason is ErrStopped or ErrFailed with the Event of the actor's end if it is known,
	// ErrNoActor if there is none, else ErrProcDead, ErrNoProc or ErrLinkBroken.
	Reason *Error
	// OutOfOrder is set if data to or from the actor were delayed and its end came by the control
	// connection (ACT-8): its earlier messages may still come.
	OutOfOrder bool
}

// Failed reports whether the actor has not just stopped.
func (d Down) Failed() bool { return d.Reason.Code != CodeStopped }

// Monitor runs f on the caller's turn, before its mail, once the actor of that ID is gone. f runs
// exactly once, at once if the actor is already gone, unless cancel is called before. The actor may
// live in any proc. The first Monitor of another proc's mesh waits for the server.
func (c *Context) Monitor(id subjects.ActorID, f func(*Context, Down)) (cancel func(), err error) {
	if f == nil {
		return nil, errorf(CodeInvalid, id.String(), "", "monitor: want a function, got nil")
	}
	in := c.in
	var off atomic.Bool
	quit, err := in.monitor(id, func(d Down) {
		in.runSoon(func(ctx *Context) {
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

// monitor is monitors.start for an actor: the watch ends with it.
func (in *instance) monitor(id subjects.ActorID, down func(Down)) (cancel func(), err error) {
	m := &monitorState{down: down}
	cancel, err = in.proc.monitors.start(m, in.name, id)
	if err == nil {
		m.onStop(in.observeEnd(&endObserver{func(Down) { cancel() }}))
	}
	return cancel, err
}

// Monitor is Context.Monitor for code that is not an actor. f runs on a goroutine of the proc and
// must not block it.
func (p *Proc) Monitor(id subjects.ActorID, f func(Down)) (cancel func(), err error) {
	if f == nil {
		return nil, errorf(CodeInvalid, id.String(), "", "monitor: want a function, got nil")
	}
	return p.monitors.start(&monitorState{down: f}, clientName, id)
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
	return in.proc.monitors.send(id.Port(portLink), in.id())
}

// linkTo makes this actor fail with another one.
func (in *instance) linkTo(id subjects.ActorID) error {
	in.mu.Lock()
	r := in.ensureExtra()
	if _, linked := r.links[id]; linked || in.aborted || in.state.terminal() {
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
			in.fail(ending{code: CodeCascade, reason: "linked actor " + id.String() + " is gone: " +
				d.Reason.Text, cause: d.Reason.Event})
		} else {
			in.unlink(id)
		}
	})
	if err != nil {
		in.unlink(id)
	}
	return err
}

// stopWith makes this actor stop once its parent in any proc is gone.
func (in *instance) stopWith(parent subjects.ActorID) error {
	_, err := in.monitor(parent, func(d Down) {
		in.requestStop(ending{
			reason: "its parent " + parent.String() + " is gone: " + d.Reason.Text, cause: d.Reason.Event,
		})
	})
	return err
}

// Supervise makes the actor of ctx handle the end of an actor in any proc as that of a child
// (Supervisor, ACT-6). ctx may derive from the actor's Context. See SpawnSpec.Parent for the other
// direction.
func Supervise(ctx context.Context, child subjects.ActorID) error {
	in := originOf(ctx).in
	if in == nil {
		return errorf(CodeInvalid, child.String(), "", "supervise an actor: want the Context of its parent")
	}
	_, err := in.monitor(child, func(d Down) {
		in.runSoon(func(ctx *Context) { actorOwner{in, ctx}.onFinalEnd(d.event(), d.Failed(), "") })
	})
	return err
}

// event is the end of the actor as an event.
func (d Down) event() Event {
	why := d.Reason.Event
	if why != nil && why.Kind == KindActor {
		return *why
	}
	id := d.Actor.Proc
	return Event{
		Kind: KindActor, Status: string(Failed), Mesh: id.Mesh.String(), Rank: int(id.Rank), Gen: int(id.Gen),
		ProcIndex: int(id.Index), Actor: d.Actor.Name, Code: d.Reason.Code, Reason: d.Reason.Text, At: time.Now(),
	}.withCause(why)
}

func (in *instance) unlink(id subjects.ActorID) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.extra.links, id)
}

// endObserver observes an actor's end. down must not block.
type endObserver struct{ down func(Down) }

// start begins a watch; it fires once, when an actor is gone.
func (r *monitors) start(m *monitorState, from string, id subjects.ActorID) (cancel func(), err error) {
	p := r.p
	if !id.IsValid() {
		return nil, errorf(CodeInvalid, "", "", "monitor: want the ID of an actor, got %q", id)
	}
	if id.Proc == p.id {
		m.onStop(r.observeLocal(id.Name, &endObserver{m.fire}))
		return func() { m.stop() }, nil
	}
	c := &call{to: id, onAnswer: func(a Answer) {
		if a.Err != nil {
			d := downWith(id, a.Err)
			d.OutOfOrder = a.onControl
			m.fire(d)
		}
	}}
	switch err := r.ask(m, c, from); {
	case err == nil:
	case errors.Is(err, ErrProcDead) || errors.Is(err, ErrLinkBroken):
		m.fire(downWith(id, err))
		return func() {}, nil
	default:
		return nil, err
	}
	return func() {
		if m.stop() { // if this cannot be sent, the watch is over, too
			_ = r.send(id.Port(portDemonitor), c.replyAddr)
		}
	}, nil
}

// downWith returns the Down of an actor in another proc.
func downWith(id subjects.ActorID, err error) Down {
	e := asError(err)
	e.Actor, e.Endpoint = id.String(), ""
	return Down{Actor: id, Reason: e}
}

// monitorState is the watcher's side of one watch. It ends once: when the actor is gone, or by its
// owner.
type monitorState struct {
	down func(Down)

	mu      sync.Mutex // guards the fields below
	stopped bool
	undo    []func() // cancels its monitors and links in other procs
}

// onStop sets the function that undoes the watch elsewhere.
func (m *monitorState) onStop(undo func()) {
	m.mu.Lock()
	over := m.stopped
	if !over {
		m.undo = append(m.undo, undo)
	}
	m.mu.Unlock()
	if over {
		undo()
	}
}

// stop ends the watch silently; false if it has ended before.
func (m *monitorState) stop() bool {
	m.mu.Lock()
	over, undo := m.stopped, m.undo
	m.stopped, m.undo = true, nil
	m.mu.Unlock()
	for _, f := range undo {
		f()
	}
	return !over
}

// fire ends the watch with a Down.
func (m *monitorState) fire(d Down) {
	if m.stop() {
		m.down(d)
	}
}

// observeLocal watches an actor of this proc. The watch ends with the actor, or by cancel.
func (r *monitors) observeLocal(name string, w *endObserver) (cancel func()) {
	p := r.p
	if in := p.find(name); in != nil {
		return in.observeEnd(w)
	}
	id := p.id.Actor(name)
	w.down(Down{Actor: id, Reason: errorf(CodeNoActor, id.String(), "", "proc %s has no such actor", p.id)})
	return func() {}
}

func (in *instance) observeEnd(w *endObserver) (cancel func()) {
	in.mu.Lock()
	if in.state.terminal() {
		why := in.endError()
		in.mu.Unlock()
		w.down(Down{Actor: in.id(), Reason: why})
		return func() {}
	}
	defer in.mu.Unlock()
	r := in.ensureExtra()
	if r.observers == nil {
		r.observers = map[*endObserver]struct{}{}
	}
	r.observers[w] = struct{}{}
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(r.observers, w)
	}
}
