package launch

import (
	"context"
	"sync"
	"time"
)

const (
	defaultAtOnce = 16
	maxAtOnce     = 256
)

// A Summary counts what became of the children of one StopAll.
type Summary struct {
	Asked  int // were told to end
	Ended  int // of these, ended by themselves
	Killed int // of these, were killed when their grace ran out
	Stuck  int // of these, survived SIGKILL for Options.KillWait, or ctx ended first
}

// StopAll terminates every child, kept ones included, at most atOnce at a time
// (1 to 256; 0 means 16), and waits for them: at most StopBound, or until ctx
// ends. It then asks nobody further, and those that were asked are still killed
// at their deadline (LCH-6).
func (l *Launcher) StopAll(ctx context.Context, grace time.Duration, atOnce int) Summary {
	var (
		sum   Summary
		mu    sync.Mutex
		wg    sync.WaitGroup
		slots = make(chan struct{}, clampAtOnce(atOnce))
	)
	for _, c := range l.snapshot() {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			ended := c.stopWithin(ctx, grace)
			mu.Lock()
			defer mu.Unlock()
			sum.Asked++
			switch {
			case !ended:
				sum.Stuck++
			case c.killed:
				sum.Killed++
			default:
				sum.Ended++
			}
		})
	}
	wg.Wait()
	return sum
}

// stopWithin ends one child and reports whether it is done.
func (c *Child) stopWithin(ctx context.Context, grace time.Duration) bool {
	c.Terminate(grace)
	timeout := time.NewTimer(max(grace, 0) + c.killWait)
	defer timeout.Stop()
	select {
	case <-c.done:
	case <-ctx.Done():
	case <-timeout.C:
	}
	return c.isDone()
}

// StopBound is how long StopAll takes at most for n children.
func (l *Launcher) StopBound(n, atOnce int, grace time.Duration) time.Duration {
	return StopBound(n, atOnce, grace, l.killWait)
}

// StopBound is how long it takes at most to end n children when atOnce are ended
// at a time, each within grace by itself or within kill by SIGKILL.
func StopBound(n, atOnce int, grace, kill time.Duration) time.Duration {
	atOnce = clampAtOnce(atOnce)
	rounds := (max(n, 0) + atOnce - 1) / atOnce
	return time.Duration(rounds) * (max(grace, 0) + kill)
}

func clampAtOnce(n int) int {
	if n == 0 {
		n = defaultAtOnce
	}
	return max(1, min(n, maxAtOnce))
}
