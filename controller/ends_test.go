package controller

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testkit"
)

func TestEnds_pagesKeepOrderAndFitTheControlConnection_CTL18(t *testing.T) {
	const ends, lane = 300, 64 << 10
	c := &controller{state: &state{meshRecord: &meshRecord{}}}
	for rank := range ends {
		e := actor.Event{Rank: rank, Status: string(actor.Failed), Reason: "no luck", StderrTail: []string{strings.Repeat("x", 1<<10)}}
		switch rank {
		case 7, 8:
			e.StderrTail = []string{strings.Repeat("x", 1<<20)}
		case 9:
			e.Detail = json.RawMessage("{") // cannot be encoded
		}
		c.ends = append(c.ends, e)
	}
	var got []actor.Event
	for {
		some, err := c.Ends(nil, agent.EndsRequest{N: len(got)})
		require.NoError(t, err)
		if len(some) == 0 {
			break
		}
		said, err := json.Marshal(some)
		require.NoError(t, err)
		require.Less(t, len(said), lane*3/4)
		got = append(got, some...)
	}
	require.Len(t, got, ends)
	for rank, e := range got {
		require.Equal(t, rank, e.Rank)
		require.Equal(t, "no luck", e.Reason)
		require.Equal(t, rank < 7 || rank > 9, len(e.StderrTail) == 1, "what is too long for the lane comes without it")
	}
	for _, n := range []int{-1, ends + 1} {
		_, err := c.Ends(nil, agent.EndsRequest{N: n})
		require.ErrorContains(t, err, "want 0 to 300")
	}
}

func TestEnds_areReadableWhileDataIsBlocked_CTL18(t *testing.T) {
	t.Parallel()
	m := newMuted(t, 0)
	o, err := agent.Stop.Call(t.Context(), m.controller, agent.StopRequest{ID: idOf(t, m.controller), Reason: "done"})
	require.NoError(t, err)
	require.Equal(t, one(2, agent.Stopped, "done"), o)
	far := m.controller.Via(m.proc)
	defer m.mute()() // the answer among the data does not arrive
	ctx := testkit.Soon(t)
	said, err := agent.Ends.Urge(ctx, far, agent.EndsRequest{N: 1})
	require.NoError(t, err)
	require.Len(t, said, 1)
	require.Equal(t, "stopped", said[0].Status)
}
