package mesh

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

func TestAcquaintances_aMeshIsAskedForOnceAndAgainWhenNobodySaidOrTheProcessWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		as := &acquaintances{all: map[subjects.MeshID]*acquaintance{}}
		id, err := subjects.NewMeshID("workers")
		require.NoError(t, err)
		first, asked := as.asked(id)
		require.False(t, asked)
		same, asked := as.asked(id)
		require.True(t, asked, "whoever comes meanwhile waits")
		require.Same(t, first, same)
		first.answered(false)
		_, asked = as.asked(id)
		require.True(t, asked)
		time.Sleep(askAgain + 1)
		again, asked := as.asked(id)
		require.False(t, asked, "nobody had said")
		again.answered(true)
		time.Sleep(time.Hour)
		_, asked = as.asked(id)
		require.True(t, asked)
		as.stir(bus.State{Kind: bus.Disconnected})
		_, asked = as.asked(id)
		require.True(t, asked)
		as.stir(bus.State{Kind: bus.Reconnected})
		_, asked = as.asked(id)
		require.False(t, asked, "what was said meanwhile may be lost")
	})
}

func TestAcquaintances_areBounded(t *testing.T) {
	as := &acquaintances{all: map[subjects.MeshID]*acquaintance{}}
	for range maxAcquaintances + 1 {
		id, err := subjects.NewMeshID("workers")
		require.NoError(t, err)
		_, asked := as.asked(id)
		require.False(t, asked)
	}
	require.Len(t, as.all, 1)
}
