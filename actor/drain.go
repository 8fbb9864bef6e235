package actor

// drain permanently removes all unclaimed messages from the mailbox; nil has none. The returned
// function notifies their senders of why. The lock is held; call the function without it.
func (b *mailbox) drain(why *Error) (tell func()) {
	if b == nil {
		return func() {}
	}
	b.interrupt.Store(true) // before claimed is read: the turn gives up later claims
	b.claimedAtDrain = b.claimed.Load()
	parts := append(unhandledRanges(b.batch, int(b.claimedAtDrain), outSide),
		unhandledRanges(b.order, 0, inSide)...)
	b.order = nil
	b.queued = 0
	b.credited = 0
	b.signalRoom() // to be refused
	return func() {
		for _, part := range parts {
			part.reject(b.sendCtx.in.proc, why)
		}
	}
}

// rejectLeftover notifies the sender of a message that the turn had claimed before drain and then
// gave up. It runs on the turn, after the drain.
func (b *mailbox) rejectLeftover(why *Error) {
	if b != nil && b.claimedAtDrain == b.turnClaims+1 {
		one := unhandledRanges(b.batch, int(b.turnClaims), outSide)[0]
		one.to = one.from + 1
		one.reject(b.sendCtx.in.proc, why)
	}
}

// messageRange is some messages of a pile.
type messageRange struct {
	side     queueSide
	from, to int
}

func (t messageRange) reject(p *Proc, why *Error) { t.side.reject(p, t.from, t.to, why) }

// unhandledRanges lists the messages of runs after the first skip, in order.
func unhandledRanges(runs []run, skip int, side func(endpointQueue) queueSide) []messageRange {
	var parts []messageRange
	next := map[*slot]int{}
	for _, r := range runs {
		from := next[r.slot]
		next[r.slot] += r.n
		left := min(skip, r.n)
		skip -= left
		if left < r.n {
			parts = append(parts, messageRange{side(r.queue), from + left, from + r.n})
		}
	}
	return parts
}

func inSide(l endpointQueue) queueSide {
	in, _ := l.sides()
	return in
}

func outSide(l endpointQueue) queueSide {
	_, out := l.sides()
	return out
}
