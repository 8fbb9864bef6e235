package actor

import (
	"sync"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// serve answers a message with the end of the actor it is for.
func (r *monitors) serve(q *request) error {
	p := r.p
	target := p.id.Actor(q.Actor).String()
	if q.replyTo == nil {
		return errorf(CodeBadMessage, target, q.Port, "want a port for the answer, got %q", q.Reply)
	}
	switch n, ok := r.reserve(q.Reply, q.From.Proc); {
	case ok:
	case n == maxRemoteMonitors:
		return errorf(CodeMailboxFull, target, q.Port, "the proc has %d monitors of other procs already", n)
	default:
		return errorf(CodeBadMessage, target, q.Port, "port %s has a monitor already", q.Reply)
	}
	r.setCancel(q.Reply, r.observeLocal(q.Actor,
		&endObserver{func(down Down) { r.answer(q, down.Reason) }}))
	return nil
}

// answer answers with the end of an actor, in order; after a delay also by the control connection
// (ACT-8).
func (r *monitors) answer(q *request, why *Error) {
	p := r.p
	forget := func(error) { r.remove(q.Reply, q.From.Proc) }
	home := q.replyTo
	if home.peer == nil { // it is asked within the process
		forget(nil)
		q.complete(nil, why)
		return
	}
	e := wire.Envelope{Kind: wire.Failure, Sender: q.Actor, Body: EncodeError(why)}
	u := newUrgentSend(p, home.peer.UnnamedTarget(home.port), e, answerMark{}, forget)
	u.supervision = true
	if !r.replaceCancel(q.Reply, u.stop) { // cancelled
		return
	}
	if err := u.send(false); err != nil {
		forget(err)
		p.sampledLog.Warn().Err(err).Stringer("to", home.port).Msg("cannot report the end of an actor")
	}
}

// ask asks another proc for the end of an actor.
func (r *monitors) ask(m *monitorState, c *call, from string) error {
	p := r.p
	body, err := wire.Marshal(None{})
	if err != nil {
		return err
	}
	if p.process.has(c.to.Proc) {
		o := newOutbound(from, c.to.Port(portDown), "")
		o.envelope.Body = body
		err = c.send(p, &o)
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
func (r *monitors) send(to subjects.PortID, what any) error {
	p := r.p
	if p.process.has(to.Actor.Proc) {
		o := newOutbound(clientName, to, "")
		buf, err := encode(&p.outbox, &o.envelope, what)
		return p.outbox.sendEncoded(&o, buf, err)
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
func (r *monitors) answerEarly(in *instance, home subjects.PortID, peer *link.Peer) {
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
func (r *monitors) receiveEnd(from subjects.ActorID, peer *link.Peer, name string, e *wire.Envelope) {
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

// monitors holds the watches by other procs, by reply port, until their answers have arrived.
// It also holds this proc's own supervision messages in flight, by ports of this proc.
type monitors struct {
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
func (r *monitors) close() {
	r.once.Do(func() { r.stopListening = func() {} })
	r.stopListening()
	r.removeMatching(func(remoteMonitor) bool { return true })
}

// reserve takes a place, or returns the number of taken places.
func (r *monitors) reserve(reply string, of subjects.ProcID) (n int, ok bool) {
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
func (r *monitors) setCancel(reply string, cancel func()) {
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
func (r *monitors) replaceCancel(reply string, end func()) bool {
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
func (r *monitors) remove(reply string, of subjects.ProcID) {
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
func (r *monitors) removeProc(of subjects.ProcID) {
	r.removeMatching(func(w remoteMonitor) bool { return w.of == of || w.of.Lead() == of })
}

// removeMatching ends the watches that match.
func (r *monitors) removeMatching(match func(remoteMonitor) bool) {
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
