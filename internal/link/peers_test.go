package link

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/subjects"
)

func TestPeers_tellsTheNumbersOfBothLinks(t *testing.T) {
	s, r := NewSender(), NewReceiver()
	var ids []subjects.ProcessID
	for range 3 {
		id, err := subjects.NewHostID("peer")
		require.NoError(t, err)
		ids = append(ids, id.Proc().Process())
	}
	sent := func(n, prev uint64, open bool) error { return nil }
	require.NoError(t, s.Send(ids[0], sent))
	require.NoError(t, s.Send(ids[0], sent))
	require.NoError(t, s.Send(ids[1], sent))
	s.Heard(ids[1])
	r.Accept(ids[1], 7, 0)
	r.Accept(ids[2], 5, 4)
	got := map[subjects.ProcessID]Peer{}
	for _, p := range Peers(s, r, 10) {
		got[p.Process] = p
	}
	require.Equal(t, map[subjects.ProcessID]Peer{
		ids[0]: {Process: ids[0], Sent: 2},
		ids[1]: {Process: ids[1], Sent: 3, Received: 7, Answers: true},
		ids[2]: {Process: ids[2], Broken: "message 5 follows 4, but 0 was the last to arrive"},
	}, got)
	require.Len(t, Peers(s, r, 1), 2, "the newest of each direction")
	require.Empty(t, Peers(NewSender(), NewReceiver(), 10))
}
