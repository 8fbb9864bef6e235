package mesh

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

func TestPlacementCache_resolvesAMeshOnceUntilInvalidated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		follows := true
		as := &placementCache{follows: func(subjects.MeshID) bool { return follows },
			all: map[subjects.MeshID]*placementEntry{}}
		id, err := subjects.NewMeshID("workers")
		require.NoError(t, err)
		first, asked := as.entry(id, 0)
		require.False(t, asked)
		same, asked := as.entry(id, 0)
		require.True(t, asked, "later callers wait")
		require.Same(t, first, same)
		first.complete(false)
		_, asked = as.entry(id, 0)
		require.True(t, asked)
		time.Sleep(resolveRetry + 1)
		again, asked := as.entry(id, 0)
		require.False(t, asked, "no hint before")
		again.complete(true)
		time.Sleep(time.Hour)
		_, asked = as.entry(id, 0)
		require.True(t, asked)
		as.invalidate(bus.State{Kind: bus.Disconnected})
		_, asked = as.entry(id, 0)
		require.True(t, asked)
		as.invalidate(bus.State{Kind: bus.Reconnected})
		_, asked = as.entry(id, 0)
		require.False(t, asked, "a concurrent hint may be lost")
		as.all[id].complete(true)
		follows = false
		_, asked = as.entry(id, 0)
		require.False(t, asked, "the process has forgotten the mesh")
	})
}

func TestPlacementCache_isBounded(t *testing.T) {
	as := &placementCache{all: map[subjects.MeshID]*placementEntry{}}
	for range maxPlacements + 1 {
		id, err := subjects.NewMeshID("workers")
		require.NoError(t, err)
		_, asked := as.entry(id, 0)
		require.False(t, asked)
	}
	require.Len(t, as.all, 1)
}
