package link

import (
	"errors"
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

func TestLINK6_aLinkThatIsGivenUpIsOverAtBothEnds(t *testing.T) {
	b := newBench(t, Config{Nobody: time.Second})
	b.post("hinted")
	b.leave()
	b.core.OnHint(b.now, b.peer, 1)
	b.post("sent")
	b.leave()
	b.core.peers.get(b.peer.id)
	b.post("large")
	b.peer.out.window = 1
	require.NoError(t, b.send(wire.Envelope{Sender: "s", Body: []byte(strings.Repeat("transfer", 1<<17))}))
	b.core.giveUp(b.peer, LinkOver, "enough")
	effects := b.core.effects
	require.Equal(t, Broken, effects[len(effects)-1].Kind)
	require.Equal(t, wire.BreakOf{N: 2, Text: "enough"}, effects[len(effects)-2].Body)
	require.Equal(t, []string{"hinted never", "sent unknown", "large never", "transfer never"}, b.told())

	require.NoError(t, b.core.OnState(b.now, b.peer, &wire.StateOf{Missing: []uint64{0, 2}}))
	require.Equal(t, []any{wire.BreakOf{N: 2, Text: "what is missing was given up"}}, b.said(wire.Gone), "told again when it asks")
	b.post("anew")
	require.Equal(t, [][2]uint64{{3, 0}}, b.links())
	require.NoError(t, b.core.OnState(b.now, b.peer, &wire.StateOf{Progress: wire.Progress{Acked: 2, Taken: 1 << 40}}))
	require.Zero(t, b.peer.out.acked, "what is said of the former link is not of this one")
	b.core.OnBreak(b.peer, &wire.BreakOf{N: 2})
	require.Empty(t, b.told())
	require.NoError(t, b.core.OnState(b.now, b.peer, &wire.StateOf{Missing: []uint64{1, 2}}))
	require.Equal(t, []any{wire.BreakOf{N: 2, Text: "what is missing was given up"}}, b.said(wire.Gone))
}

func TestLINK6_theReceiverDropsWhatWasGivenUp(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, "1", b.arrive(Arrival{N: 1}))
	require.Equal(t, "parked", b.arrive(Arrival{N: 4, Prev: 3}))
	require.True(t, b.core.OnGone(b.peer, &wire.BreakOf{N: 5, Text: "enough"}))
	require.False(t, b.core.OnGone(b.peer, &wire.BreakOf{N: 5}), "once")
	require.False(t, b.core.OnGone(b.peer, &wire.BreakOf{N: 4}))
	require.Equal(t, "duplicate", b.arrive(Arrival{N: 3, Prev: 1}))
	require.Equal(t, "refused", b.arrive(Arrival{N: 6, Prev: 5}))
	require.Equal(t, "refused", b.arrive(Arrival{N: 6, Settled: true}))
	b.core.OnBeat(b.now, b.peer, 5, 1)
	require.Len(t, b.said(wire.Break), 3, "whoever goes on is told")
	require.Equal(t, "7", b.arrive(Arrival{N: 7}))
	require.Equal(t, 1, b.core.senders)
}

func TestLINK8_whatIsTooLateIsKnownWhenItsReceiverSays(t *testing.T) {
	b := newBench(t, Config{Deadline: time.Second, Opening: 1})
	b.post("asked")
	b.leave()
	b.post("queued")
	b.after(1100 * time.Millisecond)
	var asked []any
	var told []string
	for _, e := range b.effects() {
		if e.Packet == wire.Query {
			asked = append(asked, e.Body)
		} else if e.Kind == Told {
			told = append(told, e.Fate.Mark.Type)
		}
	}
	require.Equal(t, []any{wire.QueryOf{N: 1, Indexes: []int{0, 1}}}, asked)
	require.Equal(t, []string{"queued"}, told)
	barrier := b.core.Barrier(b.now)
	b.core.OnVerdict(b.peer, &wire.QueryOf{N: 1, Indexes: []int{0, 1}})
	require.Equal(t, []string{"asked never"}, b.told())
	<-barrier.Done()
	b.after(time.Second)
	require.Empty(t, b.told())
	require.Len(t, b.peer.out.sent, 1, "the packet stays, for what follows it")
}

func TestLINK8_whatNobodySaysCannotBeKnown(t *testing.T) {
	b := newBench(t, Config{Deadline: time.Second})
	b.post("asked")
	began := b.now
	b.leave()
	for len(b.told()) == 0 {
		b.after(10 * time.Millisecond)
		require.Less(t, b.now-began, Instant(2*time.Second))
	}
	require.EqualValues(t, 1, b.core.Stats().Indeterminate)
}

func TestLINK8_whatTheSenderWasToldWouldNotArriveDoesNot(t *testing.T) {
	b := newBench(t, Config{})
	b.core.OnQuery(b.now, b.peer, &wire.QueryOf{N: 5, Indexes: []int{1, 2}})
	require.Equal(t, []any{wire.QueryOf{N: 5, Indexes: []int{1, 2}}}, b.said(wire.Verdict))
	b.core.OnQuery(b.now, b.peer, &wire.QueryOf{N: 5, Indexes: []int{7}})
	require.EqualValues(t, 1, b.core.Stats().Malformed)
	a, ok := b.core.Arrive(b.now, b.peer, Arrival{N: 5})
	require.True(t, ok)
	require.Equal(t, []int{1, 2}, a.Skip)
	b.core.Done(b.now, b.peer, a, nil)
	s := b.said(wire.State)[0].(*wire.StateOf)
	require.Equal(t, []wire.Refusal{{N: 5, Index: 1, Count: 2}}, s.Refused, "for the verdict may be lost")
	b.core.OnQuery(b.now, b.peer, &wire.QueryOf{N: 5, Indexes: []int{0, 1}})
	require.Len(t, b.said(wire.State), 1, "what has arrived is acknowledged")
	require.Empty(t, b.peer.in.tombs)
}

func TestLINK13_silenceEndsALinkAtBothEnds(t *testing.T) {
	b := newBench(t, Config{Silence: 10 * time.Second, Deadline: time.Hour})
	b.post("sent")
	b.leave()
	b.after(9 * time.Second)
	require.Empty(t, b.told())
	b.core.Down()
	b.after(time.Minute)
	require.Empty(t, b.told(), "nobody can be heard of")
	b.core.Up(b.now, testLimit)
	b.after(11 * time.Second)
	require.Equal(t, []string{"sent unknown"}, b.told())

	b.arrive(Arrival{N: 3, Prev: 2})
	b.after(11 * time.Second)
	broken := 0
	for _, e := range b.effects() {
		if e.Kind == Broken {
			broken++
		}
	}
	require.Equal(t, 1, broken)
	require.Empty(t, b.peer.in.parked)
	require.Zero(t, b.core.Due())
}

func TestLINK13_nobodyIsBelievedOnlyAfterAWhile(t *testing.T) {
	b := newBench(t, Config{})
	b.post("sent")
	b.leave()
	for range 50 {
		b.core.OnHint(b.now, b.peer, 1)
	}
	b.after(100 * time.Millisecond)
	require.NotEmpty(t, b.leave(), "it is asked more often")
	require.NoError(t, b.core.OnHead(b.now, b.peer, nil))
	b.after(time.Second)
	b.core.OnHint(b.now, b.peer, 0)
	require.Empty(t, b.told(), "it was there meanwhile")
	b.after(4 * time.Second)
	b.core.OnHint(b.now, b.peer, 0)
	require.Empty(t, b.told(), "who was heard of may be connecting anew")
	b.core.OnBye(b.peer)
	b.core.OnHint(b.now, b.peer, 0)
	require.Equal(t, []string{"sent never"}, b.told())
}

func TestLINK6_aLinkThatEndsBecauseItsSenderClosesIsNoFailure(t *testing.T) {
	for _, c := range []struct {
		gone wire.BreakOf
		why  Reason
	}{
		{wire.BreakOf{N: 5, Text: "good night", Closed: true}, Departed},
		{wire.BreakOf{N: 5, Text: wire.ClosedText}, Departed}, // of a peer that knows no other way
		{wire.BreakOf{N: 5, Text: "enough"}, LinkOver},
	} {
		b := newBench(t, Config{})
		b.arrive(Arrival{N: 1})
		require.True(t, b.core.OnGone(b.peer, &c.gone), "its Bye travels on the other lane, and may come later")
		effects := b.effects()
		why, is := errors.AsType[*Error](effects[len(effects)-1].Err)
		require.True(t, is)
		require.Equal(t, c.why, why.Reason, c.gone)
	}
}

func TestLINK6_whoClosesSaysSo(t *testing.T) {
	b := newBench(t, Config{})
	b.post("sent")
	b.leave()
	b.core.Close(errClosed)
	require.Equal(t, []any{wire.BreakOf{N: 1, Text: wire.ClosedText, Closed: true}}, b.said(wire.Gone))
}

func TestLINK12_whoWasSilentLongestIsForgotten(t *testing.T) {
	b := newBench(t, Config{Peers: 2})
	b.post("sent")
	b.leave()
	b.arrive(Arrival{N: 1})
	ids := processIDs(t, 5)
	b.core.Peer(ids[1])
	b.core.Peer(ids[0])
	b.core.Peer(ids[2])
	require.Nil(t, b.core.Known(ids[1]))
	require.Same(t, b.peer, b.core.Known(ids[0]))
	b.core.Peer(ids[3])
	b.core.Peer(ids[4])
	require.Equal(t, []string{"sent unknown"}, b.told())
	require.ErrorIs(t, b.send(wire.Envelope{Body: []byte("x")}), ErrForgotten)
	require.Equal(t, "dropped", b.arrive(Arrival{N: 2, Prev: 1}))
	require.Zero(t, b.core.senders)

	b.peer = b.core.Peer(ids[0])
	b.core.OnBeat(b.now, b.peer, 2, 1)
	require.Len(t, b.said(wire.Break), 1, "when it speaks again, it is told")
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

func TestDie_isForEver(t *testing.T) {
	b := newBench(t, Config{})
	require.NoError(t, b.core.Dead(b.peer))
	why := errors.New("its host says so")
	b.core.Die(b.now, b.peer, why)
	b.core.Die(b.now, b.peer, errors.New("again"))
	require.Equal(t, why, b.core.Dead(b.peer))
	require.ErrorIs(t, b.send(wire.Envelope{Body: []byte("x")}), why)
	require.Equal(t, "dropped", b.arrive(Arrival{N: 1}))
	require.Nil(t, b.core.Piece(b.peer, 1, wire.Cut{Total: 1}, []byte("x")))
	require.False(t, b.core.OnGone(b.peer, &wire.BreakOf{N: 9}))
	b.core.OnBeat(b.now, b.peer, 1, 0)
	b.core.OnQuery(b.now, b.peer, &wire.QueryOf{N: 1, Indexes: []int{0, 1}})
	b.core.Taken(b.now, b.peer, 9)
	require.Empty(t, b.effects())
}
