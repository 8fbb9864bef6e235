package mesh_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

func TestTakeName_oneOfConcurrentProgramsWins_MESH15(t *testing.T) {
	t.Parallel()
	for kept, start := range map[string]func(*testing.T, ...string) *cluster{"with": newStored,
		"without": newCluster} {
		t.Run(kept+" JetStream", func(t *testing.T) {
			t.Parallel()
			c := start(t, "a")
			c.System(t, "s")
			nets := []*mesh.Net{c.Net, c.Net}
			for range 4 {
				conn, _ := c.Client(t)
				nets = append(nets, conn)
			}
			for range 5 {
				onlyOneTakes(t, nets)
			}
		})
	}
}

// onlyOneTakes makes programs take a name at one moment, and again.
func onlyOneTakes(t *testing.T, nets []*mesh.Net) {
	t.Helper()
	var all sync.WaitGroup
	begin, releases, errs := make(chan struct{}), make([]func(), len(nets)), make([]error, len(nets))
	for i, conn := range nets {
		all.Go(func() {
			<-begin
			releases[i], errs[i] = conn.TakeName(t.Context(), "words")
		})
	}
	close(begin)
	all.Wait()
	has := -1
	for i, err := range errs {
		if err == nil {
			require.Equal(t, -1, has, "two programs have the name")
			has = i
		}
	}
	require.NotEqual(t, -1, has, errs)
	want := mesh.NameTakenError{Name: "words", Kind: "program", Holder: nets[has].Proc().ID().String()}
	for i, err := range errs {
		if i != has {
			var taken *mesh.NameTakenError
			require.ErrorAs(t, err, &taken)
			require.Equal(t, want, *taken)
		}
	}
	_, err := nets[0].TakeName(t.Context(), "words")
	require.ErrorAs(t, err, new(*mesh.NameTakenError), "as long as it is held")
	releases[has]()
	release, err := nets[0].TakeName(t.Context(), "words")
	require.NoError(t, err)
	release()
}

// A name is free there unless a mesh on a host has it: no reservation exists without a system
// controller.
func TestTakeName_withoutASystemControllerAsksTheHosts_MESH15(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	release, err := c.TakeName(t.Context(), "words")
	require.NoError(t, err)
	defer release()
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "words", PerHost: shape.Of("gpu", 1), TakeName: true})
	require.NoError(t, err)
	other, _ := c.Client(t)
	var taken *mesh.NameTakenError
	_, err = other.TakeName(t.Context(), "words")
	require.ErrorAs(t, err, &taken)
	require.Equal(t, mesh.NameTakenError{Name: "words", Kind: "mesh", Holder: procs.ID().String()}, *taken)
	_, err = c.TakeName(t.Context(), "no name")
	require.ErrorContains(t, err, "no name")
}

// A reservation is saved before it is answered: the next system controller knows it.
func TestTakeName_nextSystemControllerKnowsTakenNames_MESH15(t *testing.T) {
	t.Parallel()
	c := newStored(t)
	s := c.System(t, "s")
	_, err := c.TakeName(t.Context(), "words")
	require.NoError(t, err)
	require.NoError(t, s.Close(t.Context()))
	c.System(t, "next")
	other, _ := c.Client(t)
	var taken *mesh.NameTakenError
	_, err = other.TakeName(t.Context(), "words")
	require.ErrorAs(t, err, &taken)
	require.Equal(t, "program", taken.Kind)
}

func TestTakeName_concurrentMeshesGetDistinctNames_MESH15(t *testing.T) {
	t.Parallel()
	c := newStored(t, "a", "b")
	c.System(t, "s")
	other, _ := c.Client(t)
	var all sync.WaitGroup
	made, errs := make([]mesh.ProcMesh, 2), make([]error, 2)
	for i, conn := range []*mesh.Net{c.Net, other} { // on hosts that know nothing of each other
		hosts := c.AllHosts(t, conn).Slice("host", i, i+1)
		all.Go(func() {
			made[i], errs[i] = hosts.SpawnProcs(t.Context(),
				mesh.SpawnSpec{Name: "words", PerHost: shape.Of("gpu", 1), TakeName: true})
		})
	}
	all.Wait()
	if errs[0] != nil {
		made[0], errs[0], errs[1] = made[1], errs[1], errs[0]
	}
	require.NoError(t, errs[0])
	require.ErrorAs(t, errs[1], new(*mesh.NameTakenError))
	require.ErrorAs(t, errs[1], new(*mesh.RefusedError), "nothing was started")
	found, err := c.Lookup(t.Context(), "words")
	require.NoError(t, err)
	require.Equal(t, made[0].ID(), found.ID())

	var taken *mesh.NameTakenError
	_, err = c.TakeName(t.Context(), "words")
	require.ErrorAs(t, err, &taken, "as long as it lives")
	require.Equal(t, mesh.NameTakenError{Name: "words", Kind: "mesh", Holder: made[0].ID().String()}, *taken)
	require.NoError(t, made[0].Stop(t.Context()))
	release, err := other.TakeName(t.Context(), "words")
	require.NoError(t, err)
	release()
	c.declare(t, "train", shape.Of("x", 1), 1)
	_, err = c.TakeName(t.Context(), "train")
	require.ErrorAs(t, err, &taken, "a world without hosts")
	require.Equal(t, "world", taken.Kind)
	_, err = c.TakeName(t.Context(), "no name")
	require.ErrorContains(t, err, "no name")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.TakeName(gone, "words")
	require.ErrorIs(t, err, context.Canceled)
}

// The declaration comes first, or the join of a host.
func TestTakeName_worldCannotUseALiveMeshsName_MESH15(t *testing.T) {
	t.Parallel()
	c := withSystem(t)
	ctl, err := system.Find(t.Context(), c.Proc())
	require.NoError(t, err)
	declare := func(d system.UpsertRequest) error {
		d.Spec = system.Spec{Name: "words", Shape: shape.Of("x", 1), PerHost: 1,
			Command: agent.Command{Path: agent.Builtin}}
		_, err := system.Upsert.Call(t.Context(), ctl, d)
		return err
	}
	host, err := subjects.NewHostID("late")
	require.NoError(t, err)
	procs := c.make(t, c.Net, "words")
	stand := func() (stood chan error, leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		stood, gone := make(chan error, 64), make(chan struct{})
		go func() {
			defer close(gone)
			system.KeepJoined(ctx, c.Proc(),
				system.JoinRequest{World: "words", Host: &system.HostJoin{ID: host, Incarnation: "1"}},
				func(_ system.JoinResponse, err error) { stood <- err })
		}()
		return stood, func() {
			cancel()
			<-gone
		}
	}
	stood, leave := stand()
	for _, err := range []error{declare(system.UpsertRequest{}), declare(system.UpsertRequest{DryRun: true}),
		outcome(t, stood)} {
		var taken *mesh.NameTakenError
		require.ErrorAs(t, err, &taken)
		require.Equal(t, mesh.NameTakenError{Name: "words", Kind: "mesh", Holder: procs.ID().String()}, *taken)
	}
	leave() // or the host begins its world as soon as it can
	require.Error(t, declare(system.UpsertRequest{}), "and its earlier request gets an answer")
	require.NoError(t, procs.Stop(t.Context()))
	release := c.takeName(t, "words")
	stood, leave = stand()
	defer leave()
	var taken *mesh.NameTakenError
	require.ErrorAs(t, declare(system.UpsertRequest{}), &taken, "a new mesh of the name")
	require.Equal(t, mesh.NameTakenError{Name: "words", Kind: "program", Holder: c.Proc().ID().String()}, *taken)
	release()
	for outcome(t, stood) != nil { // it stands by until the name is free
	}
	_, err = c.TakeName(t.Context(), "words")
	require.ErrorAs(t, err, &taken, "a host has begun it")
	require.Equal(t, mesh.NameTakenError{Name: "words", Kind: "world", Holder: "words-…"}, *taken)
	require.NoError(t, declare(system.UpsertRequest{}))
}

// takeName takes a free name. The system controller may still reserve it for a departed host.
func (c *cluster) takeName(t *testing.T, name string) (release func()) {
	t.Helper()
	for end := time.Now().Add(testkit.Patience); ; {
		release, err := c.TakeName(t.Context(), name)
		if taken, is := errors.AsType[*mesh.NameTakenError](err); is && taken.Kind == "program" &&
			time.Now().Before(end) {
			continue
		}
		require.NoError(t, err)
		return release
	}
}

// outcome is the next answer to a host's join. On a busy machine it may be late.
func outcome(t *testing.T, stood <-chan error) error {
	t.Helper()
	return testkit.Find(t, stood, func(err error) bool { return !errors.Is(err, context.DeadlineExceeded) })
}

func TestTakeName_startingWorldCompetesForItsName_MESH15(t *testing.T) {
	t.Parallel()
	c := newStored(t)
	c.System(t, "s")
	spec := system.Spec{Shape: shape.Of("x", 1), PerHost: 1, Command: agent.Command{Path: agent.Builtin}}
	for round := range 10 {
		spec.Name = fmt.Sprintf("words%d", round)
		var all sync.WaitGroup
		errs := make([]error, 2)
		all.Go(func() { _, errs[0] = c.TakeName(t.Context(), spec.Name) }) // and never gives it back
		all.Go(func() {
			errs[1] = c.Net.AskSystem(t.Context(), func(ctl actor.Ref[*system.Controller]) error {
				_, err := system.Upsert.Call(t.Context(), ctl, system.UpsertRequest{Spec: spec})
				return err
			})
		})
		all.Wait()
		if errs[0] == nil {
			errs[0], errs[1] = errs[1], errs[0]
		}
		require.ErrorAs(t, errs[0], new(*mesh.NameTakenError))
		require.NoError(t, errs[1])
	}
}

// A plain spawn takes no name and asks nobody: Lookup finds the mesh with the taken name.
func TestLookup_findsTheMeshThatHoldsItsName_MESH15(t *testing.T) {
	t.Parallel()
	c := withSystem(t)
	other, _ := c.Client(t)
	found := func(name string) subjects.MeshID {
		t.Helper()
		p, err := other.Lookup(t.Context(), name)
		require.NoError(t, err)
		return p.ID()
	}
	taken, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "words", PerHost: shape.Of("gpu", 1), TakeName: true})
	require.NoError(t, err)
	twin := c.make(t, other, "words")
	require.Equal(t, taken.ID(), found("words"))
	require.Equal(t, twin.ID(), found(twin.ID().String()))
	require.NoError(t, taken.Stop(t.Context()))
	require.Equal(t, twin.ID(), found("words"), "the only one left")

	mine := c.make(t, c.Net, "lines")
	_, err = mine.Detach(t.Context())
	require.NoError(t, err)
	late := c.make(t, other, "lines")
	require.Equal(t, mine.ID(), found("lines"), "a detached mesh has its name")
	adopted, err := other.Adopt(t.Context(), mine.ID().String(), 0)
	require.NoError(t, err)
	_, err = other.Lookup(t.Context(), "lines")
	require.ErrorAs(t, err, new(*mesh.AmbiguousError), "the mesh has a program again, without the taken name")
	require.NoError(t, adopted.Stop(t.Context()))
	require.Equal(t, late.ID(), found("lines"))
}

// A stranger answers searches for hosts. No agent serves the host that it names.
func TestTakeName_ignoresAHostWithoutAnAgent_MESH15(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		for _, controlled := range []bool{false, true} {
			c := testmesh.Start(t, testmesh.InMemory())
			if controlled {
				c.System(t, "s")
			}
			fake, err := subjects.NewHostID("fake")
			require.NoError(t, err)
			answer, err := json.Marshal(agent.HostInfo{ID: fake, Label: "fake"})
			require.NoError(t, err)
			stranger := c.Open(t).Control()
			_, err = stranger.Subscribe(c.Net.Proc().Space().HostReads(subjects.Any, ""), func(m bus.Msg) {
				_ = stranger.Publish(m.Reply, answer)
			})
			require.NoError(t, err)
			release, err := c.Net.TakeName(testkit.Soon(t), "words")
			require.NoError(t, err)
			release()
		}
	})
}
