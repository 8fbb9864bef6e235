package link

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// breaks is how often the peer was told that its link is over, since somebody looked.
func (b *bench) breaks() (n int) {
	for _, e := range b.core.effects {
		if e.Packet == wire.Break {
			n++
		}
	}
	return n
}

// arrive hands a packet in, and says what became of it.
func (b *bench) arrive(a Arrival) string {
	b.t.Helper()
	dup, parked, breaks := b.core.stats.Duplicates, len(b.peer.in.parked), b.breaks()
	var delivered []string
	a, ok := b.core.Arrive(b.now, b.peer, a)
	for ok {
		delivered = append(delivered, fmt.Sprint(a.N))
		a, ok = b.core.Done(b.now, b.peer, a, nil)
	}
	switch {
	case len(delivered) > 0:
		return strings.Join(delivered, " ")
	case b.core.stats.Duplicates > dup:
		return "duplicate"
	case b.breaks() > breaks:
		return "refused"
	case len(b.peer.in.parked) > parked:
		return "parked"
	}
	return "dropped"
}

func TestLINK2_eachPacketIsWhatItsNumbersSay(t *testing.T) {
	type packets = []Arrival
	for _, c := range []struct {
		name   string
		before packets
		a      Arrival
		want   string
	}{
		{"the first", nil, Arrival{N: 7}, "7"},
		{"the next", packets{{N: 7}}, Arrival{N: 9, Prev: 7}, "9"},
		{"the same again", packets{{N: 7}}, Arrival{N: 7}, "duplicate"},
		{"an old one", packets{{N: 7}, {N: 9, Prev: 7}}, Arrival{N: 7}, "duplicate"},
		{"one before the link was opened", packets{{N: 7}}, Arrival{N: 3}, "duplicate"},
		{"the second before the first", nil, Arrival{N: 9, Prev: 7}, "parked"},
		{"the first after the second", packets{{N: 9, Prev: 7}}, Arrival{N: 7}, "7 9"},
		{"the same ahead of a gap", packets{{N: 9, Prev: 7}}, Arrival{N: 9, Prev: 7}, "duplicate"},
		{"what fills one of two gaps", packets{{N: 1}, {N: 9, Prev: 7}, {N: 4, Prev: 2}}, Arrival{N: 2, Prev: 1}, "2 4"},
		{"a cast where all was acknowledged", packets{{N: 7}}, Arrival{N: 9, Settled: true}, "9"},
		{"a cast on a link that is not open", nil, Arrival{N: 9, Settled: true}, "refused"},
		{"a link that opens anew", packets{{N: 7}}, Arrival{N: 9}, "9"},
		{"what was ahead on a link that was given up", packets{{N: 1}, {N: 5, Prev: 4}, {N: 9, Prev: 8}}, Arrival{N: 8}, "8 9"},
		{"no number", nil, Arrival{}, "refused"},
		{"its own predecessor", packets{{N: 7}}, Arrival{N: 9, Prev: 9}, "refused"},
		{"two with one predecessor", packets{{N: 7}, {N: 9, Prev: 7}}, Arrival{N: 10, Prev: 7}, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, Config{})
			for _, a := range c.before {
				b.arrive(a)
			}
			require.Equal(t, c.want, b.arrive(c.a))
			broken := len(b.said(wire.Break)) > 0
			require.Equal(t, c.want == "refused", broken)
		})
	}
}

// missing is what states ask for.
func missing(states []any) (all [][]uint64) {
	for _, s := range states {
		all = append(all, s.(*wire.StateOf).Missing)
	}
	return all
}

func TestLINK2_packetsBehindAGapWaitWithinBounds(t *testing.T) {
	b := newBench(t, Config{Parked: 3, ParkedSize: 250})
	b.arrive(Arrival{N: 1})
	require.Equal(t, "parked", b.arrive(Arrival{N: 3, Prev: 2, Size: 100}))
	require.Equal(t, "parked", b.arrive(Arrival{N: 4, Prev: 3, Size: 100}))
	require.Equal(t, "dropped", b.arrive(Arrival{N: 5, Prev: 4, Size: 100}))
	require.Equal(t, "parked", b.arrive(Arrival{N: 6, Prev: 5, Size: 10}))
	require.Equal(t, "dropped", b.arrive(Arrival{N: 7, Prev: 6}))
	asked := b.said(wire.State)
	require.Equal(t, [][]uint64{{1, 2}, {4, 5}}, missing(asked), "one gap is one question")
	require.Equal(t, "2 3 4", b.arrive(Arrival{N: 2, Prev: 1}))
	asked = b.said(wire.State)
	require.Empty(t, asked)
	require.Equal(t, "5 6", b.arrive(Arrival{N: 5, Prev: 4}))
	asked = b.said(wire.State)
	require.Equal(t, [][]uint64{{6, 7}}, missing(asked), "what was dropped comes again")
	require.Equal(t, InStats{Delivered: 6, Gaps: 1, Overrun: 2}, b.peer.in.counts)
}

func TestLINK3_refusalsAreRepeatedUntilTheyAreConfirmed(t *testing.T) {
	b := newBench(t, Config{})
	deliver := func(a Arrival, refused ...wire.Refusal) {
		a, ok := b.core.Arrive(b.now, b.peer, a)
		require.True(t, ok)
		b.core.Done(b.now, b.peer, a, refused)
	}
	deliver(Arrival{N: 1}, wire.Refusal{N: 1, Count: 1, Why: []byte("no")})
	first := b.said(wire.State)[0].(*wire.StateOf)
	require.Equal(t, []wire.Refusal{{N: 1, Count: 1, Why: []byte("no")}}, first.Refused)
	deliver(Arrival{N: 2, Prev: 1}, wire.Refusal{N: 2, Count: 3, Why: []byte("no")})
	require.Nil(t, b.core.known(b.peer), "an acknowledgement without them would be a lie")
	for range 3 {
		b.after(200 * time.Millisecond)
		require.Len(t, b.said(wire.State)[0].(*wire.StateOf).Refused, 2)
	}
	b.core.OnConfirm(b.now, b.peer, first.First+7)
	b.core.OnConfirm(b.now, b.peer, 3)
	require.Len(t, b.peer.in.refused, 2, "nonsense confirms nothing")
	b.core.OnConfirm(b.now, b.peer, first.First+1)
	require.Len(t, b.peer.in.refused, 1)
	b.core.OnConfirm(b.now, b.peer, first.First+2)
	b.after(time.Second)
	for _, s := range b.said(wire.State) {
		require.Empty(t, s.(*wire.StateOf).Refused)
	}
	require.Zero(t, b.core.Due())
}

func TestLINK3_refusalsThatDoNotFitHoldTheAcknowledgementBack(t *testing.T) {
	b := newBench(t, Config{})
	b.core.Limit(3000)
	for n := uint64(1); n <= 3; n++ {
		a, ok := b.core.Arrive(b.now, b.peer, Arrival{N: n, Prev: n - 1})
		require.True(t, ok)
		b.core.Done(b.now, b.peer, a, []wire.Refusal{{N: n, Count: 1, Why: make([]byte, 1000)}})
	}
	next := uint64(0)
	for n := uint64(1); n <= 3; n++ {
		b.after(200 * time.Millisecond)
		s := b.said(wire.State)
		last := s[len(s)-1].(*wire.StateOf)
		require.Equal(t, n, last.Progress.Acked)
		require.Len(t, last.Refused, 1)
		require.Equal(t, n, last.Refused[0].N)
		require.Greater(t, last.First, next)
		next = last.First
		b.core.OnConfirm(b.now, b.peer, next+1)
	}
}

func TestLINK14_nonsenseChangesNothing(t *testing.T) {
	const absurd = uint64(1) << 63
	b := newBench(t, Config{})
	b.post("sent")
	b.leave()
	before := b.peer.out
	for name, s := range map[string]*wire.StateOf{
		"a packet that was not sent": {Progress: wire.Progress{Acked: 2}},
		"an absurd packet":           {Progress: wire.Progress{Acked: absurd}},
		"bytes that were not sent":   {Progress: wire.Progress{Acked: 1, Taken: absurd}},
	} {
		require.Error(t, b.core.OnState(b.now, b.peer, s), name)
		require.Error(t, b.core.OnHead(b.now, b.peer, &s.Progress), name)
	}
	require.NoError(t, b.core.OnState(b.now, b.peer, &wire.StateOf{Missing: []uint64{0, 1}, Refused: []wire.Refusal{
		{N: absurd, Count: 1}, {N: 1, Index: -1, Count: 2}, {N: 1, Index: 1, Count: int(absurd - 1)}, {N: 1, Count: -1},
	}}))
	b.core.OnVerdict(b.peer, &wire.QueryOf{N: 1, Indexes: []int{-1, 5, 2, int(absurd - 1), 0}})
	b.core.OnBreak(b.peer, &wire.BreakOf{N: absurd})
	require.Empty(t, b.told())
	require.Equal(t, [][2]uint64{{1, 0}}, b.links(), "what it asked for is there still")
	require.Equal(t, before.window, b.peer.out.window)
	b.core.OnBeat(b.now, b.peer, absurd, 0)
	require.Equal(t, "1", b.arrive(Arrival{N: 1}))
	b.core.OnBeat(b.now, b.peer, 1, 0)
	b.after(time.Second)
	require.Zero(t, b.peer.in.missing, "the next beat says better")
}
