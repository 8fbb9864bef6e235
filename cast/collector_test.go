package cast

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
)

// dumbCollector is the oracle of a collector: it walks through all ranks and all parts for each
// event.
type dumbCollector struct {
	lo, hi, own int
	fates       map[int]fate
	parts       [][]int
	rerouted    bool
	deferred    [][]int
}

func (o *dumbCollector) ask(ranks []int) {
	for _, rank := range ranks {
		if _, known := o.fates[rank]; !known && rank >= o.lo && rank < o.hi {
			o.fates[rank] = waiting
		}
	}
}

func (o *dumbCollector) fail(ranks []int, f fate) {
	for _, rank := range ranks {
		if o.fates[rank] == waiting {
			o.fates[rank] = f
		}
	}
}

func (o *dumbCollector) answer(rank int) {
	if o.fates[rank] == waiting && rank < o.lo+o.own {
		o.fates[rank] = answered
	}
}

func (o *dumbCollector) contribute(ranks []int) {
	for _, rank := range ranks {
		if o.fates[rank] == skipped || rank < o.lo+o.own {
			return
		}
	}
	if o.rerouted {
		for rank := ranks[0]; rank < ranks[len(ranks)-1]; rank++ {
			if !slices.Contains(ranks, rank) && o.fates[rank] == waiting {
				o.deferred = append(o.deferred, ranks)
				return
			}
		}
	}
	o.insert(ranks)
}

// insert adds a part in place of overlapping ones, if it has more ranks. After a reroute it must
// have all of their ranks and more.
func (o *dumbCollector) insert(ranks []int) {
	var kept [][]int
	others := 0
	for _, p := range o.parts {
		if p[0] > ranks[len(ranks)-1] || p[len(p)-1] < ranks[0] {
			kept = append(kept, p)
			continue
		}
		others += len(p)
		for _, rank := range p {
			if o.rerouted && !slices.Contains(ranks, rank) {
				return
			}
		}
	}
	if others >= len(ranks) {
		return
	}
	for _, p := range o.parts {
		if !slices.ContainsFunc(kept, func(k []int) bool { return k[0] == p[0] }) {
			for _, rank := range p {
				o.fates[rank] = waiting
			}
		}
	}
	for _, rank := range ranks {
		o.fates[rank] = answered
	}
	o.parts = append(kept, ranks)
	slices.SortFunc(o.parts, func(a, b []int) int { return a[0] - b[0] })
}

func (o *dumbCollector) expire() {
	for _, p := range o.deferred {
		o.insert(p)
	}
	o.deferred = nil
	for rank := o.lo; rank < o.hi; rank++ {
		o.fail([]int{rank}, missing)
	}
}

func TestCollector_agreesWithItsOracle_CAST6(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.IntRange(0, 3).Draw(t, "lo")
		hi := lo + rapid.IntRange(1, 12).Draw(t, "ranks")
		own := rapid.IntRange(0, hi-lo).Draw(t, "own")
		c := newCollector(lo, hi, own)
		c.inOrder = true
		o := &dumbCollector{lo: lo, hi: hi, own: own, fates: map[int]fate{}}
		some := func() []int {
			rank := rapid.IntRange(0, 16)
			return slices.Sorted(slices.Values(rapid.SliceOfNDistinct(rank, 1, 6, rapid.ID).Draw(t, "some")))
		}
		listed := 0
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			ranks := some()
			rs := shape.RanksOf(slices.Values(ranks))
			switch rapid.IntRange(0, 7).Draw(t, "event") {
			case 0:
				c.expect(rs)
				o.ask(ranks)
			case 1:
				c.answer(ranks[0], actor.Answer{Value: ranks[0]})
				o.answer(ranks[0])
			case 2:
				c.answer(ranks[0], actor.Answer{Err: errGone})
				o.fail(ranks[:1], failed)
			case 3:
				c.contribute(contribution{failed: []failure{{rs, actor.EncodeError(errGone)}}})
				o.fail(ranks, failed)
			case 4:
				c.contribute(contribution{parts: []part{{rs, actor.Answer{Value: ranks}}}})
				if ranks[len(ranks)-1] < hi && ranks[0] >= lo {
					o.contribute(ranks)
				}
			case 5:
				c.rerouted, o.rerouted = true, true
			case 6:
				c.expire(noAnswer)
				o.expire()
			case 7:
				c.stop(rs, errors.New("stopped"))
				o.ask(ranks)
				o.fail(ranks, notAsked)
			}
			pending, settled := 0, 0
			for rank := lo; rank < hi; rank++ {
				f := o.fates[rank]
				require.Equal(t, f, c.fateOf(rank), "rank %d", rank)
				require.Equal(t, f == failed || f == missing || f == notAsked, c.err(rank) != nil)
				if f == waiting {
					pending++
				} else if f != skipped {
					settled++
				}
			}
			require.Equal(t, []int{pending, settled}, []int{c.pending, c.settled})
			listed += len(c.takeSettled())
			require.GreaterOrEqual(t, listed, settled)
			requireValues(t, c, o)
		}
	})
}

// requireValues compares the values with those of the oracle: the own ones, then the parts.
func requireValues(t *rapid.T, c *collector, o *dumbCollector) {
	var want, got []any
	for rank := o.lo; rank < o.lo+o.own; rank++ {
		if o.fates[rank] == answered {
			want = append(want, rank)
		}
	}
	for _, p := range o.parts {
		want = append(want, p)
	}
	for a := range c.values() {
		got = append(got, a.Value)
	}
	require.Equal(t, want, got)
}
