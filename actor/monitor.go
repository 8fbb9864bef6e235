package actor

import (
	"sync"
	"sync/atomic"
	"time"

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
	var over atomic.Bool
	in, forget := c.in, func() {}
	quit, err := in.proc.monitor(in.name, id, func(d Down) {
		in.post(func(ctx *Context) { // after this turn: forget is set by then
			forget()
			if !over.Swap(true) {
				f(ctx, d)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	forget = in.onEnd(quit)
	return func() {
		if !over.Swap(true) {
			forget()
			quit()
		}
	}, nil
}

// Monitor is Context.Monitor for code that is not an actor. f runs on a goroutine of the proc, which
// it must not block.
func (p *Proc) Monitor(id subjects.ActorID, f func(Down)) (cancel func(), err error) {
	return p.monitor(clientName, id, f)
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
	return in.proc.post(in.name, id.Port(portLink), in.id())
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
	var forget atomic.Pointer[func()]
	quit, err := in.proc.monitor(in.name, id, func(d Down) {
		if d.Failed() {
			in.fail(ending{code: CodeCascade, reason: "it is linked to " + id.String() + ", which is gone: " + d.Reason.Text, cause: d.Reason.Event})
		}
		in.unlink(id)
		if f := forget.Load(); f != nil {
			(*f)()
		}
	})
	if err != nil {
		in.unlink(id)
		return err
	}
	f := in.onEnd(quit)
	forget.Store(&f)
	in.mu.Lock()
	_, linked := r.links[id]
	in.mu.Unlock()
	if !linked { // the other was gone before forget was there
		f()
	}
	return nil
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
)

// watch is somebody who wants to know of an actor's end. down must not block.
type watch struct{ down func(Down) }

// monitor tells down, once, when an actor is gone.
func (p *Proc) monitor(from string, id subjects.ActorID, down func(Down)) (cancel func(), err error) {
	if !id.IsValid() {
		return nil, errorf(CodeInvalid, "", "", "monitor: want the ID of an actor, got %q", id)
	}
	m := &monitoring{down: down}
	if id.Proc == p.id {
		unwatch := p.watchHere(id.Name, &watch{m.end})
		return func() {
			m.quit()
			unwatch()
		}, nil
	}
	c := &call{to: id, got: func(a Answer) {
		if a.Err != nil {
			m.end(Down{id, plainError(a.Err)})
		}
	}}
	reply, done, err := p.ask(c, from, portDown, None{}, time.Time{})
	switch e := plainError(err); {
	case err == nil:
		m.begun(done)
	case e.Code == CodeProcDead || e.Code == CodeLinkBroken:
		m.end(Down{id, e})
		return func() {}, nil
	default:
		return nil, err
	}
	return func() {
		if m.quit() {
			_ = p.post(from, id.Port(portForget), reply) // when it cannot be sent the watch is over, too
		}
	}, nil
}

// monitoring is one watch from the watcher's side.
type monitoring struct {
	down func(Down)

	mu   sync.Mutex
	over bool
	done func() // ends what it needs on the bus; nil: nothing
}

// begun says what is to be done in the end.
func (m *monitoring) begun(done func()) {
	m.mu.Lock()
	over := m.over
	m.done = done
	m.mu.Unlock()
	if over {
		done()
	}
}

// quit ends the watch without a word; false: it has ended.
func (m *monitoring) quit() bool {
	m.mu.Lock()
	over, done := m.over, m.done
	m.over = true
	m.mu.Unlock()
	if !over && done != nil {
		done()
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
	id := p.id.Actor(name)
	in := p.find(name)
	if in == nil {
		w.down(Down{id, errorf(CodeNoActor, id.String(), "", "proc %s has no such actor", p.id)})
		return func() {}
	}
	in.mu.Lock()
	if in.state.terminal() {
		why := in.why()
		in.mu.Unlock()
		w.down(Down{id, why})
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

// onEnd runs f when the actor ends, unless forget is called before. f must not block.
func (in *instance) onEnd(f func()) (forget func()) {
	w := &watch{func(Down) { f() }}
	return in.proc.watchHere(in.name, w)
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
		p.remote.forget(reply)
		return nil
	case portLink:
		var other subjects.ActorID
		if err := d.read(&other); err != nil {
			return errorf(CodeBadMessage, target, d.Port, "%v", err)
		}
		if in == nil {
			return errorf(CodeNoActor, target, d.Port, "proc %s has no such actor", p.id)
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
	if !p.remote.room() {
		return errorf(CodeMailboxFull, p.id.Actor(d.Actor).String(), d.Port, "the proc has %d watches of other procs already", maxRemote)
	}
	var over atomic.Bool
	p.remote.add(d.Reply, p.watchHere(d.Actor, &watch{func(down Down) {
		over.Store(true)
		p.remote.forget(d.Reply)
		d.settle(nil, down.Reason)
	}}))
	if over.Load() { // perhaps before it was added
		p.remote.forget(d.Reply)
	}
	return nil
}

// remoteWatches are the watches of other procs, by their reply port.
type remoteWatches struct {
	mu  sync.Mutex
	all map[string]func()
}

// maxRemote bounds the watches of other procs; one more is answered with ErrMailboxFull.
const maxRemote = 1 << 20

func (r *remoteWatches) room() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all) < maxRemote
}

func (r *remoteWatches) add(reply string, cancel func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]func(){}
	}
	r.all[reply] = cancel
}

func (r *remoteWatches) forget(reply string) {
	r.mu.Lock()
	cancel := r.all[reply]
	delete(r.all, reply)
	r.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
