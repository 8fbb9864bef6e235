package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
)

// SendWait waits for room in every proc but a colocated one.
func TestColocated_sendWaitWaitsForRoom(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	b := start(t, srv, "right")
	b2 := row(t, b, 1)
	ref := spawn(t, b2)
	release := blocked(t, ref)
	defer release()
	time.AfterFunc(500*time.Millisecond, release)
	for i := range 1500 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := add.SendWait(ctx, actor.RefOf[*Box](ref.ID()).Via(b), 1)
		cancel()
		require.NoError(t, err, "message %d", i)
	}
}
