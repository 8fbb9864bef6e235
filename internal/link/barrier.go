package link

// Barrier is reached when every message that was sent before it was made has its fate; one of NewBarrier, when the message
// that was sent with it has.
type Barrier struct {
	open int
	done chan struct{}
}

// NewBarrier makes a barrier for one message: see Links.Track.
func NewBarrier() *Barrier { return &Barrier{open: 1, done: make(chan struct{})} }

// Reached reports whether it is; of no barrier, false.
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

func pass(bs []*Barrier) {
	for _, b := range bs {
		if b.open--; b.open == 0 {
			close(b.done)
		}
	}
}

// among adds a barrier for one message to those that wait with it.
func (b *Barrier) among(list []*Barrier) []*Barrier {
	if b == nil {
		return list
	}
	return append(list, b)
}

// before makes a barrier wait for something whose own list this is.
func (b *Barrier) before(list *[]*Barrier) {
	b.open++
	*list = append(*list, b)
}

// Barrier makes a barrier behind all that was sent so far. Each frame counts for itself, for a later one
// may be told its fate before. Receivers that owe an acknowledgement are asked for it.
func (c *Core) Barrier(now Instant) *Barrier {
	b := NewBarrier()
	c.levelAll()
	for _, p := range c.watching {
		o := &p.out
		for _, f := range o.queue {
			b.before(&f.waiting)
		}
		for _, t := range o.transfers {
			b.before(&t.waiting)
			for i := range t.followers {
				b.before(&t.followers[i].waiting)
			}
		}
		for i := range o.sent {
			if it := &o.sent[i]; !it.settled() {
				b.before(&it.waiting)
			}
		}
		if len(o.sent) > o.reached && c.up {
			o.beatGap = 0
			c.beat(now, p)
		}
	}
	pass([]*Barrier{b})
	return b
}

// settled reports whether every message of a packet has been told its fate.
func (it *item) settled() bool {
	if it.f.subject != "" {
		return it.told
	}
	for i := range it.f.owed {
		if !it.f.owed[i].told {
			return false
		}
	}
	return true
}

// pass lets those go on who wait for the fates of a packet, which stays for the order's sake.
func (it *item) pass() {
	if len(it.waiting) > 0 && it.settled() {
		pass(it.waiting)
		it.waiting = nil
	}
}
