package controller

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Each is a request to a controller with a running mesh: the answer is exact, and the mesh goes on.
func TestController_badInputGetsExactErrors(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	never := r.own(t, r.spec)
	elsewhere := actor.RefOf[agent.Agent](ref.ID()).Via(r.teller(t))
	beyond := shape.Of("host", 3).With("gpu", 2).Region()
	gone := testproc.HostID(t, "gone")
	for name, row := range map[string]struct {
		ask  func(context.Context) error
		want error  // nil: see text
		text string // "": it is answered
	}{
		"a list of a missing resource": {ask: func(ctx context.Context) error {
			_, err := agent.ListEvents.Call(ctx, actor.RefOf[agent.Agent](r.p.ID().Actor("controller-000000000000x")).
				Via(r.p), agent.ListEventsRequest{})
			return err
		}, want: actor.ErrNoActor},
		"a list after future events": {ask: func(ctx context.Context) error {
			_, err := agent.ListEvents.Call(ctx, ref, agent.ListEventsRequest{After: 1})
			return err
		}, text: "cannot list events after 1: want 0 to 0"},
		"a wait for an impossible phase": {ask: func(ctx context.Context) error {
			_, err := agent.Wait.Call(ctx, ref, agent.WaitRequest{ID: idOf(t, ref), Until: agent.Timeout})
			return err
		}, text: "want a phase that a rank can be in"},
		"a stop of a region outside": {ask: func(ctx context.Context) error {
			_, err := agent.Stop.Call(ctx, ref, agent.StopRequest{ID: idOf(t, ref), Region: &beyond})
			return err
		}, text: "where host=3/2,gpu=2/1 is to be a part of it"},
		"a host outside the mesh": {ask: func(ctx context.Context) error {
			_, err := agent.Evacuate.Call(ctx, ref, agent.EvacuateRequest{Host: gone})
			return err
		}},
		"a host to be emptied at a wild pace": {ask: func(ctx context.Context) error {
			_, err := agent.Evacuate.Call(ctx, ref, agent.EvacuateRequest{Host: gone, MaxConcurrent: 257})
			return err
		}, text: "257 ranks at once: want 1 to 256, or 0 for 1"},
		"a restart of a region outside": {ask: func(ctx context.Context) error {
			_, err := agent.Restart.Call(ctx, ref, agent.RestartRequest{ID: idOf(t, ref), Region: &beyond})
			return err
		}, text: "where host=3/2,gpu=2/1 is to be a part of it"},
		"a restart of ended ranks": {ask: func(ctx context.Context) error {
			_, err := agent.Restart.Call(ctx, never, agent.RestartRequest{ID: idOf(t, never)})
			return err
		}, text: "does not run"},
		"a wait for actors of a proc mesh": {ask: func(ctx context.Context) error {
			_, err := agent.AwaitActor.Call(ctx, ref, agent.AwaitActorRequest{Mesh: r.spec.Procs.ID, Rank: 99, Gen: 9})
			return err
		}},
		"news by a message of another process": {ask: func(ctx context.Context) error {
			_, err := notify.Call(ctx, elsewhere,
				notification{actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: r.spec.id()}})
			return err
		}, want: actor.ErrDenied},
	} {
		err := row.ask(t.Context())
		switch {
		case row.want != nil:
			require.ErrorIs(t, err, row.want, name)
		case row.text != "":
			require.ErrorContains(t, err, row.text, name)
		default:
			require.NoError(t, err, name)
		}
		require.Equal(t, one(4, agent.Running, ""), wait(t, ref, agent.Running), name)
	}
}

func TestPolicy_invalidPoliciesAreRefusedBeforeAnyStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spares := make([]subjects.HostID, 3)
	for i := range spares {
		spares[i] = testproc.HostID(t, string(rune('x'+i)))
	}
	for want, p := range map[string]RestartPolicy{
		"restart policy: backoff from -1s to 0s: want 0 or more": {Restart: actor.Transient,
			Backoff: -time.Second},
		"restart policy: backoff from 0s to -1s: want 0 or more": {Restart: actor.Transient,
			MaxBackoff: -time.Second},
		"restart policy: 3 spare hosts for a mesh on 2 hosts: want at most one for each host": {Restart: actor.Transient,
			Spares: spares},
		"is already a host of the mesh: want another": {Restart: actor.Transient,
			Spares: r.spec.Procs.Hosts[:1]},
		"restart policy: permanent: want one of [propagate temporary transient]": {Restart: actor.Permanent},
		"restart policy: 1 spare host with temporary: want transient, or no spares": {Restart: actor.Temporary,
			Spares: spares[:1]},
		"restart policy: restart(9): want one of": {Restart: 9},
		"mesh " + r.spec.id() + ": restart policy: at most -1 restarts: want 1 to 1000": {Restart: actor.Transient,
			MaxRestarts: -1},
	} {
		s := r.spec
		s.RestartPolicy = p
		_, err := actor.Spawn(t.Context(), r.p, Type, "controller", s)
		require.ErrorContains(t, err, want)
	}
	for _, h := range r.hosts {
		require.Zero(t, h.count("create"))
	}
}
