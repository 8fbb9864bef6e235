package actortest_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// testActor is a TestActor in a rig.
func testActor(t testing.TB) (*actortest.Rig, actor.Ref[actortest.TestActor]) {
	t.Helper()
	rig := actortest.New(t, actortest.Actors()...)
	return rig, actortest.Spawn(rig, actortest.TestActors, actor.None{})
}

func TestTestActor_knowsItsNameAndCaller(t *testing.T) {
	rig, ref := testActor(t)
	peer := rig.Peer()
	for _, via := range []*actor.Proc{rig.Proc(), peer.Proc()} {
		id, err := actortest.GetActorID.Call(rig.Context(), ref.Via(via), actor.None{})
		require.NoError(t, err)
		require.Equal(t, ref.ID(), id)
		info, err := actortest.GetCastInfo.Call(rig.Context(), ref.Via(via), actor.None{})
		require.NoError(t, err)
		require.Equal(t, ref.ID(), info.Self)
		require.Equal(t, via.ID().Actor("client"), info.Sender)
		require.Zero(t, info.Rank)
		require.Empty(t, info.Coords)
	}
}

func TestTestActor_failedCreateFailsTheTest(t *testing.T) {
	rig, _ := testActor(t)
	_, err := actor.Spawn(rig.Context(), rig.Proc(), actortest.FailingCreates, "fails", actor.None{})
	require.EqualError(t, err, "actor type failing-create: test failure")
}

func TestTestActor_panicsForTesting(t *testing.T) {
	rig, ref := testActor(t)
	_, err := actortest.CauseFailure.Call(rig.Context(), ref, actortest.Failure{Kind: actortest.Panic})
	require.ErrorIs(t, err, actor.ErrPanic)
	require.Regexp(t, `^cause-failure: panicked: for testing \(actortest/actors\.go:\d+\)$`,
		rig.ExpectFailure(ref).Reason)
}

func TestTestActor_refusesAnUnknownFailureKind(t *testing.T) {
	rig, ref := testActor(t)
	_, err := actortest.CauseFailure.Call(rig.Context(), ref, actortest.Failure{Kind: "cough"})
	require.EqualError(t, err, `cause a failure of kind "cough": want panic, exit, kill or fault`)
}

// deadly names the fatal failure in a process started by this test to die.
const deadly = "CASTNET_ACTORTEST_DIE_BY"

func TestTestActor_endsItsProcess(t *testing.T) {
	if kind := os.Getenv(deadly); kind != "" {
		rig, ref := testActor(t)
		_, err := actortest.CauseFailure.Call(rig.Context(), ref,
			actortest.Failure{Kind: actortest.FailureKind(kind), Code: 7})
		fmt.Println("it lives:", err)
		return
	}
	for kind, want := range map[actortest.FailureKind]struct {
		code   int
		signal syscall.Signal
		stderr string
	}{
		actortest.Exit:  {code: 7},
		actortest.Kill:  {code: -1, signal: syscall.SIGKILL},
		actortest.Fault: {code: 2, stderr: "SIGSEGV"},
	} {
		t.Run(string(kind), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTestActor_endsItsProcess$")
			cmd.Env = append(os.Environ(), deadly+"="+string(kind))
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			require.Error(t, err, "%s", &stdout)
			require.Equal(t, want.code, cmd.ProcessState.ExitCode(), "%s%s", &stdout, &stderr)
			require.Contains(t, stderr.String(), want.stderr)
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			require.True(t, ok)
			if want.signal != 0 {
				require.Equal(t, want.signal, status.Signal())
			}
		})
	}
}

func TestForward_visitsEachActorAndReturnsTheList(t *testing.T) {
	both(t, func(t *testing.T) {
		rig, first := testActor(t)
		peer := rig.Peer()
		refs := []actor.Ref[actortest.TestActor]{first}
		for range 3 {
			refs = append(refs, actortest.Spawn(rig, actortest.TestActors, actor.None{}),
				actortest.Spawn(peer, actortest.TestActors, actor.None{}))
		}
		home := actor.OpenPort[actortest.Route](rig.Proc())
		defer home.Close()
		require.NoError(t, actortest.Forward.Send(rig.Context(), first,
			actortest.Route{ToVisit: refs, Home: home.Ref()}))
		back, err := home.Recv(testkit.Soon(t))
		require.NoError(t, err)
		require.Empty(t, back.ToVisit)
		require.Equal(t, ids(refs), ids(back.Visited))
	})
}

func TestForward_failsWhenNoActorIsLeft(t *testing.T) {
	rig, ref := testActor(t)
	_, err := actortest.Forward.Call(rig.Context(), ref,
		actortest.Route{Home: actor.OpenPort[actortest.Route](rig.Proc()).Ref()})
	require.EqualError(t, err, "forward: no actor is left to visit")
}

func ids(refs []actor.Ref[actortest.TestActor]) (out []subjects.ActorID) {
	for _, r := range refs {
		out = append(out, r.ID())
	}
	return out
}

func TestSupervisor_handlesEachEndOfAChild(t *testing.T) {
	both(t, func(t *testing.T) {
		rig := actortest.New(t, actortest.Actors()...)
		ref := actortest.Spawn(rig, actortest.Supervisors, actor.None{})
		for range 3 {
			child, err := actortest.SpawnTest.Call(rig.Context(), ref, actor.None{})
			require.NoError(t, err)
			require.NoError(t, actortest.CauseFailure.Send(rig.Context(), child,
				actortest.Failure{Kind: actortest.Panic}))
			require.True(t, rig.Terminal(child).Failed())
		}
		_, err := actortest.GetActorID.Call(rig.Context(), ref, actor.None{})
		require.NoError(t, err)
	})
}

func TestSleepActor_killInterruptsItWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := actortest.New(t, actortest.Actors()...)
		ref := actortest.Spawn(rig, actortest.SleepActors, actor.None{})
		require.NoError(t, actortest.Sleep.Send(rig.Context(), ref, 5*time.Second))
		rig.Settle()
		waits := make(chan error, 1)
		go func() {
			_, err := actortest.Sleep.Call(rig.Context(), ref, time.Hour)
			waits <- err
		}()
		rig.Settle()
		start := time.Now()
		done := rig.Proc().KillActor(ref.ID().Name, "it sleeps")
		require.ErrorIs(t, testkit.Next(t, waits), actor.ErrFailed)
		require.Zero(t, time.Since(start).Truncate(time.Millisecond),
			"its waiting mail comes back at once")
		testkit.Next(t, done)
		require.Equal(t, 5*time.Second, time.Since(start).Truncate(time.Millisecond),
			"no handler can be ended but by itself; the hour is not slept")
		e := rig.ExpectFailure(ref)
		require.Equal(t, "killed: it sleeps", e.Reason)
		require.Equal(t, actor.CodeKilled, e.Code)
	})
}

func TestWrapper_reportsTheEndOfItsChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := actortest.New(t, actortest.Actors()...)
		ends := actor.OpenPort[actor.Event](rig.Proc())
		defer ends.Close()
		ref := actortest.Spawn(rig, actortest.Wrappers,
			actortest.WrapperParams{Supervisor: ends.Ref(), Child: "inner"})
		child, err := actortest.WrappedActor.Call(rig.Context(), ref, actor.None{})
		require.NoError(t, err)
		require.Equal(t, child.ID(), rig.Spawned()[0].ID())

		start := time.Now()
		none, err := actortest.NextFailure.Call(rig.Context(), ref, actor.None{})
		require.NoError(t, err)
		require.False(t, none.OK)
		require.Equal(t, 10*time.Second, time.Since(start).Truncate(time.Millisecond))

		got := make(chan actor.Maybe[actor.Event], 1)
		go func() {
			e, _ := actortest.NextFailure.Call(rig.Context(), ref, actor.None{})
			got <- e
		}()
		rig.Settle()
		require.NoError(t, actortest.WrapperFailure.Send(rig.Context(), ref,
			actortest.Failure{Kind: actortest.Panic}))
		sent, err := ends.Recv(testkit.Soon(t))
		require.NoError(t, err)
		require.Equal(t, rig.Terminal(child), sent)
		answer := testkit.Next(t, got)
		require.True(t, answer.OK)
		require.Equal(t, sent.Reason, answer.Value.Reason)
		again, err := actortest.NextFailure.Call(rig.Context(), ref, actor.None{})
		require.NoError(t, err)
		require.Equal(t, sent.Actor, again.Value.Actor, "asked after the end")
		require.Len(t, rig.Events(ref), 1, "it lives")
	})
}
