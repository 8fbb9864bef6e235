package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/internal/cli"
)

func foldAll(t require.TestingT, name string, values []any) any {
	by, err := reducerNamed(name)
	require.NoError(t, err)
	acc := values[0]
	for _, v := range values[1:] {
		acc, err = by.Fold(acc, v)
		require.NoError(t, err)
	}
	return acc
}

func TestReducers_foldNumbersAsAnOracleDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ints := rapid.SliceOfN(rapid.Int64Range(-1<<40, 1<<40), 1, 9).Draw(t, "ints")
		var sum int64
		var values, mixed []any
		for i, n := range ints {
			sum += n
			values = append(values, n)
			if i%2 == 0 {
				mixed = append(mixed, float64(n))
			} else {
				mixed = append(mixed, n)
			}
		}
		require.Equal(t, sum, foldAll(t, "sum", values))
		require.Equal(t, slices.Min(ints), foldAll(t, "min", values))
		require.Equal(t, slices.Max(ints), foldAll(t, "max", values))
		if len(mixed) > 1 {
			require.Equal(t, float64(sum), foldAll(t, "sum", mixed))
		}
	})
}

func TestReducers_foldBooleans(t *testing.T) {
	require.Equal(t, true, foldAll(t, "all", []any{true, true}))
	require.Equal(t, false, foldAll(t, "all", []any{true, false, true}))
	require.Equal(t, true, foldAll(t, "any", []any{false, true}))
	require.Equal(t, false, foldAll(t, "any", []any{false, false}))
}

func TestReducers_refuseWhatTheyMakeNoSenseOf(t *testing.T) {
	for name, pair := range map[string][2]any{
		"sum": {int64(1), "x"}, "min": {nil, int64(1)}, "max": {true, true}, "all": {int64(1), true}, "any": {"a", nil},
	} {
		by, err := reducerNamed(name)
		require.NoError(t, err)
		_, err = by.Fold(pair[0], pair[1])
		require.ErrorContains(t, err, "--reduce "+name+" folds ")
	}
	_, err := reducerNamed("median")
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
}

func TestReducers_areTheOnesHelpNames(t *testing.T) {
	for _, name := range reducerNames() {
		by, err := reducerNamed(name)
		require.NoError(t, err)
		require.Equal(t, name, by.Name())
	}
}
