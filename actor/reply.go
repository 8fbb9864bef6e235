package actor

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// reply is where a caller in this process waits for an answer. The first one counts.
type reply[R any] struct {
	ctx Context // the handler's: one allocation serves both
	waiting
	v   R
	err error
}

// waiting is somebody who waits for an answer in a seat.
type waiting struct {
	state atomic.Uint32
	seat  *seat
}

// States of who waits.
const (
	open      uint32 = iota
	answering        // the answer is being written
	answered
	abandoned // the caller has gone
)

// give answers. It may be called on any goroutine, any number of times.
func (rp *reply[R]) give(v R, err error) {
	if !rp.state.CompareAndSwap(open, answering) {
		rp.ctx.in.proc.counts.late.Add(1)
		return
	}
	rp.v, rp.err = v, err
	rp.tell()
}

// tell says that the answer is written.
func (w *waiting) tell() {
	seat := w.seat // the caller may be gone as soon as it sees the answer
	w.state.Store(answered)
	seat.wake()
}

// settle is give for an answer of any type.
func (rp *reply[R]) settle(v any, err error) {
	r, rerr := Open[R](Answer{Value: v, Err: err})
	rp.give(r, rerr)
}

// wait returns the answer, or says why there is none.
func (rp *reply[R]) wait(ctx context.Context, done <-chan struct{}, endpoint string) (R, error) {
	ended := rp.await(ctx, done)
	rp.ctx.in.proc.seats.leave(rp.seat)
	if ended != nil {
		var none R
		return none, rp.ctx.in.noAnswer(ctx, ended, endpoint)
	}
	return rp.v, rp.err
}

// await waits for the answer. An error is what ended the wait before that: ctx, or the deadline of the
// seat.
func (w *waiting) await(ctx context.Context, done <-chan struct{}) error {
	s := w.seat
	for w.state.Load() != answered {
		if done == nil {
			<-s.woken
		} else {
			select {
			case <-s.woken:
			case <-done:
			}
		}
		var ended error
		switch {
		case s.overdue.Load() != 0 && s.overdue.Load() == s.until.Load():
			ended = context.DeadlineExceeded
		case done != nil && ctx.Err() != nil:
			ended = ctx.Err()
		}
		if ended != nil && w.state.CompareAndSwap(open, abandoned) {
			return ended
		}
	}
	return nil
}

// noAnswer says why a caller stopped waiting, and what the actor was at.
func (in *instance) noAnswer(ctx context.Context, ended error, endpoint string) *Error {
	if !errors.Is(ended, context.DeadlineExceeded) {
		return errorf(CodeCanceled, in.id().String(), endpoint, "the caller gave up: %v", context.Cause(ctx))
	}
	e := errorf(CodeDeadline, in.id().String(), endpoint, "no answer within the deadline")
	if now := in.info(); now.Current != "" {
		e.Text += ": its handler of " + now.Current + " has run for " + now.For.Round(time.Millisecond).String()
	}
	return e
}

// seat is a place to wait in. Seats are used again; whoever wakes one too late wakes the next who
// sits there, who looks again whether his answer is there.
type seat struct {
	woken   chan struct{} // holds one
	until   atomic.Int64  // the deadline by Proc.now of who waits; 0: the waiter sees to it himself
	overdue atomic.Int64  // the deadline that has passed: the waiter's, or of one before him
}

func (s *seat) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// seats are the places where callers of a proc wait. One alarm serves all: a timer for every call
// costs more than the call.
type seats struct {
	now   func() int64 // the proc's clock
	pool  sync.Pool
	alarm atomic.Int64 // when the timer fires; MaxInt64: it does not

	mu    sync.Mutex // guards the fields below
	all   roster[seat]
	timer *time.Timer
}

func newSeats(now func() int64) *seats {
	s := &seats{now: now}
	s.alarm.Store(math.MaxInt64)
	return s
}

// take returns a seat whose waiter is woken at until; 0: never.
func (ss *seats) take(until int64) *seat {
	s, _ := ss.pool.Get().(*seat)
	if s == nil {
		s = ss.add()
	}
	if until != 0 {
		s.until.Store(until)
		if until < ss.alarm.Load() {
			ss.mu.Lock()
			ss.setAlarm(until)
			ss.mu.Unlock()
		}
	}
	return s
}

// leave gives a seat back.
func (ss *seats) leave(s *seat) {
	if s.until.Load() != 0 {
		s.until.Store(0)
	}
	ss.pool.Put(s)
}

func (ss *seats) add() *seat {
	s := &seat{woken: make(chan struct{}, 1)}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.all.add(s)
	return s
}

// setAlarm makes the timer fire at until, if that is sooner than it does. The lock is held.
func (ss *seats) setAlarm(until int64) {
	if until >= ss.alarm.Load() {
		return
	}
	ss.alarm.Store(until)
	d := time.Duration(max(0, until-ss.now()))
	if ss.timer == nil {
		ss.timer = time.AfterFunc(d, ss.ring)
	} else {
		ss.timer.Reset(d)
	}
}

// ring wakes whoever has waited too long. Whoever sits down meanwhile sees that there is no alarm,
// and sets one.
func (ss *seats) ring() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.alarm.Store(math.MaxInt64)
	now, next := ss.now(), int64(math.MaxInt64)
	ss.all.each(func(s *seat) {
		switch until := s.until.Load(); {
		case until == 0:
		case until <= now:
			s.overdue.Store(until)
			s.wake()
		default:
			next = min(next, until)
		}
	})
	ss.setAlarm(next)
}

// close ends the alarm, unless somebody waits for it.
func (ss *seats) close() {
	ss.ring()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.timer != nil && ss.alarm.Load() == math.MaxInt64 {
		ss.timer.Stop()
	}
}
