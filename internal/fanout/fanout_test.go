package fanout_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/fanout"
)

func TestEach_callsForEveryItemWithinItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		items := []string{"a", "b", "c", "d", "e"}
		out := make([]string, len(items))
		began := time.Now()
		fanout.Each(2, items, func(i int, item string) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			out[i] = item
		})
		require.Equal(t, items, out)
		require.EqualValues(t, 2, most.Load())
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestEach_ofNothingReturns(*testing.T) {
	fanout.Each(1, nil, func(int, int) { panic("no item") })
}
