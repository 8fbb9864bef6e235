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

func TestEventLog_pagesKeepOrderAndFitTheControlConnection_CTL3(t *testing.T) {
	const ends, lane = 300, 64 << 10
	l := &eventLog{latest: map[int]actor.Event{}}
	for rank := range ends {
		l.add(rank, actor.Event{Rank: rank, Status: string(actor.Initializing)}) // only the latest is kept
	}
	for rank := range ends {
		e := actor.Event{Rank: rank, Status: string(actor.Failed), Reason: "no luck",
			StderrTail: []string{strings.Repeat("x", 1<<10)}}
		switch rank {
		case 7, 8:
			e.StderrTail = []string{strings.Repeat("x", 1<<20)}
		case 9:
			e.Detail = json.RawMessage("{") // cannot be encoded
		}
		l.add(rank, e)
	}
	var got []actor.Event
	after := uint64(0)
	for more := true; more; {
		page, err := l.list(after)
		require.NoError(t, err)
		said, err := json.Marshal(page.Events)
		require.NoError(t, err)
		require.Less(t, len(said), lane*3/4)
		got = append(got, page.Events...)
		more = page.More
		after = page.Version
	}
	require.EqualValues(t, 2*ends, after)
	require.Len(t, got, ends)
	for rank, e := range got {
		require.Equal(t, rank, e.Rank)
		require.EqualValues(t, ends+rank+1, e.Seq)
		require.Equal(t, "no luck", e.Reason)
		require.Equal(t, rank < 7 || rank > 9, len(e.StderrTail) == 1, "too long an event lacks its output")
	}
	_, err := l.list(after + 1)
	require.ErrorContains(t, err, "want 0 to 600")
}

func TestEventLog_adjacentEqualEndsAreOneEvent(t *testing.T) {
	l := &eventLog{latest: map[int]actor.Event{}}
	for rank := range 1000 {
		l.add(rank, actor.Event{Rank: rank, Status: string(actor.Stopped), Reason: "done"})
	}
	page, err := l.list(10)
	require.NoError(t, err)
	require.Equal(t, agent.EventList{
		Events:  []actor.Event{{Rank: 10, Count: 990, Seq: 11, Status: string(actor.Stopped), Reason: "done"}},
		Version: 1000,
	}, page)
}

func TestListEvents_isAnsweredWhileDataIsBlocked_CTL3(t *testing.T) {
	t.Parallel()
	m := newMuted(t, 0)
	o, err := agent.Stop.Call(t.Context(), m.controller,
		agent.StopRequest{ID: idOf(t, m.controller), Reason: "done"})
	require.NoError(t, err)
	require.Equal(t, one(2, agent.Stopped, "done"), o)
	far := m.controller.Via(m.proc)
	defer m.mute()() // the answer among the data does not arrive
	said, err := agent.ListEvents.CallUrgent(testkit.Soon(t), far, agent.ListEventsRequest{After: 1})
	require.NoError(t, err)
	require.Len(t, said.Events, 1)
	require.Equal(t, "stopped", said.Events[0].Status)
}
