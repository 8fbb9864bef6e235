package actor

import (
	"sync"
	"time"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// deliverSystem serves the runtime's own ports of an actor of this proc.
func (p *Proc) deliverSystem(d *Delivery) error {
	target := p.id.Actor(d.Actor).String()
	in := p.find(d.Actor)
	if d.Port != portInfo && !d.From.IsValid() {
		return errorf(CodeNoEndpoint, target, d.Port, "want a castnet process, got a plain NATS client")
	}
	switch d.Port {
	case portDown:
		return p.remoteMonitors.serve(d)
	case portDemonitor:
		var reply string
		if err := d.read(&reply); err != nil {
			return errorf(CodeBadMessage, target, d.Port, "%v", err)
		}
		p.remoteMonitors.remove(reply, d.From.Proc)
		return nil
	case portLink:
		var other subjects.ActorID
		if err := d.read(&other); err != nil {
			return errorf(CodeBadMessage, target, d.Port, "%v", err)
		}
		if other.Proc != d.From.Proc {
			return errorf(CodeBadMessage, target, d.Port,
				"want a link to an actor of the sender's proc %s, got %q", d.From.Proc, other)
		}
		if in == nil { // the linking actor watches it, too
			return nil
		}
		p.workers.run(func() { // it may wait for the server
			if err := in.linkTo(other); err != nil {
				p.sampledLog.Warn().Err(err).Stringer("to", other).
					Msg("cannot link to an actor of another proc")
			}
		})
		return nil
	case portInfo:
		if d.Actor == clientName {
			d.complete(p.Info(), nil)
			return nil
		}
		if in == nil {
			return errorf(CodeNoActor, target, d.Port, "proc %s has no such actor", p.id)
		}
		d.complete(in.info(), nil)
		return nil
	case portCredit:
		if in == nil {
			return p.noActor(d.Actor, d.Port)
		}
		if p.workers.n.Load() >= maxCreditRequests {
			return errorf(CodeBacklog, target, d.Port, "too many senders wait for credit")
		}
		p.workers.run(func() {
			if taken := in.roomSignal(true); taken != nil {
				<-taken
			}
			d.complete(None{}, nil)
		})
		return nil
	}
	return p.ports.missingError(d.Actor, d.Port)
}

// read decodes a message for the runtime itself.
func (d *Delivery) read(to any) error { return d.Format.Decode(d.Raw, to) }

// serve answers a message with the end of the actor it is for.
func (r *remoteMonitors) serve(d *Delivery) error {
	p := r.p
	target := p.id.Actor(d.Actor).String()
	if d.Reply == "" || !d.awaitsAnswer() {
		return errorf(CodeBadMessage, target, d.Port, "want a port for the answer, got %q", d.Reply)
	}
	switch n, ok := r.reserve(d.Reply, d.From.Proc); {
	case ok:
	case n == maxRemoteMonitors:
		return errorf(CodeMailboxFull, target, d.Port, "the proc has %d monitors of other procs already", n)
	default:
		return errorf(CodeBadMessage, target, d.Port, "port %s has a monitor already", d.Reply)
	}
	r.setCancel(d.Reply, p.observeLocal(d.Actor,
		&endObserver{func(down Down) { r.answer(d, down.Reason) }}))
	return nil
}

// answer answers with the end of an actor, in order; after a delay also by the control connection
// (ACT-8).
func (r *remoteMonitors) answer(d *Delivery, why *Error) {
	p := r.p
	forget := func(error) { r.remove(d.Reply, d.From.Proc) }
	if d.replyTo == nil || d.replyTo.port.peer == nil { // it is asked within the process
		forget(nil)
		d.complete(nil, why)
		return
	}
	home := d.replyTo.port
	e := wire.Envelope{Kind: wire.Failure, Sender: d.Actor, Body: EncodeError(why)}
	u := newUrgentSend(p, home.peer.UnnamedTarget(home.port), e, answerMark{}, forget)
	u.supervision = true
	if !r.replaceCancel(d.Reply, u.stop) { // cancelled
		return
	}
	if err := u.send(false); err != nil {
		forget(err)
		p.sampledLog.Warn().Err(err).Stringer("to", home.port).Msg("cannot report the end of an actor")
	}
}

// ask asks another proc for the end of an actor.
func (r *remoteMonitors) ask(m *monitorState, c *call, from string) error {
	p := r.p
	body, err := wire.Marshal(None{})
	if err != nil {
		return err
	}
	if p.process.has(c.to.Proc) {
		err = c.send(p, from, portDown, encodedMessage{body: body}, time.Time{}, nil)
		if err == nil {
			m.onStop(func() { p.ports.remove(c.key, c) })
		}
		return err
	}
	u, err := newUrgentCall(p, c, from, portDown, body)
	if err != nil {
		return err
	}
	u.supervision = true
	if err := u.send(false); err != nil {
		p.ports.remove(c.key, c)
		return err
	}
	m.onStop(func() {
		u.stop()
		p.ports.remove(c.key, c)
	})
	return nil
}

// send sends another proc a message about a watch or a link, in order; after a delay also by the
// control connection (ACT-8). Its loss is not reported: both sides learn of each other's end in
// other ways.
func (r *remoteMonitors) send(to subjects.PortID, what any) error {
	p := r.p
	if p.process.has(to.Actor.Proc) {
		return p.sendUntyped(origin{}, clientName, to, what)
	}
	t, err := p.outbox.target(to.Actor, to.Port)
	if err != nil {
		return err
	}
	body, err := wire.Marshal(what)
	if err != nil {
		return err
	}
	key := p.id.Actor(clientName).Port(p.ports.freshName()).String()
	forget := func(error) { r.remove(key, to.Actor.Proc) }
	e := wire.Envelope{Kind: wire.Message, Sender: clientName, Body: body}
	u := newUrgentSend(p, t.Target, e, lossIgnored{}, forget)
	u.supervision = true
	if n, ok := r.reserve(key, to.Actor.Proc); !ok {
		return errorf(CodeMailboxFull, to.Actor.String(), to.Port,
			"the proc has %d monitors of other procs already", n)
	}
	r.setCancel(key, u.stop)
	if err := u.send(false); err != nil {
		forget(err)
		return err
	}
	return nil
}

// lossIgnored is the mark of messages whose loss is not reported.
type lossIgnored struct{}

func (lossIgnored) onFate(subjects.ProcID, *Error) {}

// answerEarly answers a monitor on the control connection if the actor has ended. An unknown actor
// may not exist yet, and a live one is asked again, so neither is answered. It keeps nothing,
// because the request also comes in order.
func (r *remoteMonitors) answerEarly(in *instance, home subjects.PortID, peer *link.Peer) {
	if in == nil {
		return
	}
	in.mu.Lock()
	var why *Error
	if in.state.terminal() {
		why = in.endError()
	}
	in.mu.Unlock()
	if why != nil {
		r.p.links.SendUrgent(peer, &wire.Envelope{
			Kind: wire.Failure, Actor: home.Actor.LocalName(), Port: home.Port, Sender: in.id().
				LocalName(), Body: EncodeError(why),
		})
	}
}

// receiveEnd takes an actor's end from the control connection, and acknowledges it to stop its
// repetition.
func (r *remoteMonitors) receiveEnd(from subjects.ActorID, peer *link.Peer, name string, e *wire.Envelope) {
	p := r.p
	in := Incoming{From: from, Envelope: *e, onControl: true}
	// only a call takes an error as its answer
	if c, is := p.ports.find(name, e.Port).(*call); is && (c.onAnswer == nil || c.recv(in) != nil) {
		p.counts.malformed.Add(1)
		return
	}
	body, err := wire.Marshal(p.id.Actor(name).Port(e.Port).String())
	if err == nil {
		p.links.SendUrgent(peer, &wire.Envelope{Kind: wire.Message, Actor: e.Sender, Port: portDemonitor,
			Sender: p.id.Actor(clientName).LocalName(), Body: body})
	}
}

// remoteMonitors holds the watches by other procs, by reply port, until their answers have arrived.
// It also holds this proc's own supervision messages in flight, by ports of this proc.
type remoteMonitors struct {
	p             *Proc
	once          sync.Once // starts the listener for unreachable procs
	stopListening func()    // ends the listener; written once

	mu  sync.Mutex // guards all
	all map[string]remoteMonitor
}

type remoteMonitor struct {
	of     subjects.ProcID
	cancel func() // nil: it has not begun
}

// maxRemoteMonitors bounds the watches by other procs; any more are answered with ErrMailboxFull.
const maxRemoteMonitors = 1 << 20

// close ends the listener and all watches.
func (r *remoteMonitors) close() {
	r.once.Do(func() { r.stopListening = func() {} })
	r.stopListening()
	r.removeMatching(func(remoteMonitor) bool { return true })
}

// reserve takes a place, or returns the number of taken places.
func (r *remoteMonitors) reserve(reply string, of subjects.ProcID) (n int, ok bool) {
	r.once.Do(func() {
		r.stopListening = r.p.Members().OnUnreachable(func(id subjects.ProcID, _ error) { r.removeProc(id) })
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.all[reply]; taken || len(r.all) == maxRemoteMonitors {
		return len(r.all), false
	}
	if r.all == nil {
		r.all = map[string]remoteMonitor{}
	}
	r.all[reply] = remoteMonitor{of: of}
	return len(r.all), true
}

// setCancel sets the function that ends a watch, unless the watch is over or being answered.
func (r *remoteMonitors) setCancel(reply string, cancel func()) {
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

// replaceCancel sets the function that ends the answer to a watch from now on; false if the watch
// is over.
func (r *remoteMonitors) replaceCancel(reply string, end func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, there := r.all[reply]
	if there {
		w.cancel = end
		r.all[reply] = w
	}
	return there
}

// remove ends a watch of a proc.
func (r *remoteMonitors) remove(reply string, of subjects.ProcID) {
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

// removeProc ends the watches by an unreachable process.
func (r *remoteMonitors) removeProc(of subjects.ProcID) {
	r.removeMatching(func(w remoteMonitor) bool { return w.of == of || w.of.Lead() == of })
}

// removeMatching ends the watches that match.
func (r *remoteMonitors) removeMatching(match func(remoteMonitor) bool) {
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
