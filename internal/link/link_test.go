package link

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// breakCount counts the Break frames to the peer since the last call.
func (b *bench) breakCount() (n int) {
	for _, e := range b.core.effects {
		if e.Packet == wire.ReceiverReset {
			n++
		}
	}
	return n
}

// arrive hands a packet in, and returns its fate.
func (b *bench) arrive(a Arrival) string {
	b.t.Helper()
	dup, parked, breaks := b.core.stats.Duplicates, len(b.peer.in.outOfOrder), b.breakCount()
	var delivered []string
	a, ok := b.core.Arrive(b.now, b.peer, a)
	for ok {
		delivered = append(delivered, fmt.Sprint(a.Seq))
		a, ok = b.core.Done(b.now, b.peer, a, nil)
	}
	switch {
	case len(delivered) > 0:
		return strings.Join(delivered, " ")
	case b.core.stats.Duplicates > dup:
		return "duplicate"
	case b.breakCount() > breaks:
		return "refused"
	case len(b.peer.in.outOfOrder) > parked:
		return "parked"
	}
	return "dropped"
}

func TestPacket_contentMatchesItsSequenceNumbers_LINK1(t *testing.T) {
	type packets = []Arrival
	for _, c := range []struct {
		name   string
		before packets
		a      Arrival
		want   string
	}{
		{"the first", nil, Arrival{Seq: 7}, "7"},
		{"the next", packets{{Seq: 7}}, Arrival{Seq: 9, PrevSeq: 7}, "9"},
		{"the same again", packets{{Seq: 7}}, Arrival{Seq: 7}, "duplicate"},
		{"an old one", packets{{Seq: 7}, {Seq: 9, PrevSeq: 7}}, Arrival{Seq: 7}, "duplicate"},
		{"one before the link was opened", packets{{Seq: 7}}, Arrival{Seq: 3}, "duplicate"},
		{"the second before the first", nil, Arrival{Seq: 9, PrevSeq: 7}, "parked"},
		{"the first after the second", packets{{Seq: 9, PrevSeq: 7}}, Arrival{Seq: 7}, "7 9"},
		{"the same ahead of a gap", packets{{Seq: 9, PrevSeq: 7}}, Arrival{Seq: 9, PrevSeq: 7}, "duplicate"},
		{"what fills one of two gaps", packets{{Seq: 1}, {Seq: 9, PrevSeq: 7}, {Seq: 4, PrevSeq: 2}},
			Arrival{Seq: 2, PrevSeq: 1}, "2 4"},
		{"a cast where all was acknowledged", packets{{Seq: 7}}, Arrival{Seq: 9, AllAcked: true}, "9"},
		{"a cast on a link that is not open", nil, Arrival{Seq: 9, AllAcked: true}, "refused"},
		{"a link that opens anew", packets{{Seq: 7}}, Arrival{Seq: 9}, "9"},
		{"what was ahead on a link that was given up",
			packets{{Seq: 1}, {Seq: 5, PrevSeq: 4}, {Seq: 9, PrevSeq: 8}}, Arrival{Seq: 8}, "8 9"},
		{"no number", nil, Arrival{}, "refused"},
		{"its own predecessor", packets{{Seq: 7}}, Arrival{Seq: 9, PrevSeq: 9}, "refused"},
		{"two with one predecessor", packets{{Seq: 7}, {Seq: 9, PrevSeq: 7}},
			Arrival{Seq: 10, PrevSeq: 7}, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, Config{})
			for _, a := range c.before {
				b.arrive(a)
			}
			require.Equal(t, c.want, b.arrive(c.a))
			broken := len(b.controls(wire.ReceiverReset)) > 0
			require.Equal(t, c.want == "refused", broken)
		})
	}
}

// missing are the numbers requested in states.
func missing(states []any) (all [][]uint64) {
	for _, s := range states {
		all = append(all, s.(*wire.LinkStateBody).Missing)
	}
	return all
}

func TestPacket_outOfOrderPacketsWaitWithinBounds_LINK1(t *testing.T) {
	b := newBench(t, Config{MaxOutOfOrder: 3, MaxOutOfOrderBytes: 250})
	b.arrive(Arrival{Seq: 1})
	require.Equal(t, "parked", b.arrive(Arrival{Seq: 3, PrevSeq: 2, Size: 100}))
	require.Equal(t, "parked", b.arrive(Arrival{Seq: 4, PrevSeq: 3, Size: 100}))
	require.Equal(t, "dropped", b.arrive(Arrival{Seq: 5, PrevSeq: 4, Size: 100}))
	require.Equal(t, "parked", b.arrive(Arrival{Seq: 6, PrevSeq: 5, Size: 10}))
	require.Equal(t, "dropped", b.arrive(Arrival{Seq: 7, PrevSeq: 6}))
	asked := b.controls(wire.LinkState)
	require.Equal(t, [][]uint64{{1, 2}, {4, 5}}, missing(asked), "one gap is one question")
	require.Equal(t, "2 3 4", b.arrive(Arrival{Seq: 2, PrevSeq: 1}))
	asked = b.controls(wire.LinkState)
	require.Empty(t, asked)
	require.Equal(t, "5 6", b.arrive(Arrival{Seq: 5, PrevSeq: 4}))
	asked = b.controls(wire.LinkState)
	require.Equal(t, [][]uint64{{6, 7}}, missing(asked), "dropped packets come again")
	require.Equal(t, InStats{Delivered: 6, Gaps: 1, Overrun: 2}, b.peer.in.counts)
}

func TestRefusals_repeatUntilConfirmed_LINK3(t *testing.T) {
	b := newBench(t, Config{})
	deliver := func(a Arrival, refused ...wire.Refusal) {
		a, ok := b.core.Arrive(b.now, b.peer, a)
		require.True(t, ok)
		b.core.Done(b.now, b.peer, a, refused)
	}
	deliver(Arrival{Seq: 1}, wire.Refusal{Seq: 1, Count: 1, Why: []byte("no")})
	first := b.controls(wire.LinkState)[0].(*wire.LinkStateBody)
	require.Equal(t, []wire.Refusal{{Seq: 1, Count: 1, Why: []byte("no")}}, first.Refusals)
	deliver(Arrival{Seq: 2, PrevSeq: 1}, wire.Refusal{Seq: 2, Count: 3, Why: []byte("no")})
	require.Nil(t, b.core.piggybackAck(b.peer), "an acknowledgement without them would be a lie")
	for range 3 {
		b.after(200 * time.Millisecond)
		require.Len(t, b.controls(wire.LinkState)[0].(*wire.LinkStateBody).Refusals, 2)
	}
	b.core.OnConfirm(b.now, b.peer, first.FirstRefusal+7)
	b.core.OnConfirm(b.now, b.peer, 3)
	require.Len(t, b.peer.in.refusals, 2, "nonsense confirms nothing")
	b.core.OnConfirm(b.now, b.peer, first.FirstRefusal+1)
	require.Len(t, b.peer.in.refusals, 1)
	b.core.OnConfirm(b.now, b.peer, first.FirstRefusal+2)
	b.after(time.Second)
	for _, s := range b.controls(wire.LinkState) {
		require.Empty(t, s.(*wire.LinkStateBody).Refusals)
	}
	require.Zero(t, b.core.Due())
}

func TestRefusals_overflowDelaysTheAcknowledgement_LINK3(t *testing.T) {
	b := newBench(t, Config{})
	b.core.SetLimit(3000)
	for n := uint64(1); n <= 3; n++ {
		a, ok := b.core.Arrive(b.now, b.peer, Arrival{Seq: n, PrevSeq: n - 1})
		require.True(t, ok)
		b.core.Done(b.now, b.peer, a, []wire.Refusal{{Seq: n, Count: 1, Why: make([]byte, 1000)}})
	}
	next := uint64(0)
	for n := uint64(1); n <= 3; n++ {
		b.after(200 * time.Millisecond)
		s := b.controls(wire.LinkState)
		last := s[len(s)-1].(*wire.LinkStateBody)
		require.Equal(t, n, last.Progress.Acked)
		require.Len(t, last.Refusals, 1)
		require.Equal(t, n, last.Refusals[0].Seq)
		require.Greater(t, last.FirstRefusal, next)
		next = last.FirstRefusal
		b.core.OnConfirm(b.now, b.peer, next+1)
	}
}

func TestState_malformedStateChangesNothing_LINK14(t *testing.T) {
	const absurd = uint64(1) << 63
	b := newBench(t, Config{})
	b.post("sent")
	b.leave()
	before := b.peer.out
	for name, s := range map[string]*wire.LinkStateBody{
		"an unsent packet": {Progress: wire.AckState{Acked: 2}},
		"an absurd packet": {Progress: wire.AckState{Acked: absurd}},
		"unsent bytes":     {Progress: wire.AckState{Acked: 1, ReceivedBytes: absurd}},
	} {
		require.Error(t, b.core.OnState(b.now, b.peer, s), name)
		require.Error(t, b.core.OnHead(b.now, b.peer, &s.Progress), name)
	}
	require.NoError(t, b.core.OnState(b.now, b.peer,
		&wire.LinkStateBody{Missing: []uint64{0, 1}, Refusals: []wire.Refusal{
			{Seq: absurd, Count: 1}, {Seq: 1, Index: -1, Count: 2}, {Seq: 1, Index: 1, Count: int(absurd - 1)},
			{Seq: 1, Count: -1},
		}}))
	b.core.OnVerdict(b.peer, &wire.FateQueryBody{Seq: 1, Indexes: []int{-1, 5, 2, int(absurd - 1), 0}})
	b.core.OnReceiverReset(b.peer, &wire.ResetBody{Seq: absurd})
	require.Empty(t, b.fates())
	require.Equal(t, [][2]uint64{{1, 0}}, b.links(), "requested packets are still there")
	require.Equal(t, before.window, b.peer.out.window)
	b.core.OnProbe(b.now, b.peer, absurd, 0)
	require.Equal(t, "1", b.arrive(Arrival{Seq: 1}))
	b.core.OnProbe(b.now, b.peer, 1, 0)
	b.after(time.Second)
	require.Zero(t, b.peer.in.requestedUpTo, "the next probe has the truth")
}
