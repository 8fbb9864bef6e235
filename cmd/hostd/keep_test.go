package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// asker is a proc of the test's own, for requests outside package mesh.
func (s site) asker(t *testing.T) *actor.Proc {
	t.Helper()
	o := bus.FromEnv(s.getenv)
	o.ConnectTimeout = testkit.Patience
	b, err := bus.Open(testkit.Soon(t), o)
	require.NoError(t, err)
	id, err := subjects.NewHostID("asker")
	require.NoError(t, err)
	p, err := actor.NewProc(testkit.Soon(t), actor.Options{
		ID: id.Proc(), Principal: subjects.Operator.Principal("asker"), Bus: b,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = p.Close(ctx), b.Close(ctx) // the server may be gone
	})
	return p
}

// keptMesh is a mesh of two procs with built-in actors that outlive their host.
func keptMesh(t *testing.T, d *daemon) agent.Mesh {
	t.Helper()
	id, err := subjects.NewMeshID("kept")
	require.NoError(t, err)
	host, err := subjects.ParseHostID(d.ready.Host)
	require.NoError(t, err)
	return agent.Mesh{
		ID: id, Extent: shape.Of("gpu", 2), Hosts: []subjects.HostID{host}, PerHost: 2,
		Owner:   host.Proc().Actor("owner"),
		Command: agent.Command{Path: agent.Builtin}, Keep: true,
	}
}

// again calls until the other side, or the bus, is back.
func again[M, R any](t *testing.T, e actor.Endpoint[agent.Agent, M, R], to actor.Ref[agent.Agent],
	m M) (out R) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		r, err := e.Call(ctx, to, m)
		out = r
		return err == nil
	}, testkit.Patience, 20*time.Millisecond)
	return out
}

// reach waits until the ranks of a request have reached its phase. A host replies shortly before the
// deadline of a call in any case.
func reach(t *testing.T, host actor.Ref[agent.Agent], w agent.WaitRequest) (o agent.Overlay) {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("%s %s", w.ID, w.Until), func() bool {
		o = again(t, agent.Wait, host, w)
		reached := true
		o.Each(math.MaxInt, func(rank int, s agent.Status) {
			if w.Region == nil || w.Region.Contains(rank) {
				reached = reached && s.Phase >= w.Until
			}
		})
		return reached
	})
	return o
}

// own is the address of a hostd with a successor on the same port. No other test uses that port.
const own = "127.0.0.1:0"

func TestHostd_keptMeshesOutliveIt_HOSTD8(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	state := filepath.Join(t.TempDir(), "state")
	d := s.start(t, "--state-dir", state, "--label", "a", "--listen", own)
	token := s.readLocal(t).Token
	p := s.asker(t)
	m := keptMesh(t, d)
	host := agent.Of(m.Hosts[0].Proc()).Via(p)
	o, err := agent.Create.Call(testkit.Soon(t), host,
		agent.CreateRequest{Procs: &m, Wait: true, Lease: time.Minute})
	require.NoError(t, err)
	require.Equal(t, agent.Overlay{{First: 0, Count: 2, Status: agent.Status{Phase: agent.Running}}}, o)
	before, err := agent.Get.Call(testkit.Soon(t), host, agent.GetRequest{ID: m.ID.String()})
	require.NoError(t, err)
	counters := actor.RefOf[any](m.ProcID(1, 0).Actor("c")).Via(p)
	spec := agent.ActorSpec{Name: "c", Type: "counter", Params: []byte{0x18, 0x28}, Owner: m.Owner} // 40
	_, err = agent.Create.Call(testkit.Soon(t), agent.Of(m.ProcID(1, 0)).Via(p),
		agent.CreateRequest{Actors: &spec, Wait: true})
	require.NoError(t, err)

	_, why := s.requireFailedStart(t,
		"--state-dir", state, "--label", "a", "--nats", d.ready.Bus, "--namespace", "other")
	require.Contains(t, why, "another hostd uses it (pid "+strconv.Itoa(d.PID())+")")

	d.Send(t, syscall.SIGKILL)
	require.Equal(t, -1, d.Exit(t))
	next := s.start(t, "--state-dir", state, "--label", "a")
	require.Equal(t, d.ready.Host, next.ready.Host, "the host is the same")
	require.Equal(t, d.ready.Bus, next.ready.Bus, "so is its server")
	require.Equal(t, token, s.readLocal(t).Token)
	require.Equal(t, o, reach(t, host, agent.WaitRequest{ID: m.ID.String(), Until: agent.Running}),
		next.Err.String())
	after := again(t, agent.Get, host, agent.GetRequest{ID: m.ID.String()})
	for i := range after {
		require.True(t, after[i].Proc.Adopted)
		require.Equal(t, before[i].Proc.PID, after[i].Proc.PID)
		require.Equal(t, before[i].Gen, after[i].Gen)
	}
	n, err := add.Call(testkit.Soon(t), counters, 2)
	require.NoError(t, err)
	require.EqualValues(t, 42, n, "the procs keep their state")
	require.Equal(t, o, again(t, agent.Keepalive, host, agent.Lease{ID: m.ID.String(), TTL: time.Minute}))

	require.NoError(t, syscall.Kill(before[0].Proc.PID, syscall.SIGKILL))
	first, err := m.Extent.Region().Slice(m.Extent.Dims()[0].Label, 0, 1)
	require.NoError(t, err)
	o = reach(t, host, agent.WaitRequest{ID: m.ID.String(), Until: agent.Stopped, Region: &first})
	require.Equal(t, agent.Failed, o[0].Status.Phase)
	require.Contains(t, o[0].Status.Reason, "killed by signal 9 (killed)")
	next.Stop(t)
	requireGone(t, []int{before[0].Proc.PID, before[1].Proc.PID})
	left, err := filepath.Glob(filepath.Join(state, "*.proc.json*"))
	require.NoError(t, err)
	require.Empty(t, left)
	s.requireClean(t)
}

func TestHostd_sigusr1LeavesKeptProcsToTheNextHostd_HOSTD4(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	state := filepath.Join(t.TempDir(), "state")
	d := s.start(t, "--state-dir", state, "--label", "a", "--listen", own)
	m := keptMesh(t, d)
	plain := keptMesh(t, d)
	plain.Keep = false
	host := agent.Of(m.Hosts[0].Proc()).Via(s.asker(t))
	pids := map[string][]int{}
	for _, mesh := range []agent.Mesh{m, plain} {
		_, err := agent.Create.Call(testkit.Soon(t), host, agent.CreateRequest{Procs: &mesh, Wait: true})
		require.NoError(t, err)
		states, err := agent.Get.Call(testkit.Soon(t), host, agent.GetRequest{ID: mesh.ID.String()})
		require.NoError(t, err)
		for _, st := range states {
			pids[st.ID] = append(pids[st.ID], st.Proc.PID)
		}
	}
	d.Send(t, syscall.SIGUSR1)
	require.Zero(t, d.Exit(t), d.Err.String())
	require.NotContains(t, d.Err.String(), "procs that are not kept end with hostd", "they had their grace")
	requireGone(t, pids[plain.ID.String()])
	next := s.start(t, "--state-dir", state, "--label", "a")
	o := reach(t, host, agent.WaitRequest{ID: m.ID.String(), Until: agent.Running})
	require.Equal(t, agent.Overlay{{First: 0, Count: 2, Status: agent.Status{Phase: agent.Running}}}, o)
	for i, st := range again(t, agent.Get, host, agent.GetRequest{ID: m.ID.String()}) {
		require.Equal(t, pids[m.ID.String()][i], st.Proc.PID)
	}
	next.Stop(t)
	requireGone(t, pids[m.ID.String()])
	s.requireClean(t)
}

func TestHostd_leaseOfAKeptMeshContinuesAfterRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	state := filepath.Join(t.TempDir(), "state")
	d := s.start(t, "--state-dir", state, "--label", "a", "--listen", own)
	m := keptMesh(t, d)
	host := agent.Of(m.Hosts[0].Proc()).Via(s.asker(t))
	_, err := agent.Create.Call(testkit.Soon(t), host,
		agent.CreateRequest{Procs: &m, Wait: true, Lease: time.Hour})
	require.NoError(t, err)
	d.Send(t, syscall.SIGKILL)
	d.Exit(t)
	file := filepath.Join(state, m.ID.String()+".lease")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lease := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &lease))
	lease["until"], lease["ttl"] = 1, 2*time.Second // as if it had run out long ago, of a short term
	text, err = json.Marshal(lease)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	next := s.start(t, "--state-dir", state, "--label", "a")
	o := reach(t, host, agent.WaitRequest{ID: m.ID.String(), Until: agent.Stopped})
	require.Equal(t, agent.Overlay{{First: 0, Count: 2,
		Status: agent.Status{Phase: agent.Stopped, Reason: agent.OrphanedReason(time.Second)}}}, o)
	next.Stop(t)
	require.NoFileExists(t, file)
	s.requireClean(t)
}

func TestHostd_keptMeshRequiresAStateDirectory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t)
	m := keptMesh(t, d)
	host := agent.Of(m.Hosts[0].Proc()).Via(s.asker(t))
	_, err := agent.Create.Call(testkit.Soon(t), host, agent.CreateRequest{Procs: &m})
	require.ErrorContains(t, err, "cannot keep procs when the host dies: start hostd with --state-dir")
	d.Stop(t)
}

func TestHostd_stateDirectoryBelongsToOneLabel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	state := t.TempDir()
	s.start(t, "--state-dir", state, "--label", "a", "--listen", own).Stop(t)
	_, why := s.requireFailedStart(t, "--state-dir", state, "--label", "b")
	require.Contains(t, why, `it belongs to host "a": want --label a, or another --state-dir`)
	require.NoError(t, os.WriteFile(serverStateFile(state), []byte("{"), 0o600))
	_, why = s.requireFailedStart(t, "--state-dir", state, "--label", "a")
	require.Contains(t, why, "server.json")
	s.requireClean(t)
}

func TestHostd_refusesToMoveFromThePortOfItsState_HOSTD8(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	state := t.TempDir()
	s.start(t, "--state-dir", state, "--label", "a", "--listen", own).Stop(t)
	var last serverState
	data, err := os.ReadFile(serverStateFile(state))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &last))
	other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", last.Port))
	require.NoError(t, err)
	_, why := s.requireFailedStart(t, "--state-dir", state, "--label", "a")
	require.Contains(t, why, fmt.Sprintf("cannot listen on port %d, the port of the last hostd with --state-dir %s",
		last.Port, state))
	require.NoError(t, other.Close())
	s.requireClean(t)
}
