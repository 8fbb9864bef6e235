package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/castnet-io/castnet/internal/cli"
)

// drainTimeout is longer than the host agent gives its procs (TERM, 10 s, KILL).
const drainTimeout = 30 * time.Second

// serve runs a node until it is asked to stop, or the bus is lost.
func serve(ctx context.Context, c config, getenv func(string) string, stderr io.Writer) error {
	ctx, release := untilAsked(ctx)
	defer release()
	log := c.logger(stderr, getenv)
	n, err := startNode(ctx, c, getenv, log)
	if err != nil {
		if stop, ok := errors.AsType[asked](context.Cause(ctx)); ok {
			return cli.WithCode(cli.ExitInterrupted, fmt.Errorf("%w before it had started", stop))
		}
		return err
	}
	n.introduce(stderr, log, getenv)
	select {
	case <-ctx.Done():
		log.Info().Msgf("%v: draining; a second signal ends hostd at once", context.Cause(ctx))
		if err := n.close(); err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		log.Info().Msg("drained")
		return nil
	case <-n.host.Done(): // nobody watches the procs any more
		if closing := n.close(); closing != nil {
			log.Warn().Err(closing).Msg("not everything ended as it should")
		}
		return errors.New("the host agent has failed; the log says why")
	case <-n.bus.Done(): // HOSTD-5
		err := n.bus.Err()
		if closing := n.close(); closing != nil {
			log.Warn().Err(closing).Msg("not everything ended as it should")
		}
		return cli.WithCode(cli.ExitConnection, fmt.Errorf("the bus is lost for good: %w", err))
	}
}
