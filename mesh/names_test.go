package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Without JetStream, and without anybody who keeps names.
func TestMESH17_ofProgramsThatTakeANameAtOneMomentOneHasIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	nets := []*mesh.Net{c.Net, c.Net}
	for range 6 {
		net, _ := c.Client(t)
		nets = append(nets, net)
	}
	for range 10 {
		var all sync.WaitGroup
		begin, releases, errs := make(chan struct{}), make([]func(), len(nets)), make([]error, len(nets))
		for i, net := range nets {
			take := net.TakeName
			if i%2 == 1 {
				take = net.TakeWorldName // who declares a world of the name at the same moment
			}
			all.Go(func() {
				<-begin
				releases[i], errs[i] = take(t.Context(), "words")
			})
		}
		close(begin)
		all.Wait()
		has := 0
		for i, err := range errs {
			if err == nil {
				has++
				defer releases[i]()
				continue
			}
			var taken *mesh.NameTakenError
			require.ErrorAs(t, err, &taken)
			require.Equal(t, []string{"words", "program"}, []string{taken.Name, taken.Kind})
			_, err := subjects.ParseProcID(taken.Holder)
			require.NoError(t, err, "who has it, or goes before")
		}
		require.Equal(t, 1, has)
		_, err := nets[0].TakeName(t.Context(), "words")
		require.ErrorAs(t, err, new(*mesh.NameTakenError), "as long as it is held")
		for _, release := range releases {
			if release != nil {
				release()
			}
		}
	}
}

// Servers of a cluster hear of who listens a moment after each other.
func TestMESH17_ofProgramsOnTwoServersOneHasTheName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := func(name, listen, routes string) *embed.Server {
		file := filepath.Join(dir, name)
		text := fmt.Sprintf("server_name: %s\ncluster { name: names, listen: %q, no_advertise: true, routes: [%s] }\n", name, listen, routes)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		srv, err := embed.Start(t.Context(), embed.Options{Token: "secret", ConfigFile: file})
		require.NoError(t, err)
		t.Cleanup(srv.Shutdown)
		return srv
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := l.Addr().String()
	require.NoError(t, l.Close())
	one := serve("one", free, "")
	two := serve("two", "127.0.0.1:-1", "nats-route://"+free)
	var nets []*mesh.Net
	for _, srv := range []*embed.Server{one, two} {
		nets = append(nets, testmesh.Connect(t, srv))
	}
	require.Eventually(t, func() bool {
		_, err := agent.Ping.Call(t.Context(), agent.Of(nets[1].Proc().ID()).Via(nets[0].Proc()), actor.None{})
		return !errors.Is(err, actor.ErrNoProc) // its proc is there, and has no such actor
	}, testkit.Patience, 20*time.Millisecond, "the servers have found each other")
	for range 5 {
		var all sync.WaitGroup
		releases, errs := make([]func(), 2), make([]error, 2)
		for i, net := range nets {
			all.Go(func() { releases[i], errs[i] = net.TakeName(t.Context(), "words") })
		}
		all.Wait()
		has := 0
		if errs[0] != nil {
			has = 1
		}
		require.NoError(t, errs[has])
		require.ErrorAs(t, errs[1-has], new(*mesh.NameTakenError))
		releases[has]()
	}
}

func TestMESH17_meshesThatBeginAtOneMomentHaveOneNameEach(t *testing.T) {
	t.Parallel()
	c := newStored(t, "a", "b")
	c.System(t, "s")
	other, _ := c.Client(t)
	var all sync.WaitGroup
	made, errs := make([]mesh.ProcMesh, 2), make([]error, 2)
	for i, net := range []*mesh.Net{c.Net, other} { // on hosts that know nothing of each other
		hosts := c.AllHosts(t, net).Slice("host", i, i+1)
		all.Go(func() {
			made[i], errs[i] = hosts.SpawnProcs(t.Context(), mesh.Spawning{Name: "words", PerHost: shape.Of("gpu", 1), TakeName: true})
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
	_, err = other.TakeWorldName(t.Context(), "words")
	require.ErrorAs(t, err, &taken, "nor can a world have it")
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

// A world that is declared by whoever has not taken its name, or that a host begins which joins it.
func TestMESH17_aWorldDoesNotBeginWithTheNameOfALiveMesh(t *testing.T) {
	t.Parallel()
	c := withSystem(t)
	system, err := worlds.Find(t.Context(), c.Proc())
	require.NoError(t, err)
	declare := func(d worlds.Declaration) error {
		d.Spec = worlds.Spec{Name: "words", Shape: shape.Of("x", 1), PerHost: 1, Command: agent.Command{Path: agent.Builtin}}
		_, err := worlds.Upsert.Call(t.Context(), system, d)
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
			worlds.Stay(ctx, c.Proc(), worlds.Joining{World: "words", Host: &worlds.JoiningHost{ID: host, Life: "1"}}, func(_ worlds.Joined, err error) { stood <- err })
		}()
		return stood, func() {
			cancel()
			<-gone
		}
	}
	stood, leave := stand()
	for _, err := range []error{declare(worlds.Declaration{}), declare(worlds.Declaration{Dry: true}), outcome(t, stood)} {
		var taken *mesh.NameTakenError
		require.ErrorAs(t, err, &taken)
		require.Equal(t, mesh.NameTakenError{Name: "words", Kind: "mesh", Holder: procs.ID().String()}, *taken)
	}
	leave() // or the host begins its world as soon as it can
	require.Error(t, declare(worlds.Declaration{}), "and what it asked for before that is answered")
	require.NoError(t, procs.Stop(t.Context()))
	release := c.takes(t, "words")
	stood, leave = stand()
	defer leave()
	var taken *mesh.NameTakenError
	require.ErrorAs(t, declare(worlds.Declaration{}), &taken, "who begins a mesh of it")
	require.Equal(t, mesh.NameTakenError{Name: "words", Kind: "program", Holder: c.Proc().ID().String()}, *taken)
	release()
	for outcome(t, stood) != nil { // it stands by until the name is free
	}
	_, err = c.TakeName(t.Context(), "words")
	require.ErrorAs(t, err, &taken, "a host has begun it")
	require.Equal(t, mesh.NameTakenError{Name: "words", Kind: "world", Holder: "words-…"}, *taken)
	require.NoError(t, declare(worlds.Declaration{}))
}

// takes takes a name that nobody is to have; the system controller may still be asking for it, for a host that has left.
func (c *cluster) takes(t *testing.T, name string) (release func()) {
	t.Helper()
	for end := time.Now().Add(testkit.Patience); ; {
		release, err := c.TakeName(t.Context(), name)
		if taken, is := errors.AsType[*mesh.NameTakenError](err); is && taken.Kind == "program" && time.Now().Before(end) {
			continue
		}
		require.NoError(t, err)
		return release
	}
}

// outcome is how a host stands with its world next.
func outcome(t *testing.T, stood <-chan error) error {
	t.Helper()
	select {
	case err := <-stood:
		return err
	case <-time.After(testkit.Patience):
		t.Fatal("nothing is heard of the host")
		return nil
	}
}

func TestMESH17_aWorldThatBeginsIsOneOfThoseThatTakeItsName(t *testing.T) {
	t.Parallel()
	c := newStored(t)
	c.System(t, "s")
	system, err := worlds.Find(t.Context(), c.Proc())
	require.NoError(t, err)
	spec := worlds.Spec{Shape: shape.Of("x", 1), PerHost: 1, Command: agent.Command{Path: agent.Builtin}}
	for round := range 10 {
		spec.Name = fmt.Sprintf("words%d", round)
		var all sync.WaitGroup
		errs := make([]error, 2)
		all.Go(func() { _, errs[0] = c.TakeName(t.Context(), spec.Name) }) // and never gives it back
		all.Go(func() { _, errs[1] = worlds.Upsert.Call(t.Context(), system, worlds.Declaration{Spec: spec}) })
		all.Wait()
		if errs[0] == nil {
			errs[0], errs[1] = errs[1], errs[0]
		}
		require.ErrorAs(t, errs[0], new(*mesh.NameTakenError))
		require.NoError(t, errs[1])
	}
}

// What outlives its maker is no former life of the program that spawns: it is refused without TakeName, too.
func TestMESH17_noMeshSharesTheNameOfAWorldOrOfADetachedMesh(t *testing.T) {
	t.Parallel()
	c := withSystem(t)
	other, _ := c.Client(t)
	mine := c.make(t, c.Net, "words")
	twin := c.make(t, other, "words")
	require.NoError(t, twin.Stop(t.Context()), "those of programs share names")
	_, err := mine.Detach(t.Context())
	require.NoError(t, err)
	c.declare(t, "train", shape.Of("x", 1), 1)
	for _, want := range []mesh.NameTakenError{{Name: "words", Kind: "mesh", Holder: mine.ID().String()}, {Name: "train", Kind: "world"}} {
		_, err := c.AllHosts(t, other).Spawn(t.Context(), want.Name, shape.Of("gpu", 1))
		var taken *mesh.NameTakenError
		require.ErrorAs(t, err, &taken)
		require.ErrorAs(t, err, new(*mesh.RefusedError), "nothing was started")
		if want.Holder == "" {
			require.Contains(t, taken.Holder, "train-")
			taken.Holder = ""
		}
		require.Equal(t, want, *taken)
	}
	adopted, err := other.Adopt(t.Context(), "words", 0)
	require.NoError(t, err)
	require.NoError(t, c.make(t, c.Net, "words").Stop(t.Context()), "it is a program's again")
	require.NoError(t, adopted.Stop(t.Context()))
}
