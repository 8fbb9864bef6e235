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

// rouse wakes the flusher.
func (l *Links) rouse() {
	if l.awake.CompareAndSwap(false, true) {
		l.wake <- struct{}{} // has room: the flusher takes it before it is not awake again
	}
}

// flusher publishes what queues up while another packet is on its way out (natural batching).
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
			more := l.ripe()
			l.mu.Unlock()
			if !more {
				break
			}
		}
		l.awake.Store(false)
		l.mu.Lock()
		more := l.ripe() // queued by one who saw that we were awake
		l.mu.Unlock()
		if more {
			l.rouse()
		}
	}
}

// flushInTurn is flush that waits for whoever is at it.
func (l *Links) flushInTurn() (sent int) {
	l.publishing.Lock()
	l.wanted.Store(false)
	sent = l.publishAll()
	l.publishing.Unlock()
	return sent + l.flush()
}

// flush publishes all there is, unless somebody else is at it, who then does, and says how many packets
// it were.
func (l *Links) flush() (sent int) {
	for l.wanted.Store(true); l.wanted.Load(); {
		if !l.publishing.TryLock() {
			return sent
		}
		l.wanted.Store(false)
		sent += l.publishAll()
		l.publishing.Unlock()
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
		l.since.Store(0)
		pub, ok := l.core.Next(now)
		errands := len(l.core.effects) > 0
		l.setTimer() // what has left is missed when nobody acknowledges it
		l.mu.Unlock()
		if errands {
			l.send()
		}
		if !ok {
			return sent
		}
		l.publish(pub)
		l.lastAt.Store(l.now())
		sent++
	}
}

// publish hands a packet to the bus. What it does not take is as good as lost on the way: it is missed,
// and sent again.
func (l *Links) publish(pub Publish) {
	m := bus.Msg{Subject: pub.Subject, Data: pub.Data}
	if m.Subject == "" {
		m.Subject = l.o.Space.Frame(pub.To.id, l.self)
	}
	if pub.Hint {
		m.Reply = l.o.Space.Hint(l.o.Self, strconv.FormatUint(pub.N, hintBase))
	}
	err := l.o.Bus.Data().PublishMsg(m)
	switch {
	case err == nil, errors.Is(err, bus.ErrDisconnected), errors.Is(err, bus.ErrClosed):
	case errors.Is(err, bus.ErrTooLarge):
		l.mu.Lock()
		l.core.Limit(l.o.Bus.Data().MaxPayload())
		l.mu.Unlock()
	default:
		l.malformed(m.Subject, m.Data, err)
	}
}

// send lets the errander know that there is something to do.
func (l *Links) send() {
	select {
	case l.errands <- struct{}{}:
	default:
	}
}

// errander does what the Core wants done, besides publishing packets.
func (l *Links) errander() {
	for {
		select {
		case <-l.done:
			return
		case <-l.errands:
			l.errand()
		}
	}
}

// errand does what there is to be done; when it returns, what was to be done before has been.
func (l *Links) errand() {
	l.performing.Lock()
	defer l.performing.Unlock()
	l.effects = l.take(l.effects[:0])
	l.perform(l.effects)
}

func (l *Links) take(into []Effect) []Effect {
	l.mu.Lock()
	defer l.mu.Unlock()
	into = l.core.Effects(into)
	for _, e := range into {
		if e.Kind == Room {
			l.makeRoom(e.Peer)
		}
	}
	return into
}

func (l *Links) perform(effects []Effect) {
	for _, e := range effects {
		switch e.Kind {
		case Control:
			l.say(e)
		case Told:
			l.o.Handler.Told(e.Fate)
		case Broken:
			l.o.Handler.Broken(e.Peer.id, e.Serial, e.Err)
		case Room: // made when it was taken
		}
	}
	clear(effects)
}

// say publishes on the control lane. What is lost is said again when it is missed.
func (l *Links) say(e Effect) {
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
