package actor

// seize takes everything out of the mailbox that no handler has, for good, and returns what tells
// its senders why. The lock is held; what is returned is to be called without it.
func (in *instance) seize(why *Error) (tell func()) {
	b := in.box
	if b == nil {
		return func() {}
	}
	b.interrupt.Store(true) // before claimed is read: what the turn claims after that it gives up
	b.seized = b.claimed.Load()
	parts := append(split(b.taken, int(b.seized), out), split(b.order, 0, incoming)...)
	b.order, b.queued = nil, 0
	b.makeRoom() // to be refused
	return func() {
		for _, part := range parts {
			part.reject(in.proc, why)
		}
	}
}

// leftover tells the sender of a message that the turn had claimed when the mailbox was seized, and
// then gave up. It runs on the turn, after the seizure.
func (in *instance) leftover(why *Error) {
	if b := in.box; b != nil && b.seized == b.claims+1 {
		one := split(b.taken, int(b.claims), out)[0]
		one.to = one.from + 1
		one.reject(in.proc, why)
	}
}

// part is some messages of a pile.
type part struct {
	pile     pile
	from, to int
}

func (t part) reject(p *Proc, why *Error) { t.pile.reject(p, t.from, t.to, why) }

// split lists the messages of runs after the first skip, in order.
func split(runs []run, skip int, side func(lane) pile) []part {
	var parts []part
	next := map[*slot]int{}
	for _, r := range runs {
		from := next[r.slot]
		next[r.slot] += r.n
		left := min(skip, r.n)
		skip -= left
		if left < r.n {
			parts = append(parts, part{side(r.lane), from + left, from + r.n})
		}
	}
	return parts
}

func incoming(l lane) pile {
	in, _ := l.sides()
	return in
}

func out(l lane) pile {
	_, out := l.sides()
	return out
}
