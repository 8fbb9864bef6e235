package link

// Barrier is reached when every message sent before it has its fate. A barrier of NewBarrier is
// reached when the message sent with it has its fate.
type Barrier struct {
	pending int
	done    chan struct{}
}

// NewBarrier creates a barrier for one message: see Core.SendWhole.
func NewBarrier() *Barrier { return &Barrier{pending: 1, done: make(chan struct{})} }

// Reached reports whether the barrier is reached; a nil barrier never is.
func (b *Barrier) Reached() bool {
	if b == nil {
		return false
	}
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// Done is closed when the barrier is reached.
func (b *Barrier) Done() <-chan struct{} { return b.done }

func releaseBarriers(bs []*Barrier) {
	for _, b := range bs {
		b.pending--
		if b.pending == 0 {
			close(b.done)
		}
	}
}

// appendTo adds a barrier for one message to a list.
func (b *Barrier) appendTo(list []*Barrier) []*Barrier {
	if b == nil {
		return list
	}
	return append(list, b)
}

// waitFor adds a barrier to the list of an object that it waits for.
func (b *Barrier) waitFor(list *[]*Barrier) {
	b.pending++
	*list = append(*list, b)
}

// Barrier creates a barrier behind all messages sent so far. Each frame counts for itself, because
// a later one may get its fate first. Receivers with outstanding acknowledgements are probed.
func (snd *sender) Barrier(now Instant) *Barrier {
	b := NewBarrier()
	snd.catchUpAllGroups()
	for _, p := range snd.watching {
		o := &p.out
		for _, f := range o.queue {
			b.waitFor(&f.barriers)
		}
		for _, t := range o.transfers {
			b.waitFor(&t.barriers)
			for i := range t.followers {
				b.waitFor(&t.followers[i].barriers)
			}
		}
		for i := range o.sent {
			if it := &o.sent[i]; !it.isSettled() {
				b.waitFor(&it.barriers)
			}
		}
		if len(o.sent) > o.repliedPackets && snd.connected {
			o.probeInterval = 0
			snd.probe(now, p)
		}
	}
	releaseBarriers([]*Barrier{b})
	return b
}

// isSettled reports whether every message of a packet has its fate.
func (it *sentPacket) isSettled() bool {
	if it.frame.subject != "" {
		return it.fateKnown
	}
	for i := range it.frame.fates {
		if !it.frame.fates[i].settled {
			return false
		}
	}
	return true
}

// releaseBarriers releases the barriers behind a packet. The packet itself stays to keep the order.
func (it *sentPacket) releaseBarriers() {
	if len(it.barriers) > 0 && it.isSettled() {
		releaseBarriers(it.barriers)
		it.barriers = nil
	}
}
