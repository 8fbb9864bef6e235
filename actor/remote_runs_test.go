package actor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"

	"github.com/castnet-io/castnet/internal/testkit"
)

// bomb makes a Ledger panic.
const bomb = "bomb"

// TestDelivery_failingActorReturnsTheRestOnce_DEL5: in whichever of the messages that came
// together.
func TestDelivery_failingActorReturnsTheRestOnce_DEL5(t *testing.T) {
	t.Parallel()
	const n = 300
	for _, at := range []int{0, 1, 150, n - 2, n - 1} {
		a, b := pair(t)
		ref, book := newLedger(t, b, a)
		open := book.shut()
		for i := range n {
			e := entry{By: "me", N: i}
			if i == at {
				e.By = bomb
			}
			require.NoError(t, enter.Send(t.Context(), ref, e))
		}
		require.NoError(t, a.Flush(testkit.Soon(t)))
		open()
		testkit.Until(t, "it has failed", func() bool { return queued(b, ref.ID().Name) < 1 })
		require.EqualValues(t, n-1-at, bounced(t, a, uint64(n-1-at)))
		require.Equal(t, at, book.count())
		book.inOrder(t)
	}
}

// TestSendWait_failedActorReleasesItsCredit: that of its taken messages, and of the waiting ones.
func TestSendWait_failedActorReleasesItsCredit(t *testing.T) {
	t.Parallel()
	a, b := held(t)
	for range 30 { // what one of them kept back would be used up by then
		ref, book := newLedger(t, b, a)
		open := book.shut()
		for i := range 100 {
			e := padded(i)
			if i == 50 {
				e.By = bomb
			}
			require.NoError(t, enter.SendWait(testkit.Soon(t), ref, e))
		}
		open()
		require.NoError(t, a.Flush(testkit.Soon(t)))
		testkit.Until(t, "it has failed", func() bool { return book.count() == 50 && queued(b, ref.ID().Name) < 1 })
	}
	require.EqualValues(t, 30*49, bounced(t, a, 30*49))
}

// bounced waits until n messages have come back, and returns their number.
func bounced(t *testing.T, p *actor.Proc, n uint64) uint64 {
	testkit.Until(t, "they came back", func() bool { return p.Stats().Bounced >= n })
	require.NoError(t, p.Flush(testkit.Soon(t)))
	return p.Stats().Bounced
}
