package local

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Patience bounds every wait of a workload (LOC-3); its system has closePatience more to close.
const (
	Patience      = 30 * time.Second
	closePatience = 5 * time.Second
)

// stage is what a workload runs on.
type stage struct {
	System
	n      int // how much to do
	ctx    context.Context
	faults <-chan error
}

// Run makes a system, runs the workload on it once with n to do, and closes it. The result is in
// the workload's unit.
func Run(ctx context.Context, w Workload, n int, makeSystem Maker) (float64, error) {
	value, s, err := perform(ctx, w, n, makeSystem)
	if s == nil {
		return 0, err
	}
	return value, errors.Join(err, closeSystem(s))
}

// perform is Run without the closing. There is no system when it could not be made.
func perform(ctx context.Context, w Workload, n int, makeSystem Maker) (float64, System, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("not done within %v", Patience))
	defer cancel()
	faults := make(chan error, 1)
	s, err := makeSystem(ctx, func(err error) {
		select {
		case faults <- err:
		default: // the first counts
		}
	})
	if err != nil {
		return 0, nil, fmt.Errorf("make the system: %w", err)
	}
	runtime.GC()
	value, err := w.run(&stage{System: s, n: n, ctx: ctx, faults: faults})
	if err == nil {
		select {
		case err = <-faults: // the messages add up all the same
		default:
		}
	}
	return value, s, err
}

// closeSystem also closes an abandoned system.
func closeSystem(s System) error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		return fmt.Errorf("close the system: %w", err)
	}
	return nil
}

// await waits until done is closed; a fault ends the wait, and so does the end of patience.
func (st *stage) await(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case err := <-st.faults:
		return err
	case <-st.ctx.Done():
		return context.Cause(st.ctx)
	}
}

// timed is how long it takes from the beginning of work until done is closed.
func (st *stage) timed(done <-chan struct{}, work func()) (time.Duration, error) {
	start := time.Now()
	work()
	err := st.await(done)
	return time.Since(start), err
}

// inMillis is timed in the unit of Savina's workloads.
func (st *stage) inMillis(done <-chan struct{}, work func()) (float64, error) {
	took, err := st.timed(done, work)
	return float64(took) / float64(time.Millisecond), err
}

// unstarted is embedded by behaviors that have nothing to do at their start.
type unstarted struct{}

func (unstarted) Started() {}
