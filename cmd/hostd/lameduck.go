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

// lameDuckReason is the public reason of a lame duck's cordon.
const lameDuckReason = "lame duck: it ends after its procs"

// errLeft ends a node without its host: kept procs stay.
var errLeft = errors.New("hostd has left its kept procs")

// awaitStop returns when the node must end: nil or errLeft on request (HOSTD-4), otherwise the
// failure (HOSTD-5).
func (n *node) awaitStop(ctx context.Context, asks signalRequests, log zerolog.Logger) error {
	ducking, cancel := context.WithCancel(ctx)
	defer cancel()
	var dying chan struct{} // closed once the procs have ended, or on timeout
	defer func() {
		cancel()
		if dying != nil {
			<-dying
		}
	}()
	for {
		select {
		case <-ctx.Done():
			log.Info().Msgf("%v: draining; a second signal ends hostd at once", context.Cause(ctx))
			return nil
		case <-n.host.StopAllDone():
			log.Info().Msg("asked over the bus to leave: draining")
			return nil
		case <-dying:
			log.Info().Msg("lame duck: draining")
			return nil
		case <-asks.lameDuck:
			if dying == nil {
				dying = make(chan struct{})
				go func() {
					defer close(dying)
					n.lameDuck(ducking, log)
				}()
			}
		case <-asks.leave:
			log.Info().Msg("leaving: kept procs stay for the next hostd")
			n.leave(ctx, log)
			return errLeft
		case <-n.host.Done(): // the procs are unwatched now
			return errors.New("the host agent has failed; the log says why")
		case <-n.bus.Done():
			return cli.WithCode(cli.ExitConnection, fmt.Errorf("the bus is lost for good: %w", n.bus.Err()))
		}
	}
}

// lameDuck cordons the host and waits until its procs have ended by themselves, up to the
// configured time (HOSTD-4).
func (n *node) lameDuck(ctx context.Context, log zerolog.Logger) {
	if err := n.host.Cordon(ctx, agent.CordonRequest{Cordon: true, Reason: lameDuckReason}); err != nil {
		log.Warn().Err(err).Msg("lame duck: the host agent does not answer")
		return
	}
	info, err := n.host.Info(ctx)
	if err != nil {
		log.Warn().Err(err).Msg("lame duck: the host agent does not answer")
		return
	}
	if info.Procs == 0 {
		log.Info().Msg("lame duck: every proc has ended")
		return
	}
	until := time.Now().Add(n.lameDuckTimeout)
	within, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	left := info.Procs // the time may end before the first answer of the loop
	for procs, err := range n.host.WatchProcs(within) {
		switch {
		case err == nil && procs == 0:
			log.Info().Msg("lame duck: every proc has ended")
			return
		case err == nil:
			left = procs
			log.Info().Int("procs", procs).
				Msgf("lame duck: no new procs; waiting for the end of %d, until %s at the latest",
					procs, until.Format(time.TimeOnly))
		case ctx.Err() != nil: // another cause ends the node
		case within.Err() != nil:
			log.Warn().Int("procs", left).Msgf("lame duck: %d procs have not ended within %s", left, n.lameDuckTimeout)
		default:
			log.Warn().Err(err).Msg("lame duck: cannot watch procs")
		}
	}
}
