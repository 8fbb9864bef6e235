package proc_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
)

// A process takes one profile of the CPU at a time, so the test is not parallel.
func TestProfile_ofTheCPUEndsWhenItsCallerGivesUp(t *testing.T) {
	r := newRig(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := agent.GetProfile.Call(ctx, r.agent(0),
		agent.ProfileRequest{Kind: agent.ProfileCPU, Duration: agent.MaxProfileDuration})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	short := agent.ProfileRequest{Kind: agent.ProfileCPU, Duration: time.Millisecond}
	testkit.Until(t, "the first profile has ended", func() bool {
		data, err := agent.GetProfile.Call(testkit.Soon(t), r.agent(0), short)
		return err == nil && len(data) > 0
	})
	_, err = agent.GetProfile.Call(testkit.Soon(t), r.agent(0), agent.ProfileRequest{Kind: "threads"})
	require.ErrorContains(t, err, `profile "threads": want goroutine, heap or cpu`)
}
