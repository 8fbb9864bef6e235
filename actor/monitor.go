package actor

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Down says that an actor is gone, or cannot be known to be there.
type Down struct {
	Actor subjects.ActorID
	// Reason is ErrStopped or ErrFailed, with the Event that ended the actor when it is known;
	// ErrNoActor when there is none; else what is known: ErrProcDead, ErrNoProc, ErrLinkBroken.
	Reason *Error
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
	return in.proc.post(clientName, id.Port(portLink), in.id()) // it is not the actor's to have back
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
			m.end(gone(id, a.Err))
		}
	}}
	body, err := wire.Marshal(None{})
	if err == nil {
		err = p.question(c, from, portDown, nil, body, time.Time{}, nil)
	}
	switch {
	case err == nil:
		m.left(func() { p.closePort(c.key, c) })
	case errors.Is(err, ErrProcDead) || errors.Is(err, ErrLinkBroken):
		m.end(gone(id, err))
		return func() {}, nil
	default:
		return nil, err
	}
	return func() {
		if m.quit() { // when this cannot be sent the watch is over, too
			_ = p.post(clientName, id.Port(portForget), c.at)
		}
	}, nil
}

// gone says of an actor in another proc why it is gone.
func gone(id subjects.ActorID, err error) Down {
	e := plainError(err)
	e.Actor, e.Endpoint = id.String(), ""
	return Down{id, e}
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
	w.down(Down{id, errorf(CodeNoActor, id.String(), "", "proc %s has no such actor", p.id)})
	return func() {}
}

func (in *instance) watch(w *watch) (cancel func()) {
	in.mu.Lock()
	if in.state.terminal() {
		why := in.why()
		in.mu.Unlock()
		w.down(Down{in.id(), why})
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

// system serves the runtime's own ports of an actor of this proc.
func (p *Proc) system(d *Delivery) error {
	target := p.id.Actor(d.Actor).String()
	in := p.find(d.Actor)
	if d.Port != portInfo && !d.From.IsValid() {
		return errorf(CodeNoEndpoint, target, d.Port, "that is not for plain NATS clients")
	}
	switch d.Port {
	case portDown:
		return p.watchFor(d)
	case portForget:
		var reply string
		if err := d.read(&reply); err != nil {
			return errorf(CodeBadMessage, target, d.Port, "%v", err)
		}
		p.remote.forget(reply, d.From.Proc)
		return nil
	case portLink:
		var other subjects.ActorID
		if err := d.read(&other); err != nil {
			return errorf(CodeBadMessage, target, d.Port, "%v", err)
		}
		if other.Proc != d.From.Proc {
			return errorf(CodeBadMessage, target, d.Port, "want a link to an actor of %s, which says so, got %q", d.From.Proc, other)
		}
		if in == nil { // whoever wants the link watches it, too
			return nil
		}
		p.turns.run(func() { // it may wait for the server
			if err := in.linkTo(other); err != nil {
				p.loud.Warn().Err(err).Stringer("to", other).Msg("a link from another proc")
			}
		})
		return nil
	case portInfo:
		if d.Actor == clientName {
			d.settle(p.Info(), nil)
			return nil
		}
		if in == nil {
			return errorf(CodeNoActor, target, d.Port, "proc %s has no such actor", p.id)
		}
		d.settle(in.info(), nil)
		return nil
	}
	return p.noPort(d.Actor, d.Port)
}

// read decodes a message that the runtime takes itself.
func (d *Delivery) read(to any) error { return d.Format.Decode(d.Raw, to) }

// watchFor answers a message with the end of the actor it is for.
func (p *Proc) watchFor(d *Delivery) error {
	target := p.id.Actor(d.Actor).String()
	if d.Reply == "" || !d.waits() {
		return errorf(CodeBadMessage, target, d.Port, "want a port for the answer, got %q", d.Reply)
	}
	p.remote.once.Do(func() {
		p.remote.deafen = p.OnUnreachable(func(id subjects.ProcID, _ error) { p.remote.lost(id) })
	})
	switch n, ok := p.remote.reserve(d.Reply, d.From.Proc); {
	case ok:
	case n == maxRemote:
		return errorf(CodeMailboxFull, target, d.Port, "the proc has %d watches of other procs already", n)
	default:
		return errorf(CodeBadMessage, target, d.Port, "there is a watch for %s already", d.Reply)
	}
	p.remote.began(d.Reply, p.watchHere(d.Actor, &watch{func(down Down) {
		p.remote.forget(d.Reply, d.From.Proc)
		d.settle(nil, down.Reason)
	}}))
	return nil
}

// remoteWatches are the watches of other procs, by their reply port.
type remoteWatches struct {
	once   sync.Once // it hears of procs that cannot be reached
	deafen func()    // ends that; written once

	mu  sync.Mutex // guards all
	all map[string]remoteWatch
}

type remoteWatch struct {
	of     subjects.ProcID
	cancel func() // nil: it has not begun
}

// maxRemote bounds the watches of other procs; one more is answered with ErrMailboxFull.
const maxRemote = 1 << 20

// close lets go of what it hears.
func (r *remoteWatches) close() {
	r.once.Do(func() { r.deafen = func() {} })
	r.deafen()
}

// reserve takes a place, or says how many are taken.
func (r *remoteWatches) reserve(reply string, of subjects.ProcID) (n int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.all[reply]; taken || len(r.all) == maxRemote {
		return len(r.all), false
	}
	if r.all == nil {
		r.all = map[string]remoteWatch{}
	}
	r.all[reply] = remoteWatch{of: of}
	return len(r.all), true
}

// began says how to end a watch, unless that is over.
func (r *remoteWatches) began(reply string, cancel func()) {
	r.mu.Lock()
	w, there := r.all[reply]
	if there {
		w.cancel = cancel
		r.all[reply] = w
	}
	r.mu.Unlock()
	if !there {
		cancel()
	}
}

// forget ends a watch of a proc.
func (r *remoteWatches) forget(reply string, of subjects.ProcID) {
	r.mu.Lock()
	w := r.all[reply]
	if w.of == of {
		delete(r.all, reply)
	}
	r.mu.Unlock()
	if w.of == of && w.cancel != nil {
		w.cancel()
	}
}

// lost ends the watches of a proc that would not hear of it.
func (r *remoteWatches) lost(of subjects.ProcID) {
	r.mu.Lock()
	var cancels []func()
	for reply, w := range r.all {
		if w.of == of {
			delete(r.all, reply)
			cancels = append(cancels, w.cancel)
		}
	}
	r.mu.Unlock()
	for _, cancel := range cancels {
		if cancel != nil {
			cancel()
		}
	}
}
