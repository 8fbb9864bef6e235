package testkit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Patience bounds every wait of a test. Only a failing test waits this long.
const Patience = 30 * time.Second

// Soon returns the test's context, bounded by Patience.
func Soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Next receives the next value of a channel, or fails the test.
func Next[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		require.FailNow(t, "nothing arrived within "+Patience.String())
		panic("unreachable")
	}
}

// Find receives values until one matches, or fails the test.
func Find[T any](t testing.TB, from <-chan T, matches func(T) bool) T {
	t.Helper()
	for {
		if v := Next(t, from); matches(v) {
			return v
		}
	}
}

// Until waits for a condition, or fails the test. It checks every millisecond: a tighter loop would
// take the processor from the work that it waits for.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "the condition was not met: %s", what)
	}
}

// Close calls functions in order when the test ends, within Patience. An error fails the test. The
// returned function closes earlier; a second call does nothing.
func Close(t testing.TB, all ...func(context.Context) error) (now func()) {
	now = sync.OnceFunc(func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), Patience) // the test's context has ended
		defer cancel()
		for _, f := range all {
			// A test that has failed exits its goroutine, and require would exit it again within the Once.
			assert.NoError(t, f(ctx))
		}
	})
	t.Cleanup(now)
	return now
}

// Log writes errors to the test's log.
func Log(t testing.TB) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
}
