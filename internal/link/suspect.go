package link

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// suspect is the state of a silent peer according to servers (LINK-13).
type suspect struct {
	asked bool          // they are being asked
	at    Instant       // when they may be asked again
	gap   time.Duration // interval between questions about a peer that is there, or unknown
	gone  bool          // the servers caused outgoing.noResponderSince
}

// trust ends the suspicion of a peer.
func (s *suspect) trust() { *s = suspect{asked: s.asked} }

// suspected asks servers about a silent peer that owes an answer, and returns the time of the next
// question. Servers are not asked where the bus itself reports missing subscribers.
func (snd *sender) suspected(now Instant, p *Peer) (next Instant) {
	o, s := &p.out, &p.suspect
	next = max(s.at, p.lastHeard+Instant(snd.cfg.Suspect), o.awaitingSince+Instant(snd.cfg.Suspect))
	if s.gone {
		next = o.noResponderSince + snd.noResponderGrace(p)
	}
	if s.asked || o.noResponderSince != 0 && !s.gone {
		return 0
	}
	if next > now {
		return next
	}
	s.asked = true
	snd.addEffect(Effect{Kind: Suspect, Peer: p})
	return 0
}

// OnAsked takes the answer of the servers about a suspect, for a question at an instant. The
// suspect is gone or there if known is set. Otherwise the servers gave no certain answer.
func (snd *sender) OnAsked(now Instant, p *Peer, asked Instant, gone, known bool) {
	snd.catchUp(p)
	o, s := &p.out, &p.suspect
	s.asked = false
	switch {
	case !o.awaitsAck() || p.lastHeard >= asked:
	case known && gone:
		s.gone = s.gone || o.noResponderSince == 0
		snd.OnHint(now, p, 0)
	default:
		if known && s.gone {
			s.gone = false
			o.noResponderSince = 0
		}
		s.gap = max(2*s.gap, snd.cfg.Suspect)
		s.at = now + Instant(s.gap)
	}
	if o.awaitsAck() {
		snd.scheduleTick(p, snd.suspected(now, p))
	}
}

// maxSuspects bounds the peers in question at a time: if many are silent at once, this process is
// probably cut off.
const maxSuspects = 16

// asker asks servers about suspects.
func (l *Links) asker(ctx context.Context) {
	for may := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-l.suspicion:
		}
		l.mu.Lock()
		all := l.suspects
		l.suspects = nil
		l.mu.Unlock()
		if may && len(all) > 0 {
			may = l.askAbout(ctx, all)
		}
	}
}

// askAbout asks about the first suspects; the others follow later. It reports whether this user has
// the permission.
func (l *Links) askAbout(ctx context.Context, all []*Peer) (may bool) {
	var frames []string
	for _, p := range all[:min(len(all), maxSuspects)] {
		frames = append(frames, l.o.Space.Frame(p.id, l.self))
	}
	var gone []bool
	asked := l.now()
	nobody, err := subjects.NewMeshID("nobody")
	if err == nil {
		gone, err = l.o.Bus.Control().
			Absent(ctx, l.o.Space.Frame(subjects.ProcID{Mesh: nobody}.Process(), l.self), frames)
	}
	l.withCore(func(now Instant) {
		for i, p := range all {
			known := err == nil && i < len(gone)
			l.core.OnAsked(now, p, asked, known && gone[i], known)
		}
	})
	_, denied := errors.AsType[*bus.PermissionError](err)
	return !denied
}
