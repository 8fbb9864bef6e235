package cast

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
)

func TestPackedAnswers_keepOrderUnderAnyGrouping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answers := rapid.SliceOf(rapid.SampledFrom(
			[][]byte{{}, {1}, []byte("two"), bytes.Repeat([]byte("3"), 300)})).Draw(t, "answers")
		var whole packedAnswers
		for len(answers) > 0 || whole.data == nil {
			n := rapid.IntRange(0, len(answers)).Draw(t, "part")
			var part packedAnswers
			for _, a := range answers[:n] {
				part.add(1, a)
			}
			raw, err := wire.Marshal(part)
			require.NoError(t, err)
			travelled, err := decodePackedAnswers(actor.EncodedAnswer(raw))
			require.NoError(t, err)
			require.Equal(t, part.lastEntry, travelled.lastEntry)
			before := slices.Clone(whole.data)
			joined := whole.join(travelled)
			require.Equal(t, before, whole.data, "the joined row is unchanged")
			require.Equal(t, append(each(whole), each(part)...), each(joined))
			if whole, answers = joined, answers[n:]; len(answers) == 0 {
				return
			}
		}
	})
}

// each is a row without counts.
func each(r packedAnswers) (all []string) {
	for count, a := range r.entries() {
		for range count {
			all = append(all, string(a))
		}
	}
	return all
}

func FuzzPackedAnswers(f *testing.F) {
	var r packedAnswers
	r.add(3, []byte("abc"))
	r.add(1, nil)
	f.Add(r.data)
	f.Add([]byte{0, 0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		travelled := wire.AppendBytes(nil, data)
		bustest.CheckAllocBound(t, data, func() { _, _ = decodePackedAnswers(actor.EncodedAnswer(travelled)) })
		r, err := decodePackedAnswers(actor.EncodedAnswer(travelled))
		if err != nil {
			return
		}
		var again []byte
		for count, answer := range r.entries() {
			var one packedAnswers
			one.add(count, answer)
			again = append(again, one.data...)
		}
		require.LessOrEqual(t, len(again), len(data), "a length may be written longer than it needs")
	})
}

func TestResultSlots_reportTheLastResultOnceAndYieldEachOnce(t *testing.T) {
	const n = 200
	s := newResultSlots(10, 10+n, shape.Interval(15, 5))
	var taken []int
	var mu sync.Mutex // the reader's
	var all sync.WaitGroup
	last := make(chan int, n)
	for view := 5; view < 20+n; view++ {
		for range 2 { // a second word does not count
			all.Go(func() {
				if s.put(view, actor.Answer{Value: view}) {
					last <- view
				}
				mu.Lock()
				defer mu.Unlock()
				s.drain(func(view int, a actor.Answer) {
					require.Equal(t, view, a.Value)
					taken = append(taken, view)
				})
			})
		}
	}
	all.Wait()
	require.Len(t, last, 1)
	slices.Sort(taken)
	require.Len(t, slices.Compact(taken), n-5)
}
