package history_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/integration/faults/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ab is the stream of most tests.
var ab = history.Stream{From: "left/0.0/a", To: "right/0.0/b"}

// book builds a history.
type book []history.Record

func (b *book) add(k history.Kind, s history.Stream, n uint64) *book {
	r := history.Record{Kind: k, At: time.Unix(int64(len(*b)), 0), Stream: s, N: n}
	if k == history.Handled {
		r.Note = s.To
	}
	*b = append(*b, r)
	return b
}

func (b *book) each(k history.Kind, s history.Stream, ns ...uint64) *book {
	for _, n := range ns {
		b.add(k, s, n)
	}
	return b
}

func (b *book) settled(from string) *book {
	return b.add(history.Settled, history.Stream{From: from}, 0)
}
func (b *book) ended(process string) *book {
	return b.add(history.Ended, history.Stream{To: process}, 0)
}

// sent is a history with 1 to n sent and settled.
func sent(s history.Stream, n uint64) *book {
	b := &book{}
	for i := range n {
		b.add(history.Sent, s, i+1)
	}
	return b.settled(s.From)
}

func TestCheck_passesACleanHistory(t *testing.T) {
	v := history.Check(*sent(ab, 3).each(history.Handled, ab, 1, 2, 3))
	require.Equal(t, history.Verdict{Sent: 3, Handled: 3}, v)
	require.Zero(t, v.Wrong())
	require.Equal(t, "lost=0 duplicated=0 reordered=0 of 3, indeterminate=0, undeliverable=0", v.String())
}

func TestCheck_findsPlantedFaults(t *testing.T) { // HIST-2
	stale := *sent(ab, 1)
	stale = append(stale, history.Record{Kind: history.Handled, Stream: ab, N: 1, Note: "right/0.1/b"})
	for _, c := range []struct {
		name string
		in   *book
		want history.Verdict
	}{
		{"a loss", sent(ab, 3).each(history.Handled, ab, 1, 3),
			history.Verdict{Sent: 3, Handled: 2, Lost: 1}},
		{"the last ones lost", sent(ab, 3).each(history.Handled, ab, 1),
			history.Verdict{Sent: 3, Handled: 1, Lost: 2}},
		{"answered and never handled", sent(ab, 1).add(history.Answered, ab, 1),
			history.Verdict{Sent: 1, Lost: 1}},
		{"one of two came back", sent(ab, 3).each(history.Handled, ab, 1).add(history.Undeliverable, ab, 0),
			history.Verdict{Sent: 3, Handled: 1, Undeliverable: 1, Lost: 1}},
		{"sent to a dead process and not heard of",
			(&book{}).each(history.Sent, ab, 1, 2).ended("right/0.0").each(history.Sent, ab, 3, 4).
				add(history.Indeterminate, ab, 3).settled(ab.From),
			history.Verdict{Sent: 4, Indeterminate: 1, Lost: 1, Gone: 2}},
		{"a duplicate", sent(ab, 2).each(history.Handled, ab, 1, 2, 2),
			history.Verdict{Sent: 2, Handled: 2, Duplicated: 1}},
		{"an old duplicate is not an inversion, too", sent(ab, 2).each(history.Handled, ab, 1, 2, 1),
			history.Verdict{Sent: 2, Handled: 2, Duplicated: 1}},
		{"an inversion", sent(ab, 3).each(history.Handled, ab, 1, 3, 2),
			history.Verdict{Sent: 3, Handled: 3, Reordered: 1}},
		{"a lie with a number",
			sent(ab, 2).each(history.Handled, ab, 1, 2).add(history.Undeliverable, ab, 2),
			history.Verdict{Sent: 2, Handled: 2, Undeliverable: 1, Lies: 1}},
		{"a lie without one", sent(ab, 2).each(history.Handled, ab, 1, 2).add(history.Undeliverable, ab, 0),
			history.Verdict{Sent: 2, Handled: 2, Undeliverable: 1, Lies: 1}},
		{"two fates", sent(ab, 1).add(history.Undeliverable, ab, 1).add(history.Answered, ab, 1),
			history.Verdict{Sent: 1, Lies: 1, Lost: 1}},
		{"another incarnation", &stale, history.Verdict{Sent: 1, Handled: 1, Stale: 1}},
		{"nobody sent it", sent(ab, 1).each(history.Handled, ab, 1, 9),
			history.Verdict{Sent: 1, Handled: 1, Invented: 1}},
		{"other bytes", sent(ab, 1).each(history.Handled, ab, 1).add(history.Corrupt, ab, 1),
			history.Verdict{Sent: 1, Handled: 1, Corrupt: 1}},
		{"no fate", (&book{}).add(history.Sent, ab, 1), history.Verdict{Sent: 1, Unsettled: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := history.Check(*c.in)
			require.NotEmpty(t, v.Examples)
			require.NotZero(t, v.Wrong())
			v.Examples = nil
			require.Equal(t, c.want, v)
		})
	}
}

func TestCheck_allowsPermittedOutcomes(t *testing.T) {
	for _, c := range []struct {
		name string
		in   *book
		want history.Verdict
	}{
		{"it came back", sent(ab, 2).each(history.Handled, ab, 1).add(history.Undeliverable, ab, 2),
			history.Verdict{Sent: 2, Handled: 1, Undeliverable: 1}},
		{"it came back without a number",
			sent(ab, 2).each(history.Handled, ab, 1).add(history.Undeliverable, ab, 0),
			history.Verdict{Sent: 2, Handled: 1, Undeliverable: 1}},
		{"nobody knows of two, and one was handled",
			sent(ab, 2).each(history.Handled, ab, 1).each(history.Indeterminate, ab, 1, 2),
			history.Verdict{Sent: 2, Handled: 1, Indeterminate: 2}},
		{"nobody knows, without a number",
			sent(ab, 2).each(history.Handled, ab, 1, 2).add(history.Indeterminate, ab, 0),
			history.Verdict{Sent: 2, Handled: 2, Indeterminate: 1}},
		{"its receiver was killed", sent(ab, 3).each(history.Handled, ab, 1).ended("right/0.0"),
			history.Verdict{Sent: 3, Handled: 1, Gone: 2}},
		{"its sender was killed", (&book{}).each(history.Sent, ab, 1, 2).each(history.Handled, ab, 1).
			ended("left/0.0"),
			history.Verdict{Sent: 2, Handled: 1}},
		{"it was sent to a dead process, and its sender was told",
			(&book{}).ended("right/0.0").each(history.Sent, ab, 1, 2, 3).
				add(history.Undeliverable, ab, 2).each(history.Indeterminate, ab, 0, 0).settled(ab.From),
			history.Verdict{Sent: 3, Undeliverable: 1, Indeterminate: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := history.Check(*c.in)
			require.Empty(t, v.Examples)
			require.Equal(t, c.want, v)
		})
	}
}

func TestCheck_killedReceiverDoesNotExcuseAFalseReport(t *testing.T) {
	v := history.Check(*sent(ab, 2).each(history.Handled, ab, 2, 1, 1).add(history.Undeliverable, ab, 1).
		ended("right/0.0"))
	require.Equal(t, 1, v.Lies)
	require.Equal(t, 1, v.Reordered)
	require.Equal(t, 1, v.Duplicated)
}

func TestCheck_namePrefixDoesNotExcuseALoss(t *testing.T) {
	require.Equal(t, 1, history.Check(*sent(ab, 1).ended("right/0")).Lost)
}

func TestCheck_keepsStreamsApart(t *testing.T) {
	ac := history.Stream{From: ab.From, To: "right/0.0/c"}
	b := sent(ab, 2)
	b.each(history.Sent, ac, 1, 2)
	b.each(history.Handled, ab, 1).each(history.Handled, ac, 1, 2).each(history.Handled, ab, 2)
	require.Zero(t, history.Check(*b).Wrong())
	require.Equal(t, 4, history.Check(*b).Handled)
}

// The checker finds each record that is removed from a clean history, repeated or moved.
func TestCheck_findsOneFaultAmongThousands(t *testing.T) {
	const n = 2000
	r := rand.New(rand.NewPCG(7, 7))
	for range 20 {
		at := 1 + r.Uint64N(n-1) // the last one has no inversion before it
		for fault := range 4 {
			b := sent(ab, n)
			for i := uint64(1); i <= n; i++ {
				switch {
				case i != at:
					b.add(history.Handled, ab, i)
				case fault == 0: // lost
				case fault == 1:
					b.each(history.Handled, ab, i, i)
				case fault == 2: // it comes with the next
				case fault == 3:
					b.add(history.Handled, ab, i).add(history.Undeliverable, ab, 0)
				}
				if fault == 2 && i == at+1 {
					b.add(history.Handled, ab, at)
				}
			}
			v := history.Check(*b)
			require.Equal(t, []int{v.Lost, v.Duplicated, v.Reordered, v.Lies}, one(fault), "message %d", at)
			require.Equal(t, 1, v.Wrong())
		}
	}
}

// one is a list of zeros with one 1.
func one(at int) []int {
	list := make([]int, 4)
	list[at] = 1
	return list
}

func TestVerdict_addsUp(t *testing.T) {
	a := history.Check(*sent(ab, 3).each(history.Handled, ab, 1, 3))
	b := history.Check(*sent(ab, 2).each(history.Handled, ab, 2, 1))
	sum := a.Plus(b)
	require.Equal(t, 5, sum.Sent)
	require.Equal(t, 4, sum.Handled)
	require.Equal(t, 2, sum.Wrong())
	require.Len(t, sum.Examples, 2)
	for range 20 {
		sum = sum.Plus(a)
	}
	require.Len(t, sum.Examples, 10)
	require.Equal(t, "lost=21 duplicated=0 reordered=1 of 65, indeterminate=0, undeliverable=0", sum.String())
}
