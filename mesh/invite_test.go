package mesh_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// invite returns a new invite.
func invite(t *testing.T, procs mesh.ProcMesh, label string, ttl time.Duration) agent.Invitation {
	t.Helper()
	text, err := procs.Invite(testkit.Soon(t), label, ttl)
	require.NoError(t, err)
	i, err := agent.ParseInvitation(text)
	require.NoError(t, err)
	return i
}

// joins makes a host join with an invite.
func joins(t *testing.T, i agent.Invitation, h *host.Host) (agent.JoinResponse, error) {
	t.Helper()
	return i.Join(testkit.Soon(t), h.Proc(), h.ID())
}

func TestInvite_itsHostJoinsOnceWithTheActorsOfTheMesh_CTL21(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 2))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 0)
	require.NoError(t, err)
	theirs := travelled(t, counters, c.Connect(t))
	require.Equal(t, 2, count(t, theirs))
	audited := make(chan string, 8)
	sub, err := c.Proc().Bus().Control().Subscribe(c.Proc().Space().Events(actor.KindAudit, subjects.MeshID{}),
		func(m bus.Msg) {
			e, err := actor.DecodeEventFrom(c.Proc().Space(), m)
			assert.NoError(t, err)
			audited <- e.Step + " " + e.Object + " " + e.Status
		})
	require.NoError(t, err)
	defer func() { require.NoError(t, sub.Unsubscribe()) }()

	i := invite(t, theirs.Procs(), "b", time.Minute) // any program may invite
	b, _ := c.Host(t, "b")
	got, err := joins(t, i, b)
	require.NoError(t, err)
	require.Equal(t, agent.JoinResponse{First: 2, Count: 2}, got)
	require.Equal(t, "audit.invite "+procs.ID().String()+" b granted", testkit.Next(t, audited))
	require.Equal(t, "audit.join "+procs.ID().String()+" "+b.ID().String()+" pending", testkit.Next(t, audited))
	require.Equal(t, "audit.join "+procs.ID().String()+" "+b.ID().String()+" granted", testkit.Next(t, audited))
	testkit.Until(t, "the program of the owner follows", func() bool { return procs.Extent().NumRanks() == 4 })
	require.Equal(t, 4, count(t, counters))
	testkit.Until(t, "another program follows", func() bool { return theirs.Extent().NumRanks() == 4 })
	require.Equal(t, 4, count(t, theirs))

	again, err := joins(t, i, b)
	require.NoError(t, err)
	require.Equal(t, agent.JoinResponse{First: 2, Count: 2, Present: true}, again)
	_, err = procs.Shrink(testkit.Soon(t), 1)
	require.NoError(t, err)
	_, err = joins(t, i, b)
	require.ErrorContains(t, err, "the invite is used: host "+b.ID().String()+" joined with it")
}

// namesake is a process that speaks in the name of a host, with an ID of its own.
func (c *cluster) namesake(t *testing.T, label string) (*actor.Proc, subjects.HostID) {
	t.Helper()
	id := testproc.HostID(t, label)
	p, _ := testproc.Start(t, c.Server, testproc.Options{Options: actor.Options{
		ID: id.Proc(), Principal: subjects.Host.Principal(label), Bus: c.Open(t), Log: testkit.Log(t),
	}})
	return p, id
}

// Two hosts of the label present the invite at once, each of them many times. The one without an
// agent cannot start procs, so the mesh grows by the other one.
func TestInvite_theMeshGrowsOnceHoweverManyPresentIt_CTL21(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	i := invite(t, procs, "b", time.Minute)
	b, _ := c.Host(t, "b")
	p, id := c.namesake(t, "b")
	var joined atomic.Int32
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			_, err := i.Join(testkit.Soon(t), p, id)
			assert.Error(t, err)
		})
		wg.Go(func() {
			for {
				got, err := i.Join(testkit.Soon(t), b.Proc(), b.ID())
				switch {
				case err == nil && !got.Present:
					joined.Add(1)
					return
				case err == nil:
					return
				case !assert.ErrorContains(t, err, "the invite is in use: host b-"):
					return
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, joined.Load())
	testkit.Until(t, "the program of the owner follows", func() bool { return procs.Extent().NumRanks() == 2 })
	require.Equal(t, b.ID(), procs.Describe().Hosts[1])
	_, err = i.Join(testkit.Soon(t), p, id)
	require.ErrorContains(t, err, "the invite is used: host "+b.ID().String()+" joined with it")
}

// Each host has an invite of its own. The mesh changes its hosts once at a time, and refuses none.
func TestInvite_hostsThatJoinTogetherWaitForEachOther_CTL21(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	counters, err := mesh.Spawn(t.Context(), procs, counter, "counters", 0)
	require.NoError(t, err)
	invites := map[*host.Host]agent.Invitation{}
	for _, label := range []string{"b", "c", "d"} {
		h, _ := c.Host(t, label)
		invites[h] = invite(t, procs, label, time.Minute)
	}
	var wg sync.WaitGroup
	for h, i := range invites {
		wg.Go(func() {
			_, err := i.Join(testkit.Soon(t), h.Proc(), h.ID())
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	testkit.Until(t, "the program of the owner follows", func() bool { return procs.Extent().NumRanks() == 4 })
	require.Equal(t, 4, count(t, counters))
}

func TestInvite_aFailedJoinLeavesIt_CTL21(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	procs, err := c.AllHosts(t, c.Net).Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	i := invite(t, procs, "b", time.Minute)
	b, _ := c.Host(t, "b")
	operator, _ := c.Client(t, as(subjects.Operator, "carol"))
	cordon := func(is bool) {
		t.Helper()
		_, err := agent.Cordon.Call(testkit.Soon(t), agent.Of(b.ID().Proc()).Via(operator.Proc()),
			agent.CordonRequest{Cordon: is, Reason: "repair"})
		require.NoError(t, err)
	}
	cordon(true)
	_, err = joins(t, i, b)
	require.ErrorContains(t, err, "cannot join mesh "+procs.ID().String())
	require.ErrorContains(t, err, "the mesh did not grow: rank 1 failed")
	require.ErrorContains(t, err, "repair")
	require.Equal(t, 1, procs.Extent().NumRanks())
	cordon(false)
	got, err := joins(t, i, b)
	require.NoError(t, err)
	require.Equal(t, agent.JoinResponse{First: 1, Count: 1}, got)
}

func TestInvite_refusesWhatItIsNotFor_CTL21(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.System(t, "s")
	hosts := c.AllHosts(t, c.Net)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	other, err := hosts.Spawn(t.Context(), "others", shape.Of("gpu", 1))
	require.NoError(t, err)
	for label, ttl := range map[string]time.Duration{"b": 0, "c": 25 * time.Hour, "a.b": time.Minute, "": time.Minute} {
		_, err := procs.Invite(testkit.Soon(t), label, ttl)
		require.Error(t, err, label)
	}
	_, err = procs.Slice("gpu", 0, 1).Invite(testkit.Soon(t), "b", time.Minute)
	require.NoError(t, err, "a slice with all ranks is the mesh")

	i := invite(t, procs, "b", time.Minute)
	late := invite(t, procs, "b", time.Millisecond)
	b, _ := c.Host(t, "b")
	d, _ := c.Host(t, "d")
	namesake, id := c.namesake(t, "b")
	own := i.Request(b.ID())
	send := func(p *actor.Proc, r agent.JoinRequest) error {
		_, err := agent.Join.Call(testkit.Soon(t), actor.RefOf[agent.Agent](i.Owner).Via(p), r)
		return err
	}
	replayed := own
	replayed.Host = id
	elsewhere := own
	elsewhere.ID = other.ID().String()
	require.ErrorContains(t, send(c.Proc(), own), "want the host itself")
	require.ErrorContains(t, send(namesake, own), "want the host itself")
	require.ErrorContains(t, send(namesake, replayed), "the proof is not of host "+id.String())
	require.ErrorContains(t, send(b.Proc(), elsewhere), "has another owner")
	require.ErrorContains(t, send(d.Proc(), i.Request(d.ID())), "the invite is for host b, not for d")
	require.ErrorContains(t, send(b.Proc(), agent.JoinRequest{ID: own.ID, Host: b.ID()}), "no such invite")
	testkit.Until(t, "it expires", func() bool {
		err := send(b.Proc(), late.Request(b.ID()))
		return strings.Contains(err.Error(), "the invite expired")
	})
	require.Equal(t, 1, procs.Extent().NumRanks())
	require.NoError(t, send(b.Proc(), own), "the refusals used nothing")

	held, err := other.Detach(t.Context())
	require.NoError(t, err)
	operator, _ := c.Client(t, as(subjects.Operator, "carol"))
	for _, conn := range []*mesh.Net{c.Net, operator} {
		_, err = held.Procs.Via(conn).Invite(testkit.Soon(t), "b", time.Minute)
		require.ErrorContains(t, err, "it is detached: adopt it first: castnet adopt "+held.Procs.ID().Label())
	}
}

func TestInvite_endsWithTheOwnerOfTheMesh_CTL21(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	conn, leave := c.Client(t)
	hosts := c.AllHosts(t, conn)
	procs, err := hosts.Spawn(t.Context(), "workers", shape.Of("gpu", 1))
	require.NoError(t, err)
	text, err := procs.MarshalText()
	require.NoError(t, err)
	before, unused := invite(t, procs, "b", time.Minute), invite(t, procs, "d", time.Minute)
	b, _ := c.Host(t, "b")
	d, _ := c.Host(t, "d")
	_, err = joins(t, before, b)
	require.NoError(t, err)

	var mine mesh.ProcMesh
	require.NoError(t, mine.UnmarshalText(text))
	mine, err = mine.Via(c.Net).TakeOver(testkit.Soon(t), mesh.Takeover{Epoch: 1})
	require.NoError(t, err)
	got, err := joins(t, before, b)
	require.NoError(t, err, "the next owner knows its hosts")
	require.True(t, got.Present)
	_, err = joins(t, unused, d)
	require.ErrorContains(t, err, "its owner has no such invite: invites end with their owner")

	ended := invite(t, mine, "d", time.Minute)
	require.NoError(t, mine.Stop(testkit.Soon(t)))
	_, err = joins(t, ended, d)
	require.ErrorContains(t, err, "it does not run")
	leave()
	_, err = joins(t, unused, d)
	require.ErrorContains(t, err, "its owner is gone, and the invite with it")
}
