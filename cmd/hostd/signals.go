package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// echo is how long the same signal again is the same word: the death of a parent with many threads
// can be told more than once.
const echo = 500 * time.Millisecond

// asked is the cause of a context that a signal ended.
type asked struct{ signal os.Signal }

func (a asked) Error() string { return fmt.Sprintf("asked to stop (%s)", a.signal) }

// asks is what signals ask of hostd.
type asks struct {
	duck    <-chan os.Signal // SIGUSR2: be a lame duck
	release func()           // gives the signals back
}

// untilAsked ends the context it returns at the first SIGTERM or SIGINT, and the process at the
// second (HOSTD-4). A reader of the log that is gone is an error of the write, not the end of the host.
func untilAsked(parent context.Context) (context.Context, asks) {
	ctx, cancel := context.WithCancelCause(parent)
	duck := make(chan os.Signal, 1)
	signal.Notify(duck, syscall.SIGUSR2) // at once: by itself it would end the process
	signals, done := make(chan os.Signal, 4), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE) // not Ignore: procs would inherit that
	var wg sync.WaitGroup
	wg.Go(func() {
		var first os.Signal
		var since time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first == nil:
					first, since = s, time.Now()
					cancel(asked{s})
				case s != first || time.Since(since) > echo:
					os.Exit(1)
				}
			case <-done:
				return
			}
		}
	})
	return ctx, asks{duck, func() {
		signal.Stop(duck)
		signal.Stop(signals)
		signal.Stop(pipe)
		close(done)
		wg.Wait()
		cancel(nil)
	}}
}
