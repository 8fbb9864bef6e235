package mesh_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// withSystem is a cluster of one host. Its system controller has no store, and so no lease for a
// busy machine to lose: one term lasts for the whole test.
func withSystem(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, "a")
	c.System(t, "s")
	return c
}

// make spawns procs, and counters without an owner.
func (c *cluster) make(t *testing.T, conn *mesh.Net, name string) mesh.ProcMesh {
	t.Helper()
	procs, err := c.AllHosts(t, conn).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: name, PerHost: shape.Of("gpu", 2)})
	require.NoError(t, err)
	_, err = mesh.SpawnActors(t.Context(), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "counters", Uncontrolled: true})
	require.NoError(t, err)
	return procs
}

// detached lists the system controller's meshes. Between two terms it asks the next one.
func (c *cluster) detached(t *testing.T) []system.DetachedState {
	t.Helper()
	var now system.Snapshot
	testkit.Until(t, "a system controller answers", func() bool {
		ctl, err := system.Find(t.Context(), c.Proc())
		if err == nil {
			now, err = system.GetSnapshot.Call(t.Context(), ctl, system.Filter{})
		}
		return err == nil
	})
	return now.Detached
}

func TestDetach_meshOutlivesItsMakerAndIsAdopted_MESH14(t *testing.T) {
	t.Parallel()
	c := withSystem(t)
	c.Net = c.Connect(t, operator)
	maker, end := c.Client(t)
	procs := c.make(t, maker, "words")
	held, err := procs.Detach(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, held.Epoch)
	require.Equal(t, "system", held.Procs.Describe().Owner.Proc.Mesh.Label())
	_, err = held.Procs.Detach(t.Context())
	require.ErrorAs(t, err, new(*mesh.OwnerError), "it is the system's")
	before := c.pids(t, procs)
	require.Len(t, before, 2)
	end()
	require.Equal(t, before, c.pids(t, procs))

	first, leave := c.Client(t)
	second, _ := c.Client(t)
	_, err = first.Adopt(t.Context(), "words", 1)
	var stale *agent.FencedError
	require.ErrorAs(t, err, &stale)
	require.EqualValues(t, 1, stale.Requested.Epoch)
	require.Equal(t, agent.Claim{Epoch: 2, Owner: held.Procs.Describe().Owner}, stale.Current,
		"the expected epoch, and the owner")
	_, err = first.Adopt(t.Context(), "nobody", 0)
	require.ErrorAs(t, err, new(*mesh.NotFoundError))

	mine, err := first.Adopt(t.Context(), procs.ID().String(), held.Epoch)
	require.NoError(t, err)
	require.Equal(t, first.Proc().ID(), mine.Describe().Owner.Proc)
	require.Empty(t, c.detached(t))
	_, err = second.Adopt(t.Context(), "words", 0)
	var owned *mesh.OwnedError
	require.ErrorAs(t, err, &owned)
	require.Equal(t, mine.Describe().Owner, owned.Owner)
	require.EqualValues(t, 3, owned.Epoch)
	counters, err := mesh.Find[*Counter](t.Context(), mine, "counters")
	require.NoError(t, err)
	sum, err := cast.Reduce(t.Context(), counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 2, sum)

	again, err := mine.Detach(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 4, again.Epoch)
	looked, err := c.Connect(t, operator).Lookup(t.Context(), "words")
	require.NoError(t, err)
	var lost *mesh.LostActorsError
	require.ErrorAs(t, looked.Restart(t.Context(), mesh.RollingRestart{}), &lost, "its actors have no owner")
	require.Equal(t, before, c.pids(t, procs))
	require.NoError(t, looked.Restart(t.Context(), mesh.RollingRestart{Reason: "new data", Force: true}),
		"its owner restarts its ranks")
	anew := c.pids(t, procs)
	for rank, pid := range before {
		require.NotEqual(t, pid, anew[rank])
	}
	before = anew
	require.Error(t, mine.Restart(t.Context(), mesh.RollingRestart{}), "it is not the owner any more")
	theirs, err := second.Adopt(t.Context(), "words", 0)
	require.NoError(t, err)
	leave()
	require.Equal(t, before, c.pids(t, procs), "the former owner's end leaves the mesh")
	require.NoError(t, theirs.Stop(t.Context()))
	require.Empty(t, c.pids(t, procs))
}

// F7 for detached meshes: the next system controller has them, in a later epoch.
func TestDetach_meshSurvivesANewSystemController_MESH14(t *testing.T) {
	t.Parallel()
	c := newStored(t, "a")
	c.Net = c.Connect(t, operator)
	one := c.System(t, "one")
	maker, end := c.Client(t)
	procs := c.make(t, maker, "words")
	var held mesh.DetachedMesh
	testkit.Until(t, "a system controller takes it", func() bool { // a busy machine may end a term
		var err error
		held, err = procs.Detach(t.Context())
		return err == nil
	})
	require.True(t, held.Durable)
	end()
	c.System(t, "two")
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	before := c.pids(t, procs)
	require.NoError(t, one.Close(ctx))
	require.Equal(t, before, c.pids(t, procs))
	testkit.Until(t, "the hosts have heard of the next one", func() bool {
		p, err := c.Lookup(t.Context(), "words")
		return err == nil && p.Describe().Owner != held.Procs.Describe().Owner
	})
	require.Equal(t, before, c.pids(t, procs))
	require.Greater(t, c.detached(t)[0].Claim.Epoch, held.Epoch)

	found, err := c.Lookup(t.Context(), "words")
	require.NoError(t, err)
	require.NoError(t, found.Stop(t.Context()), "its owner is asked")
	require.Empty(t, c.pids(t, procs))
	testkit.Until(t, "what has ended is forgotten", func() bool { return len(c.detached(t)) == 0 })
}

// An adopter dies, or is too slow, before it has confirmed. At every such instant, before the hosts
// learn of it and afterwards, the mesh returns to the system controller.
func TestAdopt_meshOfADeadAdopterIsTakenBack_MESH14(t *testing.T) {
	t.Parallel()
	const lease = 20 * time.Second // an adopter has half of it, and needs seconds on a busy machine
	c := withSystem(t)
	type adoption struct {
		ctl            actor.Ref[*system.Controller]
		procs, claimed mesh.ProcMesh // claimed: the adopter's, if the hosts have heard of it
		pids           map[int]int
		asked          system.AdoptRequest
	}
	var all []adoption
	told := c.watchEvents(t)
	maker, end := c.Client(t)
	for _, name := range []string{"unheard", "heard"} {
		procs, err := c.AllHosts(t, maker).SpawnProcs(t.Context(),
			mesh.SpawnSpec{Name: name, PerHost: shape.Of("gpu", 2), Lease: lease})
		require.NoError(t, err)
		all = append(all, adoption{procs: procs, pids: c.pids(t, procs)})
	}
	for i := range all {
		a := &all[i]
		held, err := a.procs.Detach(t.Context())
		require.NoError(t, err)
		adopter, _ := c.Client(t)
		a.asked = system.AdoptRequest{Mesh: a.procs.ID(),
			Claim: agent.Claim{Epoch: held.Epoch, Owner: adopter.Proc().ID().Actor("adopter")}}
		a.ctl, err = system.Find(t.Context(), adopter.Proc())
		require.NoError(t, err)
		_, err = system.Adopt.Call(t.Context(), a.ctl, a.asked)
		require.NoError(t, err)
		_, err = system.Adopt.Call(t.Context(), a.ctl, a.asked)
		require.ErrorAs(t, err, new(*agent.FencedError), "one adopts it at a time")
		if i == 1 {
			a.claimed, err = held.Procs.Via(adopter).TakeOver(t.Context(), mesh.Takeover{Epoch: held.Epoch, Lease: -1})
			require.NoError(t, err)
		}
	}
	end()
	for range all {
		await(t, told, "mesh.adopt.lapse")
	}
	for i, a := range all {
		id := a.procs.ID()
		testkit.Until(t, "the system follows the adopter, in the epoch after his", func() bool {
			return slices.ContainsFunc(c.detached(t), func(d system.DetachedState) bool {
				return d.Mesh == id && d.Claim.Epoch == 4 && d.Reason == ""
			})
		})
		a.asked.Claim.Epoch++
		_, err := system.Confirm.Call(t.Context(), a.ctl, a.asked)
		require.NotNil(t, agent.AsFenced(err), "too late: %v", err)
		if i == 1 {
			testkit.Until(t, "the hosts obey the system again", func() bool { return c.hostsKnow(t, a.procs, 4) })
			require.Error(t, a.claimed.Stop(t.Context()))
		}
		var again mesh.ProcMesh
		testkit.Until(t, "it can be adopted", func() bool {
			again, err = c.Adopt(t.Context(), id.String(), 0)
			return err == nil
		})
		require.Equal(t, a.pids, c.pids(t, a.procs))
		require.NoError(t, again.Stop(t.Context()))
	}
	require.Empty(t, c.detached(t))
}

// hostsKnow reports whether the hosts know the owner of an epoch.
func (c *cluster) hostsKnow(t *testing.T, p mesh.ProcMesh, epoch uint64) bool {
	t.Helper()
	all, err := c.Meshes(t.Context())
	require.NoError(t, err)
	said := 0
	for _, m := range all {
		for _, s := range m.States {
			if s.ID != p.ID().String() || s.Claim == nil { // a host says it with its first rank
				continue
			}
			if said++; s.Claim.Epoch != epoch {
				return false
			}
		}
	}
	return said > 0
}

// A takeover by force makes the program the owner, and the system controller forgets the mesh.
func TestDetach_takenOverMeshIsForgotten_MESH14(t *testing.T) {
	t.Parallel()
	c := withSystem(t)
	maker, end := c.Client(t)
	procs := c.make(t, maker, "words")
	_, err := procs.Detach(t.Context())
	require.NoError(t, err)
	end()
	found, err := c.Lookup(t.Context(), "words")
	require.NoError(t, err)
	mine, err := found.TakeOver(t.Context(), mesh.Takeover{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(c.detached(t)) == 0 }, testkit.Patience, 50*time.Millisecond)
	require.Len(t, c.pids(t, procs), 2)
	require.NoError(t, mine.Stop(t.Context()))
}

func TestDetach_namesTheHolderOfARefusedMesh(t *testing.T) {
	t.Parallel()
	c := withSystem(t)
	c.Net = c.Connect(t, operator)
	procs := c.make(t, c.Net, "words")
	other, _ := c.Client(t)
	_, err := procs.Via(other).Detach(t.Context())
	require.ErrorAs(t, err, new(*mesh.OwnerError))
	_, err = procs.Slice("gpu", 0, 1).Detach(t.Context())
	require.ErrorContains(t, err, "1 ranks of 2: want the whole mesh")
	var taken *mesh.NameTakenError
	twin := c.make(t, other, "words")
	_, err = procs.Detach(t.Context())
	require.ErrorAs(t, err, &taken)
	require.Equal(t, mesh.NameTakenError{Name: "words", Kind: "mesh", Holder: twin.ID().String()}, *taken)
	require.NoError(t, twin.Stop(t.Context()))

	c.declare(t, "train", shape.Of("x", 1), 1)
	named := c.make(t, c.Net, "train")
	_, err = named.Detach(t.Context())
	require.ErrorAs(t, err, &taken, "the system controller knows worlds without hosts")
	require.Equal(t, "world", taken.Kind)
	require.NoError(t, named.Stop(t.Context()))

	_, err = procs.Detach(t.Context())
	require.NoError(t, err)
	_, err = c.TakeName(t.Context(), "words")
	require.ErrorAs(t, err, &taken)
	ctl, err := system.Find(t.Context(), c.Proc())
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	_, err = system.Upsert.Call(t.Context(), ctl, system.UpsertRequest{Spec: system.Spec{
		Name: "words", Shape: shape.Of("x", 1), PerHost: 1, Command: agent.Command{Path: self},
	}})
	require.ErrorAs(t, err, &taken)
	require.Equal(t, system.NameTakenError{Name: "words", Kind: "mesh", Holder: procs.ID().String()}, *taken)
	for want, d := range map[string]system.DetachRequest{
		"want its owner and epoch": {Mesh: procs.ID(),
			Claim: agent.Claim{Owner: c.Proc().ID().Actor("x")}},
		"0 hosts: want 1 to": {Mesh: procs.ID(),
			Claim: agent.Claim{Epoch: 1, Owner: c.Proc().ID().Actor("x")}},
		" belongs to system-": {Mesh: procs.ID(),
			Claim: agent.Claim{Epoch: 1, Owner: c.Proc().ID().Actor("x")}, Hosts: procs.Describe().Hosts},
		"lease of -1ns: want more than 0, or 0 f": {Mesh: procs.ID(),
			Claim: agent.Claim{Epoch: 1, Owner: c.Proc().ID().Actor("x")}, Hosts: procs.Describe().Hosts, Lease: -1},
	} {
		_, err := system.Detach.Call(t.Context(), ctl, d)
		require.ErrorContains(t, err, want)
	}
	_, err = system.Adopt.Call(t.Context(), ctl,
		system.AdoptRequest{Mesh: twin.ID(), Claim: agent.Claim{Owner: c.Proc().ID().Actor("x")}})
	require.ErrorContains(t, err, "not found")
	require.NoError(t, actorsOf(t, c, "words").Procs().Stop(t.Context()))
}

func actorsOf(t *testing.T, c *cluster, name string) mesh.ActorMesh[*Counter] {
	t.Helper()
	p, err := c.Lookup(t.Context(), name)
	require.NoError(t, err)
	m, err := mesh.Find[*Counter](t.Context(), p, "counters")
	require.NoError(t, err)
	return m
}

// A claim can name any epoch. Only the owner of a mesh hands it over, and only to programs of its
// user, or to an operator.
func TestDetach_isForTheOwner_AGT13(t *testing.T) {
	t.Parallel()
	c := withSystem(t)
	owner, _ := c.Client(t, as(subjects.Program, "alice"))
	procs, err := c.AllHosts(t, owner).SpawnProcs(t.Context(), mesh.SpawnSpec{Name: "words", PerHost: shape.Of("gpu", 1)})
	require.NoError(t, err)
	stranger, _ := c.Client(t, as(subjects.Program, "bob"))
	ctl, err := system.Find(t.Context(), stranger.Proc())
	require.NoError(t, err)
	mine := stranger.Proc().ID().Actor("mine")
	steal := system.DetachRequest{Mesh: procs.ID(), Hosts: procs.Describe().Hosts,
		Claim: agent.Claim{Epoch: 1 << 40, Owner: mine}}
	_, err = system.Detach.Call(t.Context(), ctl, steal)
	require.NotNil(t, agent.AsFenced(err), "the hosts know another owner: %v", err)
	steal.Claim = agent.Claim{Epoch: 1, Owner: procs.Describe().Owner}
	_, err = system.Detach.Call(t.Context(), ctl, steal)
	require.ErrorContains(t, err, "may not act on it", "in the name of the owner")
	held, err := procs.Detach(t.Context())
	require.NoError(t, err)
	adopt := system.AdoptRequest{Mesh: procs.ID(), Claim: agent.Claim{Epoch: held.Epoch, Owner: mine}}
	_, err = system.Adopt.Call(t.Context(), ctl, adopt)
	require.ErrorContains(t, err, "may not act on it")

	operator, _ := c.Client(t, as(subjects.Operator, "carol"))
	found, err := operator.Lookup(t.Context(), "words")
	require.NoError(t, err)
	require.NoError(t, found.Stop(t.Context()))
}

// as makes a client a user of a role.
func as(role subjects.Role, user string) func(*mesh.Options) {
	return func(o *mesh.Options) { o.Principal = role.Principal(user) }
}

// An actor in a proc may own meshes. It adopts them with the arguments for their next generations.
func TestAdopt_aProcReadsTheArguments_AGT13(t *testing.T) {
	t.Parallel()
	c := withSystem(t)
	owner, _ := c.Client(t, as(subjects.Proc, "a"))
	command := mesh.Command{Env: []string{"DATA=/data"}}
	made, err := c.AllHosts(t, owner).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "words", PerHost: shape.Of("gpu", 1), Command: command})
	require.NoError(t, err)
	_, err = made.Detach(t.Context())
	require.NoError(t, err)
	next, _ := c.Client(t, as(subjects.Proc, "a"))
	mine, err := next.Adopt(t.Context(), "words", 0)
	require.NoError(t, err)
	require.Equal(t, made.Describe().Command, mine.Describe().Command)
	require.Equal(t, command.Env, mine.Describe().Command.Env)
}
