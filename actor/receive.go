package actor

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// counters counts what a proc could not use.
type counters struct {
	malformed, late, undeliverable, bounced, fenced, foreign atomic.Uint64
}

// Stats counts messages of a proc since it started.
type Stats struct {
	Links         link.Stats
	Malformed     uint64 // did not decode, or came from nobody
	Late          uint64 // answers nobody waits for any more
	Undeliverable uint64 // came here and found no mailbox
	Bounced       uint64 // sent from here and came back
	Fenced        uint64 // came from a proc that is known to be dead
	Foreign       uint64 // came from plain NATS clients
}

// Stats returns the counts so far.
func (p *Proc) Stats() Stats {
	c := &p.counts
	return Stats{
		Links: p.receiver.Stats(), Malformed: c.malformed.Load(), Late: c.late.Load(),
		Undeliverable: c.undeliverable.Load(), Bounced: c.bounced.Load(), Fenced: c.fenced.Load(),
		Foreign: c.foreign.Load(),
	}
}

// receivePort takes what the bus brings for this proc's ports, on the data pump.
func (p *Proc) receivePort(m bus.Msg) {
	s, err := p.space.Parse(m.Subject)
	if err != nil {
		p.malformed(m, err)
		return
	}
	if !wire.IsFrame(m.Data) {
		p.Foreign(s.Actor, s.Port, ForeignMessage{Msg: m, From: s.From})
		return
	}
	f, from, err := p.Open(m, s)
	if err != nil {
		p.malformed(m, err)
		return
	}
	if p.Accept(from, f.N, f.Prev) {
		p.route(s.Actor, s.Port, from.Proc().Actor(f.Sender), f)
	}
}

// Open decodes a frame and names its sender.
func (p *Proc) Open(m bus.Msg, s subjects.Subject) (wire.Frame, subjects.ProcessID, error) {
	f, err := wire.Decode(m.Data)
	if err != nil {
		return f, subjects.ProcessID{}, err
	}
	from, err := subjects.ParseProcessID(s.From)
	return f, from, err
}

// Accept checks a frame's place in its link and reports whether to deliver it (DEL-3, DEL-4). A
// link that breaks here is refused from now on, and its sender is told, again while he does not
// listen. As no answer can come over it any more, nothing that wants one is sent to that peer either.
func (p *Proc) Accept(from subjects.ProcessID, n, prev uint64) bool {
	if _, dead := p.Down(from.Proc()); dead { // DEL-5
		p.counts.fenced.Add(1)
		return false
	}
	p.sender.Heard(from)
	verdict, reason, tell := p.receiver.Accept(from, n, prev)
	if tell {
		lost := errorf(CodeLinkBroken, "", "", "%s lost a message of %s: %s", p.id, from.Proc(), reason)
		p.sendControl(from, wire.Frame{Kind: wire.Break, Body: EncodeError(lost)})
		p.breakLink(from, lost)
	}
	return verdict == link.Deliver
}

// route hands an accepted frame to a port or a mailbox.
func (p *Proc) route(actor, name string, from subjects.ActorID, f wire.Frame) {
	if pt := p.findPort(actor, name); pt != nil {
		if err := pt.recv(Incoming{From: from, Frame: f}); err != nil {
			p.undeliverable(&Delivery{Actor: actor, Port: name, From: from, n: f.N, Answer: p.AnswerTo(actor, f.Reply)}, err)
		}
		return
	}
	if f.Kind != wire.Message {
		p.counts.late.Add(1)
		return
	}
	d := Delivery{Actor: actor, Port: name, From: from, Raw: f.Body, Reply: f.Reply, n: f.N, Answer: p.AnswerTo(actor, f.Reply)}
	if f.TTL > 0 {
		d.Deadline = time.Now().Add(f.TTL)
	}
	p.Deliver(d)
}

// AnswerTo makes the Answer of a delivery whose sender named a reply port; nil when it named none.
func (p *Proc) AnswerTo(actor, reply string) func(Answer) {
	if reply == "" {
		return nil
	}
	to, err := subjects.ParsePortID(reply)
	if err != nil {
		p.counts.malformed.Add(1)
		p.loud.Warn().Err(err).Msg("a message with a malformed reply port")
		return func(Answer) {} // somebody wants an answer: an error of the handler is not the actor's end
	}
	return func(a Answer) { p.answer(actor, to, a, nil) }
}

// Deliver puts a message into a mailbox of this proc; when that cannot be, the sender is told.
func (p *Proc) Deliver(d Delivery) {
	if err := p.deliver(&d); err != nil {
		p.undeliverable(&d, err)
	}
}

func (p *Proc) deliver(d *Delivery) error {
	in := p.find(d.Actor)
	if strings.HasPrefix(d.Port, "_") {
		return p.system(d)
	}
	if in == nil {
		return errorf(CodeNoActor, p.id.Actor(d.Actor).String(), d.Port, "proc %s has no such actor", p.id)
	}
	return in.deliver(d)
}

// receiveControl takes what peers say about links and lost mail, on the control pump.
func (p *Proc) receiveControl(m bus.Msg) {
	s, err := p.space.Parse(m.Subject)
	if err != nil {
		p.malformed(m, err)
		return
	}
	f, from, err := p.Open(m, s)
	if err != nil {
		p.malformed(m, err)
		return
	}
	if _, dead := p.Down(from.Proc()); dead { // DEL-5
		p.counts.fenced.Add(1)
		return
	}
	reason := FromWire(f.Body)
	switch f.Kind {
	case wire.Bounce:
		n, _ := binary.Uvarint(f.Ext) // 0, which is nobody's, when it is malformed
		p.comeBack(p.find(f.Reply), p.posts.take(n).typ, nil, reason)
	case wire.Break:
		p.breakLink(from, errorf(CodeLinkBroken, "", "", "%s", reason.Text))
	default:
		p.counts.malformed.Add(1)
	}
}

// breakLink stops sending to a peer when one of the two refuses what the other sends (LINK-4), and
// fails what waits for it.
func (p *Proc) breakLink(peer subjects.ProcessID, reason *Error) {
	if !p.sender.Break(peer, reason.Text) {
		return
	}
	p.log.Error().Stringer("peer", peer).Str("reason", reason.Text).Msg("link broken")
	p.failCalls(func(c *call) bool { return c.to.Proc.Process() == peer }, reason)
	p.notify(peer.Proc(), reason)
}

// receiveHint takes the server's word that nobody listened where this proc published the message
// whose number the hint's subject ends in. It is that message's fate and no other's (DEL-2).
func (p *Proc) receiveHint(m bus.Msg) {
	if !m.NoResponders {
		return
	}
	hint, err := p.space.Parse(m.Subject)
	n, nerr := strconv.ParseUint(hint.Link, hintBase, 64)
	s, serr := p.space.Parse(m.HintFor)
	if err := errors.Join(err, nerr, serr); err != nil || s.Kind != subjects.KindPort {
		p.malformed(m, err)
		return
	}
	nobody := errorf(CodeNoProc, s.Proc.Actor(s.Actor).String(), s.Port, "nobody listens there: proc %s does not exist or is gone", s.Proc)
	if p.failCalls(func(c *call) bool { return c.n.Load() == n }, nobody) == 0 {
		post := p.posts.take(n)
		p.comeBack(p.find(post.from), post.typ, nil, nobody)
	}
	p.notify(s.Proc, ranError(nobody)) // what was sent before may have been handled
}

func (p *Proc) malformed(m bus.Msg, err error) {
	p.counts.malformed.Add(1)
	p.loud.Warn().Err(err).Str("subject", m.Subject).Int("bytes", len(m.Data)).Msg("malformed message dropped")
}
