package mesh_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
)

func TestNotFoundError_namesAFewOfMany(t *testing.T) {
	many := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	require.EqualError(t, &mesh.NotFoundError{What: "mesh", Name: "x", Known: many},
		`mesh "x" does not exist; there is a, b, c, d, e, f, g, h, and 2 more`)
	require.EqualError(t, &mesh.AmbiguousError{What: "mesh", Name: "x", Candidates: many[:2]},
		`mesh "x" is ambiguous: want one of a, b`)
	require.Len(t, many, 10)
	require.Equal(t, "i", many[8], "the slice is unchanged")
}

func TestSpawnError_namesRanksOfTheWholeMesh(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, _ := c.workers(t, 3, 0)
	for _, free := range []bool{false, true} {
		part := procs.Slice("gpu", 1, 3)
		_, err := mesh.SpawnActors(t.Context(), part, counter,
			mesh.ActorSpawnSpec[int64]{Label: "some", Params: -1, Uncontrolled: free})
		require.ErrorContains(t, err, "1 of 2 ranks did not start\n  rank 2 (host=0/1,gpu=2/3) on a-")
		require.ErrorContains(t, err, "cannot count from -1")
	}
}

func TestFind_reportsHowEndedActorsEnded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, counters := c.workers(t, 2, 0)
	for rank := range 2 {
		_, err := mesh.Find[*Counter](t.Context(), procs, "counters")
		require.NoError(t, err, "one of them lives")
		_, err = crash.Call(t.Context(), counters.Ref(rank), actor.None{})
		require.Error(t, err)
	}
	var err error
	require.Eventually(t, func() bool { // who called hears of the panic before the actor has ended
		_, err = mesh.Find[*Counter](t.Context(), procs, "counters")
		return err != nil
	}, testkit.Patience, 10*time.Millisecond)
	require.ErrorAs(t, err, new(*mesh.NotFoundError))
	require.Regexp(t, `^actor mesh "counters" has ended: `+counters.Name()+
		` failed: crash: panicked: crash test \(mesh/main_test\.go:\d+\)$`, err.Error())
}

func TestLookup_reportsHowTheNewestEndedMeshEnded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	var last mesh.ProcMesh
	for _, reason := range []string{"first", "second"} {
		last, _ = c.workers(t, 1, 0)
		require.NoError(t, last.StopWithReason(t.Context(), reason))
	}
	label := last.ID().Label()
	_, err := c.Lookup(t.Context(), label)
	require.EqualError(t, err, `mesh "`+label+`" has ended: `+last.ID().String()+` stopped: second`)
}
