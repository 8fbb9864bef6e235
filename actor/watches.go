package actor

import (
	"sync"
	"time"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

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
	switch n, ok := p.remote.reserve(p, d.Reply, d.From.Proc); {
	case ok:
	case n == maxRemote:
		return errorf(CodeMailboxFull, target, d.Port, "the proc has %d watches of other procs already", n)
	default:
		return errorf(CodeBadMessage, target, d.Port, "there is a watch for %s already", d.Reply)
	}
	p.remote.began(d.Reply, p.watchHere(d.Actor, &watch{func(down Down) { p.answerWatch(d, down.Reason) }}))
	return nil
}

// answerWatch answers with the end of an actor: in its order, and by the control lane, too, when that takes long (ACT-13).
func (p *Proc) answerWatch(d *Delivery, why *Error) {
	forget := func(error) { p.remote.forget(d.Reply, d.From.Proc) }
	if d.wanted == nil || d.wanted.home.peer == nil { // it is asked within the process
		forget(nil)
		d.settle(nil, why)
		return
	}
	home := d.wanted.home
	e := wire.Envelope{Kind: wire.Failure, Sender: d.Actor, Body: EncodeError(why)}
	u := p.urging(home.peer.Unnamed(home.port), e, unheard{}, forget)
	u.word = true
	if !p.remote.goesOn(d.Reply, u.end) { // nobody wants to know any more
		return
	}
	if err := u.send(false); err != nil {
		forget(err)
		p.loud.Warn().Err(err).Stringer("to", home.port).Msg("the end of an actor was not told")
	}
}

// watchFar asks another proc for the end of an actor.
func (p *Proc) watchFar(m *monitoring, c *call, from string) error {
	body, err := wire.Marshal(None{})
	if err != nil {
		return err
	}
	if p.process.has(c.to.Proc) {
		err = p.question(c, from, portDown, written{body: body}, time.Time{}, nil)
		if err == nil {
			m.left(func() { p.closePort(c.key, c) })
		}
		return err
	}
	u, err := p.urgeAs(c, from, portDown, body)
	if err != nil {
		return err
	}
	u.word = true
	if err := u.send(false); err != nil {
		p.closePort(c.key, c)
		return err
	}
	m.left(func() {
		u.end()
		p.closePort(c.key, c)
	})
	return nil
}

// says tells another proc something about a watch or a link: in its order, and by the control lane, too, when that takes
// long (ACT-13). When it cannot arrive nobody is told: whoever it is about learns otherwise that the other is gone.
func (p *Proc) says(to subjects.PortID, what any) error {
	if p.process.has(to.Actor.Proc) {
		return p.post(clientName, to, what)
	}
	t, err := p.target(to.Actor, to.Port)
	if err != nil {
		return err
	}
	body, err := wire.Marshal(what)
	if err != nil {
		return err
	}
	key := p.id.Actor(clientName).Port(p.freshPort()).String()
	forget := func(error) { p.remote.forget(key, to.Actor.Proc) }
	u := p.urging(t.Target, wire.Envelope{Kind: wire.Message, Sender: clientName, Body: body}, unsaid{}, forget)
	u.word = true
	if n, ok := p.remote.reserve(p, key, to.Actor.Proc); !ok {
		return errorf(CodeMailboxFull, to.Actor.String(), to.Port, "the proc has %d watches of other procs already", n)
	}
	p.remote.began(key, u.end)
	if err := u.send(false); err != nil {
		forget(err)
		return err
	}
	return nil
}

// unsaid marks what nobody need be told of when it does not arrive.
type unsaid struct{}

func (unsaid) told(subjects.ProcID, *Error) {}

// overtakes answers by the control lane who asks there whether an actor has ended: one that has not been here may be about
// to be made, and one that lives is asked for again. Nothing is kept of it, for the question comes in its order, too.
func (p *Proc) overtakes(in *instance, home subjects.PortID, peer *link.Peer) {
	if in == nil {
		return
	}
	in.mu.Lock()
	var why *Error
	if in.state.terminal() {
		why = in.why()
	}
	in.mu.Unlock()
	if why != nil {
		p.links.Urge(peer, &wire.Envelope{
			Kind: wire.Failure, Actor: home.Actor.Within(), Port: home.Port, Sender: in.id().Within(), Body: EncodeError(why),
		})
	}
}

// overtaken takes the end of an actor that came by the control lane, and says that it came, or it would come again.
func (p *Proc) overtaken(from subjects.ActorID, peer *link.Peer, name string, e *wire.Envelope) {
	in := Incoming{From: from, Envelope: *e, urged: true}
	if c, is := p.findPort(name, e.Port).(*call); is && (c.heard == nil || c.recv(in) != nil) { // an error answers nothing else
		p.counts.malformed.Add(1)
		return
	}
	body, err := wire.Marshal(p.id.Actor(name).Port(e.Port).String())
	if err == nil {
		p.links.Urge(peer, &wire.Envelope{Kind: wire.Message, Actor: e.Sender, Port: portForget, Sender: p.id.Actor(clientName).Within(), Body: body})
	}
}

// remoteWatches are the watches of other procs, by their reply port, until their answers have arrived; and what is on its
// way to other procs for the sake of links and watches (Proc.says), by ports of this one.
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

// close lets go of what it hears, and of all that is on its way.
func (r *remoteWatches) close() {
	r.once.Do(func() { r.deafen = func() {} })
	r.deafen()
	r.drop(func(remoteWatch) bool { return true })
}

// reserve takes a place, or says how many are taken.
func (r *remoteWatches) reserve(p *Proc, reply string, of subjects.ProcID) (n int, ok bool) {
	r.once.Do(func() {
		r.deafen = p.OnUnreachable(func(id subjects.ProcID, _ error) { r.lost(id) })
	})
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

// began says how to end a watch, unless that is over, or goes on with its answer.
func (r *remoteWatches) began(reply string, cancel func()) {
	r.mu.Lock()
	w, there := r.all[reply]
	if there && w.cancel == nil {
		w.cancel = cancel
		r.all[reply] = w
	}
	r.mu.Unlock()
	if !there {
		cancel()
	}
}

// goesOn says how to end the answer to a watch from now on; false: that is over.
func (r *remoteWatches) goesOn(reply string, end func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, there := r.all[reply]
	if there {
		w.cancel = end
		r.all[reply] = w
	}
	return there
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

// lost ends the watches of a process that would not hear of it.
func (r *remoteWatches) lost(of subjects.ProcID) {
	r.drop(func(w remoteWatch) bool { return w.of == of || w.of.Lead() == of })
}

// drop ends the watches that match.
func (r *remoteWatches) drop(match func(remoteWatch) bool) {
	r.mu.Lock()
	var cancels []func()
	for reply, w := range r.all {
		if match(w) {
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
