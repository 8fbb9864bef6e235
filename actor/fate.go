package actor

import (
	"errors"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// linked is the first proc of a process as its links see it.
type linked struct{ *Proc }

// teller is who wants to know of a message that did not arrive.
type teller interface {
	// told takes its fate; to is where it went.
	told(to subjects.ProcID, why *Error)
}

// Told takes the fate of messages that were not delivered (DEL-1).
func (l linked) Told(f link.Fate) {
	to, actor, endpoint := f.Peer.ID().Proc(), "", ""
	if f.Mark.To != nil {
		id := f.Peer.ID().Within(f.Mark.To.Actor)
		to, actor, endpoint = id.Proc, id.String(), f.Mark.To.Port
	}
	why := l.fateError(f, to, actor, endpoint)
	switch waits := f.Mark.Call.(type) {
	case unheard:
		l.counts.bounced.Add(uint64(f.Count))
		l.loud.WithLevel(gravity(f.Reason, zerolog.WarnLevel)).Err(why).Msg("an answer did not arrive")
	case teller:
		waits.told(to, why)
	default:
		p, name := l.process.find(f.Mark.Sender)
		for range f.Count {
			if p != nil {
				p.comeBack(p.find(name), f.Mark.Type, nil, why)
			}
		}
	}
}

// fateError says what became of a message.
func (p *Proc) fateError(f link.Fate, to subjects.ProcID, actor, endpoint string) *Error {
	code := CodeUnavailable
	switch f.Reason {
	case link.Refused:
		return FromWire(f.Why)
	case link.Expired:
		code = CodeExpired
	case link.NoProcess:
		code = CodeNoProc
	case link.Dead:
		if e, ok := p.Down(to); ok {
			err := procDead(actor, endpoint, e)
			err.sure = f.Known
			return err
		}
		code = CodeProcDead
	case link.LinkOver, link.Departed:
		code = CodeLinkBroken
	case link.Full:
		code = CodeBacklog
	case link.TooLarge:
		code = CodeTooLarge
	case link.Closed:
		code = CodeStopped
	case link.NoBus:
		code = CodeUnavailable
	}
	text := f.Text
	if f.Reason == link.NoProcess {
		text = "nobody listens there: proc " + to.String() + " does not exist or is gone"
	}
	err := errorf(code, actor, endpoint, "%s", text)
	err.Ran, err.sure = !f.Known, f.Known
	return err
}

// gravity is how loud it is said that a link is over. A peer that has gone, as every client does, is no news:
// who waits for it is told.
func gravity(why link.Reason, level zerolog.Level) zerolog.Level {
	if why == link.Departed || why == link.NoProcess {
		return zerolog.DebugLevel
	}
	return level
}

// Broken says that a link is over: the answers that are waited for may be lost with it.
func (l linked) Broken(peer subjects.ProcessID, serial uint64, why error) {
	reason, _ := errors.AsType[*Error](l.sendError(peer.Proc(), peer.Proc().String(), "", why))
	if reason.Code == CodeProcDead || reason.Code == CodeStopped {
		return // it is said by who knows it
	}
	level := zerolog.ErrorLevel
	if e, ok := errors.AsType[*link.Error](why); ok {
		level = gravity(e.Reason, level)
	}
	l.log.WithLevel(level).Stringer("peer", peer).Str("reason", reason.Text).Msg("link broken")
	reason = ranError(reason)
	for _, p := range l.process.procs() {
		p.failCalls(func(c *call) bool { return c.lost(peer, serial) }, func(*call) error { return reason })
	}
	l.notify(peer.Proc(), reason)
}

// Malformed takes what no peer of this build would send.
func (l linked) Malformed(subject string, size int, err error) {
	l.counts.malformed.Add(1)
	l.loud.Warn().Err(err).Str("subject", subject).Int("bytes", size).Msg("malformed message dropped")
}

// Cancel ends the contexts of messages whose senders wait no longer.
func (l linked) Cancel(from subjects.ProcessID, replies []string) {
	for _, reply := range replies {
		l.process.asked.cancel(from, reply)
	}
}

// Deliver takes messages that came over a link, on the data pump.
func (l linked) Deliver(in *link.Inbound) (taken int, why []byte) {
	taken, err := l.deliverIn(in)
	if err != nil {
		l.counts.undeliverable.Add(1)
		return taken, EncodeError(err)
	}
	return taken, nil
}

// deliverIn finds the proc that a message is for.
func (l linked) deliverIn(in *link.Inbound) (taken int, err error) {
	e := in.Envelope
	p, name := l.process.find(e.Actor)
	if p == nil {
		return 0, errorf(CodeNoProc, l.self.Within(e.Actor).String(), e.Port, "process %s has no such proc", l.self)
	}
	if p == l.Proc {
		return l.inbound.deliver(p, in)
	}
	other := *e
	other.Actor = name
	in.Envelope = &other
	defer func() { in.Envelope = e }()
	return l.inbound.deliver(p, in)
}

// bounceExt is the type of a message that comes back, as text.
func bounce(sender, typ string, err error) wire.Envelope {
	return wire.Envelope{Kind: wire.Bounce, Sender: sender, Ext: []byte(typ), Body: EncodeError(err)}
}
