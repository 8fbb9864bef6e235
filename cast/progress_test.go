package cast_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

func TestProgress_countsRanksWhileRepliesFold_CAST9(t *testing.T) {
	t.Parallel()
	waiting := actor.NewEndpoint[*member, int, any](wait.Name())
	for name, ask := range map[string]func(ctx context.Context, to cast.Mesh[*member]) error{
		"reduce": func(ctx context.Context, to cast.Mesh[*member]) error {
			_, err := cast.Reduce(ctx, to, wait, 5, cast.Sum[int]())
			return err
		},
		"fold": func(ctx context.Context, to cast.Mesh[*member]) error {
			_, err := cast.Fold(ctx, to, waiting, 5, "sum")
			return err
		},
		"gather": func(ctx context.Context, to cast.Mesh[*member]) error {
			_, err := cast.Gather(ctx, to, wait, 5)
			return err
		},
		"by batches": func(ctx context.Context, to cast.Mesh[*member]) error {
			_, err := cast.Gather(ctx, cast.Throttled(to, cast.Throttle{}), wait, 5)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Virtual(t, func(t *testing.T) {
				for _, perProcess := range []int{1, 2} {
					c := newCrowd(t, twoByFour(), 4, perProcess)
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					last := 0
					err := ask(ctx, cast.WithProgress(c.members, 0, func(n int) {
						require.Greater(t, n, last)
						if last = n; n == 7 {
							cancel() // rank 5 never answers
						}
					}))
					partial := new(cast.CoverageError)
					require.ErrorAs(t, err, &partial)
					require.Less(t, partial.Coverage.Answered, 8, "it was a word only")
					require.Equal(t, 8, last, "all ranks are settled")
					cancel()
				}
			})
		})
	}
}

func TestProgress_returnsTheSameResults(t *testing.T) {
	c := newCluster(t, shape.Of("host", 2).With("gpu", 2), 2)
	var told []int
	m := cast.WithProgress(c.members, time.Hour, func(n int) { told = append(told, n) })
	sum, err := cast.Reduce(t.Context(), m, who, actor.None{}, cast.Sum[int]())
	require.NoError(t, err)
	require.Equal(t, 0+1+2+3, sum)
	require.Equal(t, 4, told[len(told)-1])
	_, err = cast.Gather(t.Context(),
		cast.WithProgress(c.in(t, "host=1"), 0, func(n int) { require.LessOrEqual(t, n, 2) }), who, actor.None{})
	require.NoError(t, err)
}
