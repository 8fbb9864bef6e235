package shape_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/mesh/shape"
)

func TestValueMesh_hasOneValuePerRank(t *testing.T) { // SHP-6
	r := must(shape.Of("host", 2).With("gpu", 4).Region().Slice("gpu", 1, 3))
	m := must(shape.NewValueMesh(r, []string{"a", "b", "c", "d"}))
	require.Equal(t, 4, m.Len())
	require.True(t, r.Equal(m.Region()))
	require.Equal(t, []string{"a", "b", "c", "d"}, m.Values())
	v, ok := m.At(3)
	require.True(t, ok)
	require.Equal(t, "d", v)
	for _, outside := range []int{-1, 4} {
		v, ok = m.At(outside)
		require.False(t, ok)
		require.Empty(t, v)
	}
	var all []string
	for p, v := range m.All() {
		all = append(all, fmt.Sprint(p, " ", v))
	}
	require.Equal(t, []string{"host=0/2,gpu=0/2 a", "host=0/2,gpu=1/2 b", "host=1/2,gpu=0/2 c", "host=1/2,gpu=1/2 d"}, all)
	for p := range m.All() {
		require.Zero(t, p.Rank())
		break
	}
}

func TestValueMesh_wrongNumberOfValuesIsAnError(t *testing.T) {
	for _, values := range [][]int{nil, {1}, {1, 2, 3}} {
		_, err := shape.NewValueMesh(shape.Of("x", 2).Region(), values)
		require.EqualError(t, err, fmt.Sprintf(`number of values "%d": want 2, the ranks of x=2/1`, len(values)))
	}
}

func TestMap_keepsTheRegion(t *testing.T) {
	m := must(shape.NewValueMesh(shape.Of("x", 3).Region(), []int{5, 6, 7}))
	out := shape.Map(m, func(p shape.Point, v int) string { return fmt.Sprint(p.Rank() * v) })
	require.Equal(t, []string{"0", "6", "14"}, out.Values())
	require.True(t, m.Region().Equal(out.Region()))
}

func TestValueMesh_zeroHasNoValues(t *testing.T) {
	var m shape.ValueMesh[int]
	require.Zero(t, m.Len())
	_, ok := m.At(0)
	require.False(t, ok)
	for range m.All() {
		t.Fatal("the zero mesh has no values")
	}
}
