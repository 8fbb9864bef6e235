package actor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A directory remembers the last actor found: not one that left, nor one that another replaced.
func TestDirectory_findsTheActorsThatAreIn(t *testing.T) {
	d := &directory{byName: map[string]*instance{}}
	first := &instance{name: "a", state: stopped}
	other := &instance{name: "b"}
	require.NoError(t, d.add(first))
	require.NoError(t, d.add(other))
	for range 2 {
		require.Same(t, first, d.find("a"))
		require.Same(t, first, d.find("a"))
		require.Same(t, other, d.find("b"))
	}
	require.Same(t, first, d.find("a"))
	next := &instance{name: "a"}
	require.NoError(t, d.add(next))
	require.Same(t, next, d.find("a"))
	d.remove(first) // it was replaced
	require.Same(t, next, d.find("a"))
	d.remove(next)
	require.Nil(t, d.find("a"))
	require.Nil(t, d.find("c"))
	require.Same(t, other, d.find("b"))
}
