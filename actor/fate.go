package actor

import (
	"errors"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// linkHandler is the first proc of a process as its links see it.
type linkHandler struct{ *Proc }

// fateObserver receives the fate of a message that did not arrive.
type fateObserver interface {
	// onFate takes the fate of a message to a proc.
	onFate(to subjects.ProcID, why *Error)
}

// Undelivered takes the fate of messages that were not delivered (DEL-1).
func (l linkHandler) Undelivered(f link.Fate) {
	to := f.Peer.ID().Proc()
	var actor, endpoint string
	if f.Mark.To != nil {
		id := f.Peer.ID().ActorByLocalName(f.Mark.To.Actor)
		to = id.Proc
		actor = id.String()
		endpoint = f.Mark.To.Port
	}
	why := l.outbox.fateError(f, to, actor, endpoint)
	switch waits := f.Mark.Call.(type) {
	case answerMark:
		l.counts.bounced.Add(uint64(f.Count))
		l.sampledLog.WithLevel(breakLevel(f.Reason, zerolog.WarnLevel)).Err(why).Msg("answer not delivered")
	case fateObserver:
		waits.onFate(to, why)
	default:
		p, name := l.process.find(f.Mark.Sender)
		for range f.Count {
			if p != nil {
				p.deadLetters.bounce(p.find(name), f.Mark.Type, nil, why)
			}
		}
	}
}

// fateError converts a fate to an error.
func (ob *outbox) fateError(f link.Fate, to subjects.ProcID, actor, endpoint string) *Error {
	code := CodeUnavailable
	switch f.Reason {
	case link.Refused:
		return FromWire(f.Why)
	case link.Expired:
		code = CodeExpired
	case link.NoProcess:
		code = CodeNoProc
	case link.Dead:
		if e, ok := ob.p.Members().Down(to); ok {
			err := procDead(actor, endpoint, e)
			err.knownUnhandled = f.Known
			return err
		}
		code = CodeProcDead
	case link.LinkReset, link.PeerClosed:
		code = CodeLinkBroken
	case link.Denied:
		code = CodeDenied
	case link.QueueFull:
		code = CodeBacklog
	case link.TooLarge:
		code = CodeTooLarge
	case link.LinksClosed:
		code = CodeStopped
	case link.BusClosed:
		code = CodeUnavailable
	}
	text := f.Text
	if f.Reason == link.NoProcess {
		text = "no responders: proc " + to.String() + " does not exist or is gone"
	}
	err := errorf(code, actor, endpoint, "%s", text)
	err.Ran, err.knownUnhandled = !f.Known, f.Known
	return err
}

// breakLevel is the log level of a broken link. The departure of either side is normal; waiting
// callers receive the error.
func breakLevel(why link.Reason, level zerolog.Level) zerolog.Level {
	switch why {
	case link.PeerClosed, link.NoProcess, link.LinksClosed:
		return zerolog.DebugLevel
	default:
		return level
	}
}

// Broken handles the end of a link: the outstanding answers may be lost with it.
func (l linkHandler) Broken(peer subjects.ProcessID, serial uint64, why error) {
	reason, _ := errors.AsType[*Error](l.outbox.sendError(peer.Proc(), peer.Proc().String(), "", why))
	if reason.Code == CodeProcDead || reason.Code == CodeStopped {
		return // the caller logs it
	}
	level := zerolog.ErrorLevel
	if e, ok := errors.AsType[*link.Error](why); ok {
		level = breakLevel(e.Reason, level)
	}
	l.log.WithLevel(level).Stringer("peer", peer).Str("reason", reason.Text).Msg("link broken")
	reason = ranError(reason)
	for _, p := range l.process.procs() {
		p.ports.failCalls(func(c *call) bool { return c.lostWith(peer, serial) },
			func(*call) error { return reason })
	}
	l.process.members.notifyUnreachable(peer.Proc(), reason)
}

// Dead returns the error of a process that is known to have ended.
func (l linkHandler) Dead(process subjects.ProcessID) error {
	if e, down := l.process.members.Down(process.Proc()); down {
		return procDead(process.Proc().String(), "", e)
	}
	return nil
}

// Forgotten handles the end of the memory of a process that said goodbye.
func (l linkHandler) Forgotten(process subjects.ProcessID) { l.process.members.noteLeft(process) }

// Malformed handles a packet that no peer of this build would send.
func (l linkHandler) Malformed(subject string, size int, err error) {
	l.counts.malformed.Add(1)
	l.sampledLog.Warn().Err(err).Str("subject", subject).Int("bytes", size).Msg("malformed message dropped")
}

// Cancel ends the contexts of messages whose callers stopped waiting.
func (l linkHandler) Cancel(from subjects.ProcessID, replies []string) {
	for _, reply := range replies {
		l.process.pending.cancel(from, reply)
	}
}

// bounceEnvelope is the envelope of a returned message, with its type as text.
func bounceEnvelope(sender, typ string, err error) wire.Envelope {
	return wire.Envelope{Kind: wire.Bounce, Sender: sender, Ext: []byte(typ), Body: EncodeError(err)}
}
