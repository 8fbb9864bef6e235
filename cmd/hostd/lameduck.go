package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
)

// lameDuckReason is what others see of a host that is one.
const lameDuckReason = "lame duck: it ends once its procs have"

// wait returns when the node is to end: nil when it was asked to (HOSTD-4, HOSTD-6), else what it
// cannot do without (HOSTD-5).
func (n *node) wait(ctx context.Context, asks asks, log zerolog.Logger) error {
	ducking, cancel := context.WithCancel(ctx)
	defer cancel()
	var dying chan struct{} // closed once its procs have ended, or the time is up
	defer func() {
		if cancel(); dying != nil {
			<-dying
		}
	}()
	for {
		select {
		case <-ctx.Done():
			log.Info().Msgf("%v: draining; a second signal ends hostd at once", context.Cause(ctx))
			return nil
		case <-n.host.Left():
			log.Info().Msg("asked over the bus to leave: draining")
			return nil
		case <-dying:
			log.Info().Msg("lame duck: draining")
			return nil
		case <-asks.duck:
			if dying == nil {
				dying = make(chan struct{})
				go func() {
					defer close(dying)
					n.lameDuck(ducking, log)
				}()
			}
		case <-n.host.Done(): // nobody watches the procs any more
			return errors.New("the host agent has failed; the log says why")
		case <-n.bus.Done():
			return cli.WithCode(cli.ExitConnection, fmt.Errorf("the bus is lost for good: %w", n.bus.Err()))
		}
	}
}

// lameDuck closes the host for new procs and waits until those it has have ended of themselves, for as
// long as it was told to wait (HOSTD-6).
func (n *node) lameDuck(ctx context.Context, log zerolog.Logger) {
	if err := n.host.Cordon(ctx, agent.Cordoning{On: true, Reason: lameDuckReason}); err != nil {
		log.Warn().Err(err).Msg("lame duck: the host agent does not answer")
		return
	}
	until := time.Now().Add(n.lameDuckFor)
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	left := -1
	for procs, err := range n.host.Alive(within) {
		switch {
		case err == nil && procs == 0:
			log.Info().Msg("lame duck: every proc has ended")
			return
		case err == nil:
			left = procs
			log.Info().Int("procs", procs).Msgf("lame duck: no new procs; waiting for the end of %d, until %s at the latest",
				procs, until.Format(time.TimeOnly))
		case ctx.Err() != nil: // something else ends the node
		case within.Err() != nil:
			log.Warn().Int("procs", left).Msgf("lame duck: %d procs have not ended within %s", left, n.lameDuckFor)
		default:
			log.Warn().Err(err).Msg("lame duck: it cannot be told when procs end")
		}
	}
}
