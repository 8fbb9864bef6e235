package actor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
)

func TestBuiltinReducer_nameNeedsNoLabel(t *testing.T) {
	sum := func(a, b int) (int, error) { return a + b, nil }
	r := actor.BuiltinReducer("merge(sum)", sum)
	require.NoError(t, r.Err())
	require.True(t, r.Builtin())
	require.Equal(t, "merge(sum)", r.Name())
	n, err := r.Fold(1, 2)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.ErrorContains(t, actor.BuiltinReducer[int]("merge(sum)", nil).Err(), "want a function")
	require.False(t, actor.NewReducer("sum", sum).Builtin())
	require.ErrorContains(t, actor.NewReducer("merge(sum)", sum).Err(), `"merge(sum)"`)
}
