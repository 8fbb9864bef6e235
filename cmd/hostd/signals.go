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

// repeatWindow is the time in which a repeated signal counts as one: the death of a multithreaded
// parent can send several.
const repeatWindow = 500 * time.Millisecond

// signalError is the cause of a context ended by a signal.
type signalError struct{ signal os.Signal }

func (a signalError) Error() string { return fmt.Sprintf("asked to stop (%s)", a.signal) }

// signalRequests are the requests made by signals.
type signalRequests struct {
	lameDuck <-chan os.Signal // SIGUSR2
	leave    <-chan os.Signal // SIGUSR1
	release  func()           // restores the signals' defaults
}

// notifySignals ends the returned context at the first SIGTERM or SIGINT, and the process at the
// second (HOSTD-4). With SIGPIPE handled, a log without reader causes a write error instead of the
// host's end.
func notifySignals(parent context.Context) (context.Context, signalRequests) {
	ctx, cancel := context.WithCancelCause(parent)
	duck := make(chan os.Signal, 1)
	signal.Notify(duck, syscall.SIGUSR2) // early, because its default ends the process
	leave := make(chan os.Signal, 1)
	signal.Notify(leave, syscall.SIGUSR1)
	signals, done := make(chan os.Signal, 4), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE) // not Ignore, because procs would inherit it
	var wg sync.WaitGroup
	wg.Go(func() {
		var first os.Signal
		var since time.Time
		for {
			select {
			case s := <-signals:
				if first == nil {
					first, since = s, time.Now()
					cancel(signalError{s})
				} else if s != first || time.Since(since) > repeatWindow {
					os.Exit(1)
				}
			case <-done:
				return
			}
		}
	})
	return ctx, signalRequests{duck, leave, func() {
		signal.Stop(duck)
		signal.Stop(leave)
		signal.Stop(signals)
		signal.Stop(pipe)
		close(done)
		wg.Wait()
		cancel(nil)
	}}
}
