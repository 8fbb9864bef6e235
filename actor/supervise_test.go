package actor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
)

// spawnFor spawns an actor that stops with a parent, which supervises it.
func spawnFor(t *testing.T, parent actor.Ref[*Box], there *actor.Proc) actor.Ref[*Box] {
	t.Helper()
	id, err := there.Spawn(t.Context(), actor.SpawnSpec{
		Type: box.Name(), Name: "ward", Params: int64(0), Parent: parent.ID(), Announce: true,
	})
	require.NoError(t, err)
	_, err = do.Call(t.Context(), parent, func(ctx *actor.Context, _ *Box) (int64, error) {
		return 0, actor.Supervise(ctx, id)
	})
	require.NoError(t, err)
	return actor.RefOf[*Box](id).Via(there)
}

// sides runs a test with a parent and a child in one proc, and in two.
func sides(t *testing.T, test func(t *testing.T, here, there *actor.Proc)) {
	t.Run("same proc", func(t *testing.T) {
		p := alone(t)
		test(t, p, p)
	})
	t.Run("other proc", func(t *testing.T) {
		a, b := two(t)
		test(t, a, b)
	})
}

func TestSupervise_endsFollowTheParentAndReachIt_ACT6(t *testing.T) {
	sides(t, func(t *testing.T, here, there *actor.Proc) {
		parent := spawn(t, here)
		ward := spawnFor(t, parent, there)
		testkit.Next(t, there.StopActor(ward.ID().Name, "enough"))
		awaitIdle(t, parent) // an orderly end changes nothing

		ward = spawnFor(t, parent, there)
		es := record(there)
		testkit.Next(t, here.StopActor(parent.ID().Name, "enough"))
		e := es.end(t, ward.ID().Name)
		require.Equal(t, "stopped", e.Status)
		require.Equal(t, "its parent "+parent.ID().String()+" is gone: the actor stopped: enough", e.Reason)

		parent = spawn(t, here)
		ward = spawnFor(t, parent, there)
		es = record(here)
		failActor(t, there, ward, "no more")
		e = es.end(t, parent.ID().Name)
		require.Equal(t, "its child ward failed: fail: no more", e.Reason)
		require.Equal(t, actor.CodeCascade, e.Code)
		require.Equal(t, "fail: no more", e.RootCause().Reason)
		testkit.Until(t, "no watch is left", func() bool { return here.Owed()+there.Owed() == 0 })
	})
}

func TestSupervise_parentThatIsGoneStopsTheActorAtOnce_ACT6(t *testing.T) {
	sides(t, func(t *testing.T, here, there *actor.Proc) {
		parent := spawn(t, here)
		testkit.Next(t, here.KillActor(parent.ID().Name, "now"))
		es := record(there)
		_, err := there.Spawn(t.Context(), actor.SpawnSpec{
			Type: box.Name(), Name: "ward", Params: int64(0), Parent: parent.ID(), Announce: true,
		})
		if err != nil { // it stopped before its constructor
			require.ErrorContains(t, err, parent.ID().String()+" is gone")
			return
		}
		require.Contains(t, es.end(t, "ward").Reason, parent.ID().String()+" is gone: the actor failed: killed: now")
	})
}

func TestSupervise_procOfTheParentDies_ACT6(t *testing.T) {
	here, there := two(t)
	parent := spawn(t, here)
	ward := spawnFor(t, parent, there)
	es := record(there)
	there.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: here.ID().Mesh.String(),
		Reason: "killed by signal 9"})
	require.Equal(t, "its parent "+parent.ID().String()+" is gone: the proc is gone: killed by signal 9",
		es.end(t, ward.ID().Name).Reason)
}

func TestSupervise_procOfTheChildDies_ACT6(t *testing.T) {
	here, there := two(t)
	parent := spawn(t, here)
	ward := spawnFor(t, parent, there)
	es := record(here)
	here.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: there.ID().Mesh.String(),
		Reason: "killed by signal 9"})
	e := es.end(t, parent.ID().Name)
	require.Equal(t, "its child "+ward.ID().Name+" failed: the proc is gone: killed by signal 9", e.Reason)
	require.Equal(t, ward.ID().Name, e.Cause.Actor)
	require.Equal(t, "killed by signal 9", e.RootCause().Reason)
}

func TestSupervise_wantsAnActor(t *testing.T) {
	require.ErrorContains(t, actor.Supervise(t.Context(), spawn(t, alone(t)).ID()), "want the Context of its parent")
}
