package actor

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// reply is the place of a local caller's answer. The first answer counts.
type reply[R any] struct {
	ctx Context // the handler's: one allocation serves both
	answerWait
	v   R
	err error
}

// answerWait is a caller waiting in a waiter.
type answerWait struct {
	state  atomic.Uint32
	waiter *waiter
}

// States of a waiting caller.
const (
	waitOpen      uint32 = iota
	waitAnswering        // the answer is being written
	waitAnswered
	waitAbandoned // the caller has gone
)

// sendAnswer answers. It may be called on any goroutine, any number of times.
func (rp *reply[R]) sendAnswer(v R, err error) {
	if !rp.state.CompareAndSwap(waitOpen, waitAnswering) {
		rp.ctx.in.proc.counts.lateAnswers.Add(1)
		return
	}
	rp.v, rp.err = v, err
	rp.signal()
}

// signal marks the answer as written.
func (w *answerWait) signal() {
	seat := w.waiter // the caller may be gone as soon as it sees the answer
	w.state.Store(waitAnswered)
	seat.wake()
}

// complete is give for an answer of any type.
func (rp *reply[R]) complete(v any, err error) {
	r, rerr := DecodeAnswer[R](Answer{Value: v, Err: err})
	rp.sendAnswer(r, rerr)
}

// awaitReply returns the answer, or the reason of its absence.
func awaitReply[R any](rp *reply[R], ctx context.Context, done <-chan struct{}, endpoint string) (R, error) {
	ended := rp.await(ctx, done)
	rp.ctx.in.proc.waiters.put(rp.waiter)
	if ended != nil {
		var none R
		return none, rp.ctx.in.noAnswer(ctx, ended, endpoint)
	}
	return rp.v, rp.err
}

// await waits for the answer. Its error is the reason of an earlier end: ctx, or the deadline of
// the waiter.
func (w *answerWait) await(ctx context.Context, done <-chan struct{}) error {
	s := w.waiter
	for w.state.Load() != waitAnswered {
		if done == nil {
			<-s.woken
		} else {
			select {
			case <-s.woken:
			case <-done:
			}
		}
		var ended error
		if s.expired.Load() != 0 && s.expired.Load() == s.deadline.Load() {
			ended = context.DeadlineExceeded
		} else if done != nil && ctx.Err() != nil {
			ended = ctx.Err()
		}
		if ended != nil && w.state.CompareAndSwap(waitOpen, waitAbandoned) {
			return ended
		}
	}
	return nil
}

// noAnswer describes the end of a wait, and the actor's current work.
func (in *instance) noAnswer(ctx context.Context, ended error, endpoint string) *Error {
	if !errors.Is(ended, context.DeadlineExceeded) {
		return errorf(CodeCanceled, in.id().String(), endpoint, "the caller gave up: %v", context.Cause(ctx))
	}
	e := errorf(CodeDeadline, in.id().String(), endpoint, "no answer within the deadline")
	if now := in.info(); now.Current != "" {
		e.Text += ": its handler of " + now.Current + " has run for " +
			now.RunningFor.Round(time.Millisecond).String()
	}
	return e
}

// waiter is a reusable place to wait in. A late wake-up may reach its next user, who then checks
// again for an answer.
type waiter struct {
	woken    chan struct{} // holds one
	deadline atomic.Int64  // the user's deadline by Proc.now; 0: the user handles it
	expired  atomic.Int64  // the expired deadline, of the user or of an earlier one
}

func (s *waiter) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// waiterPool holds the waiters of a proc's callers. They share one timer, because a timer per call
// costs more than the call.
type waiterPool struct {
	now      func() int64 // the proc's clock
	pool     sync.Pool
	nextFire atomic.Int64 // when the timer fires; MaxInt64: it does not

	mu    sync.Mutex // guards the fields below
	all   weakSet
	timer *time.Timer
}

func newWaiterPool(now func() int64) *waiterPool {
	s := &waiterPool{now: now}
	s.nextFire.Store(math.MaxInt64)
	return s
}

// get returns a waiter that is woken at until; 0: never.
func (ss *waiterPool) get(until int64) *waiter {
	s, _ := ss.pool.Get().(*waiter)
	if s == nil {
		s = ss.add()
	}
	if until != 0 {
		s.deadline.Store(until)
		if until < ss.nextFire.Load() {
			ss.mu.Lock()
			ss.setTimer(until)
			ss.mu.Unlock()
		}
	}
	return s
}

// put returns a waiter to the pool.
func (ss *waiterPool) put(s *waiter) {
	if s.deadline.Load() != 0 {
		s.deadline.Store(0)
	}
	ss.pool.Put(s)
}

func (ss *waiterPool) add() *waiter {
	s := &waiter{woken: make(chan struct{}, 1)}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.all.add(s)
	return s
}

// setTimer advances the timer to until, if that is sooner. The lock is held.
func (ss *waiterPool) setTimer(until int64) {
	if until >= ss.nextFire.Load() {
		return
	}
	ss.nextFire.Store(until)
	d := time.Duration(max(0, until-ss.now()))
	if ss.timer == nil {
		ss.timer = time.AfterFunc(d, ss.wakeExpired)
	} else {
		ss.timer.Reset(d)
	}
}

// wakeExpired wakes the expired waiters. A caller that arrives meanwhile finds no timer, and sets
// one.
func (ss *waiterPool) wakeExpired() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.nextFire.Store(math.MaxInt64)
	now := ss.now()
	next := int64(math.MaxInt64)
	ss.all.each(func(s *waiter) {
		switch until := s.deadline.Load(); {
		case until == 0:
		case until <= now:
			s.expired.Store(until)
			s.wake()
		default:
			next = min(next, until)
		}
	})
	ss.setTimer(next)
}

// close stops the timer, unless a caller waits for it.
func (ss *waiterPool) close() {
	ss.wakeExpired()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.timer != nil && ss.nextFire.Load() == math.MaxInt64 {
		ss.timer.Stop()
	}
}
