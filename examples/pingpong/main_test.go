package main

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/agent/proc"
)

// The players run this test binary.
func TestMain(m *testing.M) {
	proc.Main(definition())
	goleak.VerifyTestMain(m)
}

func TestPingpong_countsEveryHitOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	require.NoError(t, run(ctx, 2, 150, &out))
	require.Contains(t, out.String(), "300 round trips between 4 processes in ")
	require.Contains(t, out.String(), "every player has hit 150 times")
}

func TestPingpong_refusesInvalidNumbers(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), 0, 5, nil), "0 pairs, 5 rounds")
}

func TestCourt_widthDoesNotDependOnTheBall(t *testing.T) {
	for n := range 100 {
		require.Equal(t, 18, utf8.RuneCountInString(court(n)), court(n))
		require.Contains(t, court(n), "●")
	}
}
