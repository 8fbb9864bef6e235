package cast_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

// running merges what all processes of a cluster know of their running casts.
func (c *cluster) running(also ...string) (all map[string]cast.Running) {
	all = map[string]cast.Running{}
	for _, p := range c.procs {
		if p.Lead() != p {
			continue
		}
		parts, _ := cast.RunningOf(p, also, 64)
		for _, part := range parts {
			sum, known := all[part.ID]
			if !known {
				sum = part
			}
			sum.Answered = shape.UnionOf(sum.Answered, part.Answered)
			sum.Failed = shape.UnionOf(sum.Failed, part.Failed)
			sum.Waiting = shape.UnionOf(sum.Waiting, part.Waiting)
			all[part.ID] = sum
		}
	}
	return all
}

func TestRunningOf_hasTheFateOfEachRank(t *testing.T) {
	for _, perProcess := range []int{1, 2, 4} {
		for name, ask := range map[string]func(ctx context.Context, in members) error{
			"gather": func(ctx context.Context, in members) error {
				_, err := cast.Gather(ctx, in, wait, 5)
				return err
			},
			"reduce": func(ctx context.Context, in members) error {
				_, err := cast.Reduce(ctx, in, wait, 5, cast.Sum[int]())
				return err
			},
		} {
			t.Run(name+" "+strconv.Itoa(perProcess), func(t *testing.T) {
				c := newCrowd(t, twoByFour(), 4, perProcess)
				in := c.in(t, "gpu=1:4")
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan error, 1)
				go func() { over <- ask(ctx, in) }()
				c.Take(t, 1) // rank 5 waits; it is the fourth of the region
				var id string
				testkit.Until(t, "the other ranks have answered", func() bool {
					for id = range c.running() {
					}
					part := c.running(id)[id]
					return part.Answered.Len() == 5
				})
				part := c.running(id)[id]
				require.Len(t, c.running(), 1)
				require.Equal(t, shape.Interval(3, 1), part.Waiting)
				require.True(t, part.Failed.IsEmpty())
				require.Equal(t, "members.wait", part.Actor+"."+part.Endpoint)
				require.Equal(t, c.client.ID(), part.From.Proc)
				require.Equal(t, in.region.NumRanks(), part.Region.NumRanks())
				require.WithinDuration(t, time.Now(), part.Since, 10*time.Second)
				require.WithinDuration(t, part.Since.Add(actor.DefaultDeadline), part.Deadline, time.Second)
				cancel()
				require.ErrorIs(t, <-over, context.Canceled)
			})
		}
	}
}

func TestRunningOf_isBoundedOldestFirst(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 1), 1)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{}, 3)
	for range 3 {
		go func() {
			_, _ = cast.Gather(ctx, c.members, wait, 0)
			over <- struct{}{}
		}()
	}
	testkit.Until(t, "three casts run", func() bool { return len(c.running()) == 3 })
	all, more := cast.RunningOf(c.procs[0], nil, 2)
	require.Len(t, all, 2)
	require.Equal(t, 1, more)
	require.False(t, all[1].Since.Before(all[0].Since))
	some, _ := cast.RunningOf(c.procs[0], []string{all[1].ID}, 1)
	require.Equal(t, all[1].ID, some[0].ID, "named ones are first")
	none, _ := cast.RunningOf(c.client, nil, 2)
	require.Empty(t, none, "a client is no rank")
	cancel()
	for range 3 {
		<-over
	}
}
