package actor

import (
	"context"
	"errors"
	"sync/atomic"
)

// waitWindow is the credit of SendWait to an endpoint or port of another proc, in bytes. waitCost
// is the cost of a message besides its body.
const (
	waitWindow = 8 << 20
	waitCost   = 256
)

// maxCreditRequests bounds the goroutines of a process with requests for credit.
const maxCreditRequests = 1 << 16

// waitCredit is the credit of SendWait to an endpoint of another proc. The mailbox grants it half
// by half: after each half the sender requests the next, and the mailbox grants it when its actor
// takes up what came before the request. A port and its receiver do the same:
//
//	sender                                  mailbox
//	half, request 1, half ────────────────▶ queued
//	waits                  ◀── grant 1 ──── taken up
//	request 2, half ──────────────────────▶ queued
type waitCredit struct {
	half      int64
	used      atomic.Int64          // bytes since the last request
	requested atomic.Bool           // the last request is not granted yet
	turn      chan struct{}         // holds one: the sender that requests
	outcome   chan error            // of the last request; nil: there is none. The turn's
	failure   atomic.Pointer[Error] // the last that ended the wait of all senders
}

// reserve waits for the credit of a message, at most until the context of its sender ends. A
// message larger than half of it counts as half.
func (w *waitCredit) reserve(p *Proc, o *outbound) error {
	cost := int64(o.envelope.BodyLen() + waitCost)
	for used := w.used.Load(); used == 0 || used+cost <= w.half; used = w.used.Load() {
		if w.used.CompareAndSwap(used, used+cost) {
			return nil
		}
	}
	return w.reserveSlow(p, o, cost)
}

//go:noinline
func (w *waitCredit) reserveSlow(p *Proc, o *outbound, cost int64) error {
	ctx, cancel := p.bounded(o.wait)
	defer cancel()
	if from := originOf(ctx).in; from != nil {
		from.yield()
	}
	earlier := w.failure.Load()
	exhausted := errorf(CodeBacklog, o.to.String(), o.port,
		"its mailbox has not taken up %d bytes of this proc's messages", 2*w.half)
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return exhausted
	}
	if err := w.failure.Load(); err != earlier { // of a sender that had the turn meanwhile
		return err
	}
	if w.used.Load()+cost > w.half { // no other sender has requested more meanwhile
		stale, repeated := len(w.outcome) > 0, false
		for w.outcome != nil {
			select {
			case err := <-w.outcome:
				w.outcome <- err
				switch {
				case !isLost(err): // granted, or the message finds out why not
					w.outcome = nil
				case !stale && (repeated || errors.Is(err, ErrNoProc)):
					failure := MarkUnsent(asError(err).withEndpoint(o.port))
					w.failure.Store(failure)
					return failure
				default: // until a grant, the mailbox may hold all that was sent
					w.request(p, o)
					repeated = true
				}
				stale = false
			case <-ctx.Done():
				return exhausted
			}
		}
		used := w.used.Load()
		w.request(p, o)
		w.used.Add(-used)
	}
	w.used.Add(cost)
	return nil
}

// isLost reports whether a request may have failed although its actor is there.
func isLost(err error) bool {
	return errors.Is(err, ErrLinkBroken) || errors.Is(err, ErrDeadline) || errors.Is(err, ErrExpired) ||
		errors.Is(err, ErrBacklog) || errors.Is(err, ErrNoProc)
}

// request requests credit. The client does, because an actor may end before the grant.
func (w *waitCredit) request(p *Proc, o *outbound) {
	outcome := make(chan error, 1)
	to, port := o.to, o.port
	w.outcome = outcome
	w.requested.Store(true)
	p.workers.run(func() {
		a := ask(context.Background(), p, clientName, to, portCredit, port)
		w.requested.Store(isLost(a.Err) && !errors.Is(a.Err, ErrNoProc))
		outcome <- a.Err
	})
}
