package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

const (
	demoID  = "demo-7kd93x0b5m2qa"
	hostA   = "node-a-0123456789abc"
	hostB   = "node-b-0123456789abd"
	ownerID = "up-9kd93x0b5m2qb/0.0/controller"
)

// ago is a time with a stable age text for half a minute.
func ago(d time.Duration) time.Time { return time.Now().Add(-d - 30*time.Second) }

func sinceTime(d time.Duration) *time.Time {
	at := ago(d)
	return &at
}

func hostID(t *testing.T, text string) subjects.HostID {
	t.Helper()
	id, err := subjects.ParseHostID(text)
	require.NoError(t, err)
	return id
}

func TestGolden_meshes(t *testing.T) {
	golden.Check(t, "meshes", func(out *output.Printer) error {
		return showMeshes(out, []inspect.MeshSummary{
			{
				Mesh: demoID, Kind: "mesh", Extent: "host=2,gpu=4", Ranks: 8, Running: 8, Phase: "running",
				Hosts: []string{hostA, hostB},
				Owner: inspect.MeshOwner{Kind: "program", ID: ownerID}, Since: sinceTime(2 * time.Hour),
			},
			{
				Mesh: "train-0kd93x0b5m2qc", Kind: "world", Extent: "replica=16,gpu=8", Ranks: 128, Running: 96,
				Phase: "unknown",
				Hosts: []string{hostA, hostB, "node-c-0123456789abe", "node-d-0123456789abf", "node-e-0123456789abg"},
				Owner: inspect.MeshOwner{Kind: "system"}, Since: sinceTime(72 * time.Hour),
			},
			{
				Mesh: "orphan-1kd93x0b5m2qe", Kind: "mesh", Extent: "proc=1", Ranks: 1, Phase: "stopped",
				Hosts: []string{hostA},
				Owner: inspect.MeshOwner{Kind: "none", Reason: "it has ended"},
			},
		})
	})
}

func procs() []inspect.Proc {
	code := 3
	started := sinceTime(90 * time.Minute)
	return []inspect.Proc{
		{Mesh: demoID, Rank: 0, Point: "host=0,gpu=0", Host: hostA, PID: 41234, Status: "running",
			Started: started, CPUTime: 83 * time.Minute, Memory: 31 << 30},
		{Mesh: demoID, Rank: 1, Point: "host=0,gpu=1", Host: hostA, PID: 41235, Status: "running", Started: started,
			Adopted: true},
		{
			Mesh: demoID, Rank: 2, Point: "host=1,gpu=0", Host: hostB, PID: 977, Status: "failed", Started: started,
			ExitCode: &code,
			Reason:   "exited with code 3: cannot load the checkpoint: no such file or directory",
		},
		{Mesh: demoID, Rank: 3, Point: "host=1,gpu=1", Host: hostB, Status: "unknown",
			Reason: "host node-b does not answer"},
	}
}

// manyProcs are 500 procs on 4 hosts, of which three have ended.
func manyProcs() (all []inspect.Proc) {
	e := shape.Of("host", 4).With("gpu", 125)
	for rank := range 500 {
		p := procs()[0]
		p.Rank, p.Point, p.Extent = rank, inspect.Point(e, rank), e
		p.Host = []string{hostA, hostB, "node-c-0123456789abe", "node-d-0123456789abf"}[rank/125]
		p.CPUTime, p.Memory = 83*time.Second, 310<<20
		if rank%150 == 99 {
			p.Status, p.Signal, p.Reason, p.CPUTime, p.Memory = "failed", 9, "killed by signal 9", 0, 0
		}
		all = append(all, p)
	}
	return all
}

func TestGolden_procs(t *testing.T) {
	golden.Check(t, "procs", func(out *output.Printer) error { return showRanks(out, procs()) })
	golden.Check(t, "procs-running", func(out *output.Printer) error { return showRanks(out, procs()[:1]) })
	golden.Check(t, "procs-many", func(out *output.Printer) error { return showRanks(out, manyProcs()) })
	golden.Check(t, "stop", func(out *output.Printer) error {
		ended := procs()[:3]
		ended[0].Status, ended[0].CPUTime, ended[0].Memory = "stopped", 0, 0
		ended[1].Status = "failed"
		ended[1].Signal = 9
		return showRanks(out, ended)
	})
}

func TestGolden_wait(t *testing.T) {
	golden.Check(t, "wait", func(out *output.Printer) error {
		return showWaited(out, waitRecord{Mesh: "train-0kd93x0b5m2qc", Condition: waitLive, Phase: "running",
			Status: system.StatusLive, Running: 128, Ranks: 128, Took: 12345 * time.Millisecond})
	})
}

func TestGolden_links(t *testing.T) {
	id, err := subjects.ParseProcID(demoID + "/1.0")
	require.NoError(t, err)
	golden.Check(t, "links", func(out *output.Printer) error {
		return showLinks(out, []inspect.Link{
			{Mesh: demoID, Point: "host=0,gpu=0", Peer: actor.Peer{
				Process: id.Process(), Sent: 120345, Acked: 120340, Retransmitted: 3, Received: 98765, Credit: 4 << 20,
				RTT: 210 * time.Microsecond,
			}},
			{Mesh: demoID, Rank: 1, Point: "host=0,gpu=1",
				Peer: actor.Peer{Process: id.Process(), DeadReason: "killed by signal 9"}},
		})
	})
}

func TestGolden_actors(t *testing.T) {
	golden.Check(t, "actors", func(out *output.Printer) error {
		return showActors(out, []inspect.Actor{
			{
				Rank: 0, Point: "host=0,gpu=0", Actor: "counter-0123456789abc", Type: "counter", Status: "running",
				Handled:   12345,
				Endpoints: []string{"add(int64) int64", "get() int64", "reset()"},
			},
			{
				Rank: 1, Point: "host=0,gpu=1", Actor: "counter-0123456789abc", Type: "counter",
				Status: "failed", Queued: 12,
				Reason:    "panicked: runtime error: index out of range [5] with length 3",
				Endpoints: []string{"add(int64) int64", "get() int64", "reset()"},
			},
		})
	})
}

func TestGolden_types(t *testing.T) {
	golden.Check(t, "types", func(out *output.Printer) error {
		return showTypes(out, []inspect.ActorType{
			{Type: "counter", Actors: []string{"counter", "total"}, Running: 16,
				Endpoints: []string{"add(int64) int64", "get(struct {}) int64", "reset(struct {}) int64"}},
			{Type: "echo"},
		})
	})
}

func TestGolden_hosts(t *testing.T) {
	hosts := []mesh.HostState{
		{State: agent.HostAlive, HostInfo: agent.HostInfo{
			ID: hostID(t, hostA), Label: "node-a", Procs: 4, CPUs: 64, PID: 1234, Started: ago(50 * time.Hour),
			Mode:    agent.ModeOpen,
			Version: "v0.0.0-20261125120000-0123456789ab", Build: "b1",
			Labels: map[string]string{"zone": "a", "disk": "nvme"},
		}},
		{State: agent.HostAlive, HostInfo: agent.HostInfo{
			ID: hostID(t, hostB), Label: "node-b", CPUs: 64, PID: 999, Started: ago(3 * time.Minute),
			Mode:       agent.ModeCordoned,
			ModeReason: "the disks are replaced on Friday", Version: "v1.2.0", Build: "b1",
		}},
		{
			State: agent.HostSuspect, Silence: 4 * time.Second,
			HostInfo: agent.HostInfo{ID: hostID(t, "node-c-0123456789abe"), Label: "node-c"},
		},
	}
	golden.Check(t, "hosts", func(out *output.Printer) error { return showHosts(out, hosts) })
	golden.Check(t, "hosts-alive", func(out *output.Printer) error { return showHosts(out, hosts[:1]) })
	golden.Check(t, "hosts-drain", func(out *output.Printer) error {
		return showHostActionRecords(out, hostActions[2], []hostActionRecord{
			{Host: "node-a", Result: "drained", Asked: 4, Ended: 4, Killed: 1, Moved: 2},
			{Host: "node-b", Result: "failed", Asked: 4, Ended: 3, Error: "1 proc left"},
		})
	})
}

// broken is a mesh with a dead host, failed ranks and a silent owner in turn.
func broken() inspect.View {
	code := 3
	since := ago(3 * time.Hour)
	return inspect.View{
		Mesh: demoID, Label: "demo", Extent: "host=2,gpu=4", Shape: shape.Of("host", 2).With("gpu", 4), PerHost: 4,
		Ranks: 8, Program: "/opt/words/bin/words",
		Phase: "running", RestartPolicy: "propagate", NoActors: "host=0,gpu=2",
		Owner: inspect.Owner{ID: ownerID, Answering: true, Since: &since, Lease: 30 * time.Second, Restarts: 2},
		Statuses: []inspect.StatusRun{
			{Region: "host=0,gpu=0:3", Ranks: 3, Status: "running"},
			{Region: "host=0,gpu=3", Ranks: 1, Status: "failed",
				Reason: "exited with code 3: cannot load the checkpoint /data/checkpoints/2026-11-25/step-120000.bin"},
			{Region: "host=1,gpu=*", Ranks: 4, Status: "failed",
				Reason: "host node-b is dead: no heartbeat for 4.5s, and no answer to 3 pings"},
		},
		Failures: []inspect.Failure{
			{
				Rank: 3, Point: "host=0,gpu=3", Host: hostA, ExitCode: &code, At: ago(5 * time.Minute),
				Reason: "exited with code 3: cannot load the checkpoint /data/checkpoints/2026-11-25/step-120000.bin",
				StderrTail: []string{"loading step-120000.bin",
					"open /data/checkpoints/2026-11-25/step-120000.bin: no such file or directory"},
			},
			{Rank: 4, Point: "host=1,gpu=0", Host: hostB,
				Reason: "host node-b is dead: no heartbeat for 4.5s, and no answer to 3 pings"},
		},
		RestartedRanks: []inspect.RestartedRank{{
			RankHistory: controller.RankHistory{Rank: 1, Gen: 2, Host: hostA, Restarts: 2,
				Cause: "killed by signal 9"}, Point: "host=0,gpu=1", Status: "running",
		}},
		Hosts: []inspect.Host{{ID: hostA, State: "alive"},
			{ID: hostB, State: "dead", Reason: "no heartbeat for 4.5s, and no answer to 3 pings"}},
		Actors: []inspect.ActorMesh{{Actor: "worker-0123456789abc", Type: "worker", Statuses: []inspect.StatusRun{
			{Region: "host=0,gpu=0:2", Ranks: 2, Status: "running"},
		}}},
	}
}

func healthy() inspect.View {
	v := broken()
	v.Statuses = []inspect.StatusRun{{Region: "*", Ranks: 8, Status: "running"}}
	v.Failures = nil
	v.RestartedRanks = nil
	v.NoActors = ""
	v.Hosts[1] = inspect.Host{ID: hostB, State: "alive"}
	return v
}

func orphaned() inspect.View {
	v := healthy()
	v.Owner = inspect.Owner{ID: ownerID, Gone: true, Reason: "proc up-9kd93x0b5m2qb/0.0 is gone: it has left the bus"}
	v.LeaseLeft = 24 * time.Second
	return v
}

func world() inspect.View {
	v := broken()
	v.Label = "train"
	v.Owner = inspect.Owner{ID: "hostd-8kd93x0b5m2qd/0.0/system", Answering: true}
	v.World = &inspect.World{Status: system.StatusUnhealthy, StatusAge: 95 * time.Second,
		EvictionIn: 5 * time.Second,
		Reason:     "proc train-0kd93x0b5m2qc/5.0: failed: killed by signal 9"}
	v.RestartPolicy = "a proc that has ended is not started again; its world is evicted (world.eviction-timeout)"
	return v
}

func TestGolden_meshShowAndExplain(t *testing.T) {
	for name, v := range map[string]inspect.View{"broken": broken(), "healthy": healthy(),
		"orphaned": orphaned(), "world": world()} {
		golden.Check(t, "mesh-show-"+name, func(out *output.Printer) error { return showMesh(out, v) })
		golden.Check(t, "explain-"+name,
			func(out *output.Printer) error { return showExplanation(out, v.Explanation()) })
	}
}

func TestGolden_worlds(t *testing.T) {
	e := shape.Of("replica", 2).With("gpu", 4)
	golden.Check(t, "worlds", func(out *output.Printer) error {
		return showWorlds(out, []system.WorldState{
			{
				Name: "train", Status: system.StatusUnhealthy, StatusAge: 95 * time.Second, Shape: &e,
				Labels: map[string]string{"team": "vision"},
				Reason: "proc train-0kd93x0b5m2qc/5.0: failed: killed by signal 9",
				Hosts: []system.HostState{{Rank: 0, ID: hostID(t, hostA), Count: 4},
					{Rank: 1, ID: hostID(t, hostB), Count: 4, Lost: "no heartbeat"}},
			},
			{Name: "words", Status: system.StatusLive, StatusAge: 26 * time.Hour, Shape: &e},
		})
	})
	golden.Check(t, "apply", func(out *output.Printer) error {
		return showApplied(out, []system.UpsertResponse{{World: "train", Change: "create",
			Status: system.StatusUnhealthy, Mesh: "train-0kd93x0b5m2qc"}, {World: "words", Change: "nothing"}})
	})
	golden.Check(t, "delete", func(out *output.Printer) error {
		return showDeleted(out, []system.WorldStopped{{World: "train", Stopped: 6, Aborted: 2,
			Silent: []string{"node-b"}}, {World: "words", Stopped: 4}})
	})
	id, err := subjects.ParseProcID("train-0kd93x0b5m2qc/5.1")
	require.NoError(t, err)
	golden.Check(t, "where", func(out *output.Printer) error {
		return showLocation(out, system.Location{World: "train", Proc: id, Host: hostA, Health: system.HealthAlive})
	})
}

func TestGolden_restart(t *testing.T) {
	golden.Check(t, "restart", func(out *output.Printer) error {
		return showRestarted(out, []restartRecord{
			{Mesh: demoID, Rank: 0, Point: "host=0,gpu=0", Host: "node-a", Status: "running",
				Took: 1234 * time.Millisecond},
			{Mesh: demoID, Rank: 1, Point: "host=0,gpu=1", Host: "node-a", Status: "failed",
				Reason: "it was not ready within 1m0s: waiting for the model server on port 8080", Took: time.Minute},
		})
	})
}

func TestGolden_configShow(t *testing.T) {
	c := &config.Config{}
	require.NoError(t, c.LoadEnv(func(key string) string {
		if key == "CASTNET_SUPERVISION_LEASE_TTL" {
			return "45s"
		}
		return ""
	}))
	golden.Check(t, "config-show-changed",
		func(out *output.Printer) error { return showConfig(out, c.Entries(), true) })
}

// inTrouble are four hosts, of which one is frozen and one dead.
func inTrouble(t *testing.T) []mesh.HostState {
	alive := func(label, id string) mesh.HostState {
		return mesh.HostState{State: agent.HostAlive, HostInfo: agent.HostInfo{
			ID: hostID(t, id), Label: label, Procs: 8, CPUs: 96, PID: 812345, Started: ago(70 * time.Hour),
			Mode: agent.ModeOpen, Version: "v1.2.0", Labels: map[string]string{"zone": "eu-central-1a"},
		}}
	}
	silent := func(label, id, state string, since time.Duration) mesh.HostState {
		return mesh.HostState{State: state, Silence: since,
			HostInfo: agent.HostInfo{ID: hostID(t, id), Label: label}}
	}
	full := alive("gpu-node-0044", "gpu-node-0044-0123456789abf")
	full.LogTrouble = "the disk of /var/lib/castnet/logs is nearly full: older output is dropped, and new output may be lost"
	return []mesh.HostState{
		alive("gpu-node-0041", "gpu-node-0041-0123456789abc"),
		silent("gpu-node-0042", "gpu-node-0042-0123456789abd", agent.HostSuspect, 2*time.Second),
		silent("gpu-node-0043", "gpu-node-0043-0123456789abe", agent.HostDead, 17*time.Minute),
		full,
	}
}

func TestGolden_trouble(t *testing.T) {
	hosts := inTrouble(t)
	missing := &mesh.MissingHostsError{Hosts: 4, Silent: hosts[1:3]}
	e := shape.Of("host", 4).With("gpu", 8)
	var procs []inspect.Proc
	var ids []string
	for rank := range e.NumRanks() {
		h := hosts[rank/8]
		p := inspect.Proc{Mesh: "pretrain-7kd93x0b5m2qa", Rank: rank, Point: inspect.Point(e, rank), Host: h.ID.String(),
			PID: 812400 + rank, Status: "running", Started: sinceTime(26 * time.Hour), CPUTime: 25 * time.Hour, Memory: 61 << 30,
			Extent: e}
		if h.State != agent.HostAlive {
			p.PID, p.Started, p.CPUTime, p.Memory = 0, nil, 0, 0
			p.Status, p.Reason = "unknown", "host "+h.Label+" does not answer"
			if h.State == agent.HostDead {
				p.Status, p.Reason = "failed", "host "+h.Label+" is dead: no heartbeat for 4.5s, and no answer to 3 pings"
			}
		}
		procs = append(procs, p)
	}
	for _, h := range hosts {
		ids = append(ids, h.ID.String())
	}
	v := broken()
	v.Mesh, v.Label, v.Extent, v.Shape, v.PerHost, v.Ranks = procs[0].Mesh, "pretrain", e.String(), e, 8, 32
	v.RestartedRanks, v.NoActors, v.Failures, v.Hosts = nil, "", nil, nil
	v.Statuses = []inspect.StatusRun{{Region: "host=0,gpu=* | host=3,gpu=*", Ranks: 16, Status: "running"},
		{Region: "host=1,gpu=*", Ranks: 8, Status: "unknown", Reason: "its host gpu-node-0042 does not answer"},
		{Region: "host=2,gpu=*", Ranks: 8, Status: "failed", Reason: procs[16].Reason}}
	for i, h := range hosts {
		v.Hosts = append(v.Hosts, inspect.Host{ID: ids[i], State: h.State, LogTrouble: h.LogTrouble,
			Reason: map[string]string{agent.HostSuspect: "no heartbeat for 2.1s",
				agent.HostDead: "no heartbeat for 4.5s, and no answer to 3 pings"}[h.State]})
	}
	for rank := 16; rank < 24; rank++ {
		v.Failures = append(v.Failures, inspect.Failure{Rank: rank, Host: ids[2], Reason: procs[rank].Reason})
	}
	full := v
	full.Phase, full.Hosts = "failed", []inspect.Host{v.Hosts[0], v.Hosts[3]}
	full.Extent, full.Ranks, full.Shape = "host=2,gpu=8", 16, shape.Of("host", 2).With("gpu", 8)
	full.Statuses = []inspect.StatusRun{{Region: "host=0,gpu=*", Ranks: 8, Status: "stopped"},
		{Region: "host=1,gpu=*", Ranks: 8, Status: "failed"}}
	full.Failures = nil
	for rank := 8; rank < 16; rank++ {
		full.Failures = append(full.Failures, inspect.Failure{Rank: rank, Host: ids[3], Reason: "state directory " +
			"/var/lib/castnet: no space left on device"})
	}
	golden.Check(t, "trouble-explain-disk-full",
		func(out *output.Printer) error { return showExplanation(out, full.Explanation()) })
	for name, show := range map[string]func(out *output.Printer) error{
		"hosts":     func(out *output.Printer) error { return showHosts(out, hosts) },
		"procs":     func(out *output.Printer) error { return showRanks(out, procs) },
		"mesh-show": func(out *output.Printer) error { return showMesh(out, v) },
		"explain":   func(out *output.Printer) error { return showExplanation(out, v.Explanation()) },
		"meshes": func(out *output.Printer) error {
			return showMeshes(out, []inspect.MeshSummary{{Mesh: v.Mesh, Kind: "mesh", Extent: e.String(), Ranks: 32, Running: 16,
				Phase: "unknown", Hosts: ids, Owner: inspect.MeshOwner{Kind: "none", ID: ownerID, Reason: "no answer"},
				Since: sinceTime(26 * time.Hour)}})
		},
		"worlds": func(out *output.Printer) error {
			w := system.WorldState{Name: "pretrain", Status: system.StatusUnhealthy, StatusAge: 12 * time.Second, Shape: &e,
				Labels: map[string]string{"team": "vision"},
				Reason: "host gpu-node-0043-0123456789abe is lost: no heartbeat for 4.5s, and no answer to 3 pings"}
			for i, h := range hosts {
				w.Hosts = append(w.Hosts, system.HostState{Rank: i, ID: h.ID, Count: 8})
			}
			w.Hosts[2].Lost = "no heartbeat"
			return showWorlds(out, []system.WorldState{w})
		},
	} {
		golden.Check(t, "trouble-"+name, func(out *output.Printer) error { return errors.Join(show(out), missing) })
	}
}

func TestGolden_auth(t *testing.T) {
	made := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	alice, host := subjects.Program.Principal("alice"), subjects.Host.Principal("n07")
	golden.Check(t, "auth-ls", func(out *output.Printer) error {
		return showKeys(out, &auth.Authority{
			Keys: []auth.Key{
				{Principal: host, Public: "AHOST", Seed: "secret", Made: made},
				{Principal: alice, Public: "AALICE", Seed: "secret", Made: made},
				{Principal: subjects.Operator.Principal("bob"), Public: "ABOB", Made: made, Revoked: made},
			},
			Users: []auth.User{
				{Principal: alice, Public: "UOLD", Signer: "AALICE", Made: made, Expires: made},
				{Principal: alice, Public: "UNEW", Signer: "AALICE", Made: made, Expires: made.AddDate(100, 0, 0)},
			},
		})
	})
}

// busCommands are all commands that need a bus, each with arguments.
func busCommands() []string {
	return []string{
		"up", "spawn demo", "adopt demo", "meshes", "hosts", "hosts cordon a", "hosts uncordon a", "hosts drain a",
		"hosts shutdown a", "hosts restart a", "procs demo", "actors demo", "types demo", "mesh show demo", "mesh restart demo",
		"explain demo", "call demo counter get", "cast demo counter get", "logs demo", "logs demo -f", "wait demo",
		"grow demo 1", "shrink demo 1", "stop demo", "events", "events -f", "top", "metrics", "ui --no-browser", "stack demo", "profile demo --cpu 1s",
		"config show demo", "worlds",
		"plan -f testdata/world.yaml", "apply -f testdata/world.yaml", "delete demo", "where demo/0", "doctor",
		"exec demo -- true",
	}
}

func TestBusCommands_areAllThatNeedOne(t *testing.T) {
	var eachCommand func(c *cobra.Command)
	eachCommand = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			eachCommand(sub)
		}
		name := strings.TrimPrefix(c.CommandPath(), "castnet ")
		local := slices.Contains([]string{"help", "version", "env", "mcp"}, name) || strings.HasPrefix(name, "auth")
		if c.Runnable() && c.HasParent() && !local {
			require.True(t, slices.ContainsFunc(busCommands(), func(line string) bool {
				return strings.HasPrefix(line+" ", name+" ")
			}), name)
		}
	}
	eachCommand(rootCommand(&app.App{Printer: &output.Printer{}}))
}

// The bus has no server, or one that does not answer.
func TestGolden_busAway(t *testing.T) {
	t.Parallel()
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, frozen.Close()) }()
	for name, address := range map[string]string{"refused": "127.0.0.1:1", "frozen": frozen.Addr().String()} {
		timeout := map[string]string{"refused": "30s", "frozen": "3s"}[name]
		golden.Check(t, "bus-"+name, func(out *output.Printer) error {
			for _, r := range runAll(t, "nats://"+address, timeout, out.Width) {
				if _, err := out.Stdout.Write([]byte(strings.ReplaceAll(r, address, "10.0.0.7:4222"))); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// runAll runs all commands at the same time on a bus, and describes the end of each.
func runAll(t *testing.T, url, timeout string, width int) []string {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	lines := busCommands()
	ends := make([]string, len(lines))
	var all sync.WaitGroup
	for i, line := range lines {
		all.Go(func() {
			var out bytes.Buffer
			printer := &output.Printer{Format: output.Table, Stdout: &out, Stderr: &out, OutTTY: true, Width: width}
			env := map[string]string{"NATS_URL": url, "NATS_TOKEN": "secret", "HOME": t.TempDir()}
			code := run(ctx, &app.App{Getenv: func(key string) string { return env[key] }, Printer: printer},
				append(strings.Fields(line), "--timeout", timeout))
			ends[i] = fmt.Sprintf("$ castnet %s\n%sexit code %d\n", line, &out, code)
		})
	}
	all.Wait()
	require.NoError(t, ctx.Err(), "every command ends in time")
	return ends
}

func TestWait_worldWithASilentHostIsNotLive(t *testing.T) {
	v := healthy()
	v.World = &inspect.World{Status: system.StatusLive}
	require.True(t, newWaitRecord(v, waitLive).isMet())
	v.Hosts[1] = inspect.Host{ID: hostB, State: "silent", Reason: "no answer", Since: ago(0)}
	require.False(t, newWaitRecord(v, waitLive).isMet(), "its system controller has not noticed")
}
