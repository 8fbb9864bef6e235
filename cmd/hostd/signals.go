package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// asked is the cause of a context that a signal ended.
type asked struct{ signal os.Signal }

func (a asked) Error() string { return fmt.Sprintf("asked to stop (%s)", a.signal) }

// untilAsked ends the context it returns at the first SIGTERM or SIGINT, and the process at the
// second (HOSTD-4). release gives the signals back.
func untilAsked(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, act := range []func(os.Signal){
			func(s os.Signal) { cancel(asked{s}) },
			func(os.Signal) { os.Exit(1) },
		} {
			select {
			case s := <-signals:
				act(s)
			case <-done:
				return
			}
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
		cancel(nil)
	}
}
