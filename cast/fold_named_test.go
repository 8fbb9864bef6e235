package cast_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
)

// untyped is the endpoint for a program with no more than its name.
func untyped(name string) actor.Endpoint[*member, any, any] {
	return actor.NewEndpoint[*member, any, any](name)
}

func TestFold_byNameNeedsNoTypes(t *testing.T) {
	c := newCluster(t, shape.Of("host", 3).With("gpu", 2), 2)
	for _, tc := range []struct {
		endpoint, reducer string
		message, want     any
	}{
		{"who", "sum", nil, int64(15)},
		{"who", "max", nil, int64(5)},
		{"who", "count", nil, 6},
		{"who", "count()", nil, 6},
		{"who", "top(2)", nil, []any{int64(5), int64(4)}},
		{"who", "histogram(1,4)", nil, []int{1, 3, 2}},
		{"name", "collect", "n", []any{"n0", "n1", "n2", "n3", "n4", "n5"}},
		{"list", "concat", nil, []any{int64(0), int64(0), int64(1), int64(1), int64(2), int64(2), int64(3),
			int64(3), int64(4), int64(4), int64(5), int64(5)}},
		{"odd", "count-by", nil, []any{map[string]any{"answer": false, "count": 3},
			map[string]any{"answer": true, "count": 3}}},
		// the endpoint declares it
		{"tags", "merge-last", nil, map[string]any{"all": int64(1), "even": int64(1), "odd": int64(1)}},
	} {
		got, err := cast.Fold(testkit.Soon(t), c.members, untyped(tc.endpoint), tc.message, tc.reducer)
		require.NoError(t, err, tc.reducer)
		require.Equal(t, tc.want, got, tc.reducer)
	}
}

func TestFold_namesAFailedRankAndKeepsTheOthers(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	sum, err := cast.Fold(testkit.Soon(t), c.members, untyped("refuse"), any(7), "sum")
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, "host=1,gpu=3", partial.Coverage.FailedRegion())
	require.Equal(t, int64(21), sum)
}

func TestFold_refusesInvalidReducersAndReportsUnknownOnes(t *testing.T) { // CAST-5
	c := newCluster(t, shape.Of("gpu", 2), 2)
	toMany, alone := packets(t, c, 0)
	_, err := cast.Fold(testkit.Soon(t), c.members, untyped("who"), nil, "top(x)")
	require.ErrorIs(t, err, actor.ErrInvalid)
	require.ErrorContains(t, err, "top(x)")
	_, err = cast.Fold(testkit.Soon(t), c.members, untyped("who"), nil, "no such")
	require.ErrorIs(t, err, actor.ErrInvalid)
	require.Zero(t, toMany()+alone())
	v, err := cast.Fold(testkit.Soon(t), c.members, untyped("note"), any(7), "abacus")
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.ErrorIs(t, err, actor.ErrInvalid)
	require.ErrorContains(t, err,
		`reducer "abacus": no such built-in reducer, and the endpoint declares none of that name`)
	require.Nil(t, v)
	require.NoError(t, note.Send(testkit.Soon(t), c.Ref(0).Via(c.client), 8))
	require.Equal(t, 8, c.Take(t, 1)[0].n, "CAST-5: no actor has handled it")
}

func TestFold_throttledMeshFoldsAtTheCaller(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	slow := cast.Throttled(c.members, cast.Throttle{BatchSize: 3})
	n, err := cast.Fold(testkit.Soon(t), slow, untyped("who"), nil, "top(2)")
	require.NoError(t, err)
	require.Equal(t, []any{int64(7), int64(6)}, n)
	_, err = cast.Fold(testkit.Soon(t), slow, untyped("tags"), nil, "merge-last")
	require.ErrorIs(t, err, actor.ErrInvalid)
}
