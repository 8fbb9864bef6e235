package launch

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStopBound_isRoundsOfGraceAndKill(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		n, atOnce int
		want      time.Duration
	}{
		{0, 16, 0}, {1, 16, 15 * s}, {16, 16, 15 * s}, {17, 16, 30 * s}, {200, 0, 195 * s},
		{3, 1, 45 * s}, {3, -5, 45 * s}, {257, 10_000, 30 * s}, {-1, 1, 0},
	} {
		require.Equal(t, tt.want, StopBound(tt.n, tt.atOnce, 10*s, 5*s), "%d by %d", tt.n, tt.atOnce)
	}
	require.Equal(t, 5*s, StopBound(1, 1, -s, 5*s))
	require.Equal(t, 5*s, newLauncher(t).StopBound(1, 1, 0))
}

func TestStopAll_saysWhoHadToBeKilled(t *testing.T) {
	l := newLauncher(t)
	deaf := mustLaunch(t, l, specOf(t, "ignoreTerm"))
	lineIn(t, deaf.StdoutPath(), "ready")
	good := mustLaunch(t, l, specOf(t, "ready"))
	lineIn(t, good.StdoutPath(), "ready")
	good.Terminate(patience)
	exitOf(t, good)
	require.Equal(t, Summary{Asked: 1, Killed: 1}, l.StopAll(t.Context(), 10*time.Millisecond, 1))
	require.Equal(t, int(syscall.SIGKILL), deaf.Exit().Signal)
	require.Equal(t, Summary{}, l.StopAll(t.Context(), time.Hour, 16), "nobody is left")
}

func TestStopAll_LCH6_aShorterStopMeanwhileShortens(t *testing.T) {
	l := newLauncher(t)
	deaf := mustLaunch(t, l, specOf(t, "ignoreTerm"))
	lineIn(t, deaf.StdoutPath(), "ready")
	got := make(chan Summary, 1)
	go func() { got <- l.StopAll(t.Context(), time.Hour, 16) }()
	deaf.Terminate(time.Millisecond)
	require.Equal(t, Summary{Asked: 1, Killed: 1}, <-got)
}

func TestStopAll_endsWithItsContextAndKillsLater(t *testing.T) {
	l := newLauncher(t)
	deaf := mustLaunch(t, l, specOf(t, "ignoreTerm"))
	lineIn(t, deaf.StdoutPath(), "ready")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	sum := l.StopAll(ctx, 100*time.Millisecond, 1)
	if sum.Asked > 0 { // else ctx had ended before
		require.Equal(t, Summary{Asked: 1, Stuck: 1}, sum)
		require.Equal(t, int(syscall.SIGKILL), exitOf(t, deaf).Signal)
	}
	require.Equal(t, Summary{}, l.StopAll(ctx, time.Hour, 1), "nobody is asked after its end")
}
