package cast_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
)

// Several senders cast at once to overlapping slices of slices, some with steps, some with fewer
// dimensions. Each rank gets its casts once, in the order of each sender, with its place in the
// slice.
func TestCast_overlappingCastsReachEachRankOnce_CAST1(t *testing.T) { // CAST-1
	for name, perProcess := range map[string]int{"a process each": 1, "two in a process": 2} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, shape.Of("host", 2).With("gpu", 6), 6, perProcess)
			cut := func(r shape.Region, err error) shape.Region {
				require.NoError(t, err)
				return r
			}
			even := cut(c.region.SliceStep("gpu", 0, 6, 2))
			odd := cut(c.region.SliceStep("gpu", 1, 6, 2))
			regions := []shape.Region{
				c.region, even, cut(even.Slice("gpu", 1, 3)), cut(cut(even.Slice("gpu", 1, 3)).Index("host", 1)),
				cut(odd.At("host", 0)), cut(cut(odd.At("host", 0)).SliceStep("gpu", 0, 3, 2)),
				cut(cut(even.At("gpu", 2)).Slice("host", 1, 2)),
			}
			const rounds = 10
			meant := func(n int) shape.Region { return regions[n%len(regions)] }
			senders := []*actor.Proc{c.client, c.procs[0], c.procs[7]}
			var all sync.WaitGroup
			errs := make([]error, len(senders))
			for i, p := range senders {
				all.Go(func() {
					for n := 0; n < rounds*len(regions) && errs[i] == nil; n++ {
						to := c.members
						to.via, to.region = p, meant(n)
						errs[i] = cast.Send(t.Context(), to, note, n)
					}
				})
			}
			all.Wait()
			require.Equal(t, make([]error, len(senders)), errs)
			want := 0
			for _, r := range regions {
				want += rounds * len(senders) * r.NumRanks()
			}
			type pair struct {
				rank   int
				sender string
			}
			got := map[pair][]int{}
			for _, e := range c.Take(t, want) {
				view, in := meant(e.n).ViewRank(e.rank)
				require.True(t, in, "rank %d is not in %s", e.rank, meant(e.n))
				at, err := meant(e.n).Extent().Point(view)
				require.NoError(t, err)
				require.Equal(t, entry{e.rank, e.n, at.String(), view, e.sender}, e)
				got[pair{e.rank, e.sender}] = append(got[pair{e.rank, e.sender}], e.n)
			}
			for _, p := range senders {
				_, err := cast.Gather(t.Context(), members{via: p, place: c.place, region: c.region}, who, actor.None{})
				require.NoError(t, err)
				for rank := range c.region.NumRanks() {
					var ns []int
					for n := range rounds * len(regions) {
						if meant(n).Contains(rank) {
							ns = append(ns, n)
						}
					}
					require.Equal(t, ns, got[pair{rank, p.ID().Actor("client").String()}], "rank %d", rank)
				}
			}
			require.Empty(t, c.Take(t, 0), "and nothing else")
		})
	}
}
