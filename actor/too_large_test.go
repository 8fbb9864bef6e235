package actor_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
)

// A body of bytes is not encoded before it is queued. Other values are, to know their size.
func TestErrTooLarge_comesBeforeACopy(t *testing.T) {
	const size = 64<<20 + 1
	const room = 1 << 20
	a, b := pair(t)
	to := actor.RefOf[*Sink](b.ID().Actor("sink")).Via(a)
	body := make([]byte, size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, err := range []error{
		pour.Send(t.Context(), to, body),
		pour.SendWait(t.Context(), to, body),
		second(pour.Call(t.Context(), to, body)),
	} {
		require.ErrorIs(t, err, actor.ErrTooLarge)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(room))
}
