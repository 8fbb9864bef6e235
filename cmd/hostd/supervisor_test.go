package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
)

// fragile is a gateway that breaks on a signal.
type fragile struct {
	broken chan struct{}
	closed bool
}

func (f *fragile) Done() <-chan struct{}       { return f.broken }
func (f *fragile) Err() error                  { return errors.New("broken") }
func (f *fragile) Close(context.Context) error { f.closed = true; return nil }

func TestUpkeep_replacesABrokenGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*fragile
		refuse := 0
		u, err := supervise(t.Context(), "gateway", func(context.Context) (service, error) {
			if refuse > 0 {
				refuse--
				return nil, errors.New("no server")
			}
			all = append(all, &fragile{broken: make(chan struct{})})
			return all[len(all)-1], nil
		}, testkit.Patience, zerolog.Nop())
		require.NoError(t, err)
		refuse = 3
		close(all[0].broken)
		time.Sleep(10 * restartDelay)
		synctest.Wait()
		require.Len(t, all, 2)
		require.True(t, all[0].closed)
		require.False(t, all[1].closed)
		require.NoError(t, u.close(t.Context()))
		require.True(t, all[1].closed)
	})
}

func TestUpkeep_gatewayThatNeverStartedIsAnError(t *testing.T) {
	_, err := supervise(t.Context(), "gateway",
		func(context.Context) (service, error) { return nil, errors.New("no") }, testkit.Patience, zerolog.Nop())
	require.ErrorContains(t, err, "no")
}

func TestHostd_servesCastsUnlessDisabled(t *testing.T) {
	t.Parallel()
	for _, with := range []bool{true, false} {
		s := newSite(t)
		var args []string
		if !with {
			args = []string{"--gateway=false"}
		}
		d := s.start(t, args...)
		o := bus.FromEnv(s.getenv)
		o.ConnectTimeout = testkit.Patience
		b, err := bus.Open(testkit.Soon(t), o)
		require.NoError(t, err)
		_, err = b.Control().Request(testkit.Soon(t), bus.Msg{Subject: "$SRV.PING.castnet-host"})
		require.NoError(t, err)
		for _, subject := range []string{"castnet.v1.default.cast.m.counters.add.u-anon.x",
			"$SRV.PING.castnet-gateway"} {
			_, err = b.Control().Request(testkit.Soon(t), bus.Msg{Subject: subject})
			if with {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, bus.ErrNoResponders, subject)
			}
		}
		require.NoError(t, b.Close(testkit.Soon(t)))
		d.Stop(t)
		s.requireClean(t)
	}
}
