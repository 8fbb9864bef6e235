package link

import (
	"errors"
	"runtime"
	"strconv"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
)

// hintBase is how the number of a packet is written in the subject of its hint.
const hintBase = 36

// wakeFlusher wakes the flusher.
func (l *Links) wakeFlusher() {
	if l.flusherAwake.CompareAndSwap(false, true) {
		l.wake <- struct{}{} // has room: the flusher takes it before it is not awake again
	}
}

// flusher publishes messages queued during another packet's write (natural batching).
func (l *Links) flusher() {
	for {
		select {
		case <-l.done:
			return
		case <-l.wake:
		}
		for l.flushInTurn() > 0 {
			runtime.Gosched()
			l.mu.Lock()
			more := l.readyToPublish()
			l.mu.Unlock()
			if !more {
				break
			}
		}
		l.flusherAwake.Store(false)
		l.mu.Lock()
		more := l.readyToPublish() // queued by a sender that saw the flusher awake
		l.mu.Unlock()
		if more {
			l.wakeFlusher()
		}
	}
}

// flushInTurn is flush with a wait for a concurrent flush.
func (l *Links) flushInTurn() (sent int) {
	l.publishMu.Lock()
	l.flushRequested.Store(false)
	sent = l.publishAll()
	l.publishMu.Unlock()
	return sent + l.flush()
}

// flush publishes all ready packets and returns their number. If another goroutine is publishing,
// that one does it.
func (l *Links) flush() (sent int) {
	for l.flushRequested.Store(true); l.flushRequested.Load(); {
		if !l.publishMu.TryLock() {
			return sent
		}
		l.flushRequested.Store(false)
		sent += l.publishAll()
		l.publishMu.Unlock()
	}
	return sent
}

func (l *Links) publishAll() (sent int) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return sent
		}
		now := l.now()
		l.coalescingSince.Store(0)
		pub, ok := l.core.Next(now)
		errands := len(l.core.effects) > 0
		l.setTimer() // for missing acknowledgements
		l.mu.Unlock()
		if errands {
			l.signalEffects()
		}
		if !ok {
			return sent
		}
		l.publish(pub)
		l.lastPublish.Store(l.now())
		sent++
	}
}

// publish hands a packet to the bus. A failed write counts as a loss in flight: the packet is
// requested and sent again.
func (l *Links) publish(pub Publish) {
	m := bus.Msg{Subject: pub.Subject, Data: pub.Data}
	if m.Subject == "" {
		m.Subject = l.o.Space.Frame(pub.To.id, l.self)
	}
	if pub.WantHint {
		m.Reply = l.o.Space.Hint(l.o.Self, strconv.FormatUint(pub.Seq, hintBase))
	}
	if pub.hops != nil && len(pub.Data)+hopsSize(pub.hops) <= l.o.Bus.Data().MaxPayload() {
		m.Header = hopsHeader(pub.hops)
	}
	err := l.o.Bus.Data().PublishMsg(m)
	switch {
	case err == nil, errors.Is(err, bus.ErrDisconnected), errors.Is(err, bus.ErrClosed):
	case errors.Is(err, bus.ErrTooLarge):
		l.mu.Lock()
		l.core.SetLimit(l.o.Bus.Data().MaxPayload())
		l.mu.Unlock()
	default:
		l.malformed(m.Subject, m.Data, err)
	}
}

// hopsHeader are the headers of a packet with a sampled message. A repeated packet has none.
func hopsHeader(h *wire.Hops) bus.Header {
	all := bus.Header{wire.HeaderTrace: {h.Trace.String()}}
	if h.Dest != "" {
		all.Set(wire.HeaderTraceDest, h.Dest)
	}
	return all
}

// hopsSize bounds the size of these headers.
func hopsSize(h *wire.Hops) int { return 128 + len(h.Dest) }

// signalEffects wakes the effect loop.
func (l *Links) signalEffects() { signal(l.effectsReady) }

// signal puts a value into a channel with capacity one, if it is empty.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// effectLoop runs the Core's effects, other than packets.
func (l *Links) effectLoop() {
	for {
		select {
		case <-l.done:
			return
		case <-l.effectsReady:
			l.runEffects()
		}
	}
}

// runEffects runs the pending effects. After its return all earlier effects have run.
func (l *Links) runEffects() {
	l.effectsMu.Lock()
	defer l.effectsMu.Unlock()
	l.effects = l.takeEffects(l.effects[:0])
	l.performEffects(l.effects)
	clear(l.effects) // or the messages in them stay
}

func (l *Links) takeEffects(into []Effect) []Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	into = l.core.Effects(into)
	for _, e := range into {
		switch e.Kind {
		case EffectRoom:
			l.signalRoom(e.Peer)
		case Suspect:
			l.suspects = append(l.suspects, e.Peer)
			signal(l.suspicion)
		}
	}
	return into
}

func (l *Links) performEffects(effects []Effect) {
	for _, e := range effects {
		switch e.Kind {
		case EffectControl:
			l.publishControl(e)
		case EffectFate:
			l.o.Handler.Undelivered(e.Fate)
		case EffectBroken:
			l.o.Handler.Broken(e.Peer.id, e.Serial, e.Err)
		case EffectForget:
			l.o.Handler.Forgotten(e.Peer.id)
		case EffectRoom, Suspect: // seen to when it was taken
		}
	}
	clear(effects)
}

// publishControl publishes on the control connection. Lost messages are repeated by their
// protocols.
func (l *Links) publishControl(e Effect) {
	subject := l.o.Space.Control(e.Peer.id, l.self)
	data, err := controlPacket(e)
	if err == nil {
		err = l.o.Bus.Control().Publish(subject, data)
	}
	if err != nil && !errors.Is(err, bus.ErrDisconnected) && !errors.Is(err, bus.ErrClosed) {
		l.malformed(subject, data, err)
	}
}

func controlPacket(e Effect) ([]byte, error) {
	switch body := e.Body.(type) {
	case nil:
		return wire.AppendHead(nil, wire.Head{Kind: e.Packet}), nil
	case []byte: // of Urgent: all of it
		return body, nil
	}
	return wire.AppendControl(nil, e.Packet, e.Body)
}
