package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/agent/proc"
)

// The stations run this test binary.
func TestMain(m *testing.M) {
	proc.Main(definitions()...)
	goleak.VerifyTestMain(m)
}

// oracle finds primes by trial division.
func oracle(below int) (primes []int) {
	for n := 2; n < below; n++ {
		prime := true
		for d := 2; d < n && prime; d++ {
			prime = n%d != 0
		}
		if prime {
			primes = append(primes, n)
		}
	}
	return primes
}

func TestSieve_findsExactlyThePrimesBelowTheLimit(t *testing.T) {
	for _, below := range []int{3, 4, 5, 10, 25, 26, batch + 2, 2*batch + 2} { // squares, and where a batch ends
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		primes, err := run(ctx, below, io.Discard)
		cancel()
		require.NoError(t, err)
		require.Equal(t, oracle(below), primes, "below %d", below)
	}
}

func TestSieve_refusesAnInvalidLimit(t *testing.T) {
	_, err := run(t.Context(), 2, nil)
	require.ErrorContains(t, err, "primes below 2")
}
