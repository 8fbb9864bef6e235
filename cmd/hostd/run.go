package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
)

// restrictProcess restricts hostd and all procs, which inherit it: new files are private, and a
// crash writes no core with credentials. A proc may raise its own limit of cores.
func restrictProcess() error {
	syscall.Umask(0o077)
	var core syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_CORE, &core)
	if err == nil {
		core.Cur = 0
		err = syscall.Setrlimit(syscall.RLIMIT_CORE, &core)
	}
	if err != nil {
		return fmt.Errorf("cannot turn off core files: %w", err)
	}
	return nil
}

// lastSpansTimeout bounds the wait for a collector at the end of a hostd.
const lastSpansTimeout = 5 * time.Second

// runNode runs a node until a stop request or the loss of the bus.
func runNode(ctx context.Context, c config, getenv func(string) string, stderr io.Writer) error {
	ctx, asks := notifySignals(ctx)
	defer asks.release()
	if err := restrictProcess(); err != nil {
		return err
	}
	log := c.logger(stderr, getenv)
	for _, w := range append(keys.UnknownVariables(os.Environ()), c.keys.Conflicts()...) {
		log.Warn().Msg(w)
	}
	tracer, stopTracer, err := startTracer("castnet-hostd", getenv, stderr)(ctx)
	if err != nil {
		return err
	}
	c.tracer = tracer
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpansTimeout)
		defer cancel()
		if err := stopTracer(ctx); err != nil {
			log.Warn().Err(err).Msg("cannot send the last spans")
		}
	}()
	n, err := startNode(ctx, c, getenv, log)
	if err != nil {
		if stop, ok := errors.AsType[signalError](context.Cause(ctx)); ok {
			return cli.WithCode(cli.ExitInterrupted, fmt.Errorf("%w before it had started", stop))
		}
		return err
	}
	n.printBanner(stderr, log, getenv)
	err = n.awaitStop(ctx, asks, log)
	if errors.Is(err, errLeft) {
		return nil
	}
	if err != nil {
		if closing := n.close(); closing != nil {
			log.Warn().Err(closing).Msg("cannot stop all parts cleanly")
		}
		return err
	}
	if err := n.close(); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	log.Info().Msg("drained")
	return nil
}
