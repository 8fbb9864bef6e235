package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

func TestDeadline_receiverDecidesTheFateOfLateMessages_LINK8(t *testing.T) {
	b := newBench(t, Config{DefaultDeadline: time.Second, InitialWindow: 1})
	b.post("asked")
	b.leave()
	b.post("queued")
	b.after(1100 * time.Millisecond)
	var asked []any
	var told []string
	for _, e := range b.effects() {
		if e.Packet == wire.FateQuery {
			asked = append(asked, e.Body)
		} else if e.Kind == EffectFate {
			told = append(told, e.Fate.Mark.Type)
		}
	}
	require.Equal(t, []any{wire.FateQueryBody{Seq: 1, Indexes: []int{0, 1}}}, asked)
	require.Equal(t, []string{"queued"}, told)
	barrier := b.core.Barrier(b.now)
	b.core.OnVerdict(b.peer, &wire.FateQueryBody{Seq: 1, Indexes: []int{0, 1}})
	require.Equal(t, []string{"asked never"}, b.fates())
	<-barrier.Done()
	b.after(time.Second)
	require.Empty(t, b.fates())
	require.Len(t, b.peer.out.sent, 1, "the packet stays for its successors")
}

func TestDeadline_silentReceiverMakesFateUnknown_LINK8(t *testing.T) {
	b := newBench(t, Config{DefaultDeadline: time.Second})
	b.post("asked")
	began := b.now
	b.leave()
	for len(b.fates()) == 0 {
		b.after(10 * time.Millisecond)
		require.Less(t, b.now-began, Instant(2*time.Second))
	}
	require.EqualValues(t, 1, b.core.Stats().Indeterminate)
}

func TestDeadline_messageReportedUndeliveredIsSkipped_LINK8(t *testing.T) {
	b := newBench(t, Config{})
	b.core.OnQuery(b.now, b.peer, &wire.FateQueryBody{Seq: 5, Indexes: []int{1, 2}})
	require.Equal(t, []any{wire.FateQueryBody{Seq: 5, Indexes: []int{1, 2}}}, b.controls(wire.FateReply))
	b.core.OnQuery(b.now, b.peer, &wire.FateQueryBody{Seq: 5, Indexes: []int{7}})
	require.EqualValues(t, 1, b.core.Stats().Malformed)
	a, ok := b.core.Arrive(b.now, b.peer, Arrival{Seq: 5})
	require.True(t, ok)
	require.Equal(t, []int{1, 2}, a.Skip)
	b.core.Done(b.now, b.peer, a, nil)
	s := b.controls(wire.LinkState)[0].(*wire.LinkStateBody)
	require.Equal(t, []wire.Refusal{{Seq: 5, Index: 1, Count: 2}}, s.Refusals, "for the verdict may be lost")
	b.core.OnQuery(b.now, b.peer, &wire.FateQueryBody{Seq: 5, Indexes: []int{0, 1}})
	require.Len(t, b.controls(wire.LinkState), 1, "arrived packets are acknowledged")
	require.Empty(t, b.peer.in.tombstones)
}
