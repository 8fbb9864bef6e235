package ours_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/ours"
)

func TestOurs_runsEveryWorkload(t *testing.T) {
	for _, w := range local.Workloads() {
		n := 200
		if w.Fresh { // so few actors may fit in memory that the earlier workloads left
			n = 20_000
		}
		v, err := local.Run(t.Context(), w, n, ours.New)
		require.NoError(t, err, w.Name)
		require.Positive(t, v, w.Name)
	}
}

// There are more messages than a mailbox holds: refused ones must be sent again.
func TestOurs_fullMailboxLosesNothing(t *testing.T) {
	w, ok := local.Find("savina-counting")
	require.True(t, ok)
	_, err := local.Run(t.Context(), w, 5000, ours.New)
	require.NoError(t, err)
}

// stopper ends with its first message.
type stopper struct{}

func (stopper) Started() {}

func (stopper) Receive(c local.Context, m any) any {
	c.Stop()
	return m
}

func TestOurs_messageToAnEndedActorIsAFault(t *testing.T) {
	faults := make(chan error, 10)
	s, err := ours.New(t.Context(), func(err error) { faults <- err })
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close(context.Background())) }()
	to := s.Spawn(stopper{})
	require.Equal(t, "last", s.Ask(to, "last"))
	s.Tell(to, "late")
	require.ErrorIs(t, <-faults, actor.ErrStopped)
}

func TestOurs_fullMailboxWithoutWaitersTimesOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	faults := make(chan error, 10)
	s, err := ours.New(ctx, func(err error) { faults <- err })
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close(context.Background())) }()
	gate := make(gate)
	defer close(gate)
	to := s.Spawn(gate)
	cancel()
	for len(faults) == 0 {
		s.Tell(to, "one more")
	}
	require.ErrorIs(t, <-faults, actor.ErrMailboxFull)
}

// gate handles nothing until it is closed.
type gate chan struct{}

func (gate) Started() {}

func (g gate) Receive(local.Context, any) any {
	<-g
	return nil
}
