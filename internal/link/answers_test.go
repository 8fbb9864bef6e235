package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/wire"
)

// ask casts to a group what everybody answers.
func (b *bench) ask(g *Group) *Cast {
	b.t.Helper()
	k := &Cast{
		Subject: "k", Group: g, Answers: true, Envelope: &wire.Envelope{Kind: wire.Cast, Sender: "s", Body: make([]byte, 10)},
		Runs:  func([]Run) ([]byte, error) { return []byte("all"), nil },
		Alone: func(int) ([]byte, error) { return []byte("alone"), nil },
		Mark:  Mark{Type: "cast"},
	}
	failed, err := b.core.Cast(b.now, k)
	require.NoError(b.t, err)
	require.Empty(b.t, failed)
	b.leave()
	return k
}

// beaten are the peers that are asked what they have.
func (b *bench) beaten() (all []*Peer) {
	b.t.Helper()
	for _, s := range b.leave() {
		if s.Kind == wire.Beat {
			all = append(all, s.to)
		}
	}
	return all
}

func TestLINK16_whoHasAnsweredIsNotAskedAndTheOthersAre(t *testing.T) {
	b := newBench(t, Config{})
	all := b.others(3)
	k := b.ask(NewGroup(all))
	require.EqualValues(t, 1, k.N)
	b.core.Reached(b.now, all[0].Peer, k.N)
	b.core.Reached(b.now, all[2].Peer, k.N)
	b.after(200 * time.Millisecond)
	require.Empty(t, b.beaten(), "an answer may take longer than an acknowledgement")
	b.after(time.Second)
	require.Subset(t, []*Peer{all[1].Peer}, b.beaten())
	require.Positive(t, b.core.Stats().Beats)
	b.after(time.Minute)
	require.Equal(t, []string{"cast unknown"}, b.told(), "the answers say of the two that it was delivered")
}

func TestLINK16_aMessageBehindACastIsMissedAsSoonAsAnyOther(t *testing.T) {
	b := newBench(t, Config{})
	b.ask(NewGroup([]*Target{b.to}))
	b.post("behind")
	b.leave()
	b.after(b.core.cfg.FirstRTO)
	require.NotEmpty(t, b.beaten())
}

func TestLINK16_anAnswerSaysNothingOfWhatWasSentBefore(t *testing.T) {
	b := newBench(t, Config{})
	b.post("before")
	k := b.ask(NewGroup([]*Target{b.to}))
	b.core.Reached(b.now, b.peer, k.N)
	require.NoError(t, b.state(b.peer, wire.StateOf{
		Progress: wire.Progress{Acked: k.N, Taken: b.peer.out.used}, First: 1, Refused: []wire.Refusal{{N: 1, Count: 1, Why: []byte("full")}},
	}))
	require.Equal(t, []string{"before never"}, b.told())
}

func TestLINK16_anAnswerIsNoWordOfTheReceiver(t *testing.T) {
	b := newBench(t, Config{})
	k := b.ask(NewGroup([]*Target{b.to}))
	used := b.peer.out.used
	b.core.Reached(b.now, b.peer, k.N)
	require.Equal(t, used, b.peer.out.used-b.peer.out.taken, "it gives no credit")
	require.NoError(t, b.core.OnState(b.now, b.peer, &wire.StateOf{Missing: []uint64{0, 1}}))
	require.Equal(t, [][2]uint64{{1, 0}}, b.links(), "whoever lied: what is missing is sent again")
}

func TestLINK16_whoNeedsCreditAsksWhateverWasAnswered(t *testing.T) {
	b := newBench(t, Config{Opening: 700})
	k := b.ask(NewGroup([]*Target{b.to}))
	b.core.Reached(b.now, b.peer, k.N)
	b.post(string(make([]byte, 500)))
	left := b.leave()
	require.Len(t, left, 1)
	require.Equal(t, wire.Beat, left[0].Kind)
	b.core.Reached(b.now, b.peer, k.N)
	b.after(time.Second)
	require.NotEmpty(t, b.beaten(), "and again until the receiver says so")
	b.acked(1)
	require.Equal(t, [][2]uint64{{2, 1}}, b.links())
}

func TestLINK16_whoAnswersInTimeAcknowledgesNothing(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, "7", b.arrive(Arrival{N: 7, Answers: true}))
	require.Equal(t, "9", b.arrive(Arrival{N: 9, Prev: 7, Answers: true}))
	b.after(b.core.cfg.AckDelay)
	b.core.Answered(b.peer, 9)
	b.core.Answered(b.peer, 7)
	b.after(time.Minute)
	require.Empty(t, b.said(wire.State))
	b.core.OnBeat(b.now, b.peer, 9, 0)
	said := b.said(wire.State)
	require.Len(t, said, 1, "but when it is asked")
	require.EqualValues(t, 9, said[0].(*wire.StateOf).Progress.Acked)
}

func TestLINK16_whoDoesNotAnswerInTimeAcknowledges(t *testing.T) {
	b := newBench(t, Config{})
	require.Equal(t, "7", b.arrive(Arrival{N: 7, Answers: true}))
	require.Equal(t, "9", b.arrive(Arrival{N: 9, Prev: 7, Answers: true}))
	b.core.Answered(b.peer, 9)
	b.after(b.core.cfg.AnswerWait)
	require.Len(t, b.said(wire.State), 1, "the first has no answer yet")
}

func TestLINK16_whatElseComesIsAcknowledgedAsAlways(t *testing.T) {
	b := newBench(t, Config{AckEvery: 4})
	require.Equal(t, "7", b.arrive(Arrival{N: 7, Answers: true}))
	require.Equal(t, "9", b.arrive(Arrival{N: 9, Prev: 7}))
	b.core.Answered(b.peer, 7)
	b.after(b.core.cfg.AckDelay)
	require.Len(t, b.said(wire.State), 1)
	for n := uint64(10); n < 14; n++ {
		b.arrive(Arrival{N: n, Prev: n - 1, Answers: true})
		b.core.Answered(b.peer, n)
	}
	require.Len(t, b.said(wire.State), 1, "and of casts so many at once")
	require.Empty(t, b.peer.in.answers)
}

func TestLINK16_anAnswerBeforeTheCastIsDoneWithCounts(t *testing.T) {
	b := newBench(t, Config{})
	a, ok := b.core.Arrive(b.now, b.peer, Arrival{N: 7, Answers: true})
	require.True(t, ok)
	b.core.Answered(b.peer, 7)
	b.core.Done(b.now, b.peer, a, nil)
	b.after(time.Minute)
	require.Empty(t, b.said(wire.State))
	require.Equal(t, uint64(7), b.core.known(b.peer).Acked, "what is sent to it anyway says so")
}
