package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
)

// serve runs a node until it is asked to stop, or the bus is lost.
func serve(ctx context.Context, c config, getenv func(string) string, stderr io.Writer) error {
	ctx, asks := untilAsked(ctx)
	defer asks.release()
	log := c.logger(stderr, getenv)
	for _, w := range append(keys.Strangers(os.Environ()), c.keys.Conflicts()...) {
		log.Warn().Msg(w)
	}
	n, err := startNode(ctx, c, getenv, log)
	if err != nil {
		if stop, ok := errors.AsType[asked](context.Cause(ctx)); ok {
			return cli.WithCode(cli.ExitInterrupted, fmt.Errorf("%w before it had started", stop))
		}
		return err
	}
	n.introduce(stderr, log, getenv)
	if err := n.wait(ctx, asks, log); err != nil {
		if closing := n.close(); closing != nil {
			log.Warn().Err(closing).Msg("not everything ended as it should")
		}
		return err
	}
	if err := n.close(); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	log.Info().Msg("drained")
	return nil
}
