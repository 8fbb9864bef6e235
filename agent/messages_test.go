package agent_test

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var update = flag.Bool("update", false, "write the golden vectors of messages that have none yet")

const vectors = "testdata/vectors.txt"

// read parses a valid text.
func read[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](text string) T {
	var v T
	if err := P(&v).UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return v
}

// samples are the messages of the protocol with every field set, by name.
func samples() map[string]any {
	owner := read[subjects.ActorID]("client-000000000000c/0.0/controller-000000000000d")
	at, code := time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC), 3
	m := agent.Mesh{
		ID: read[subjects.MeshID]("workers-000000000000m"), Extent: shape.Of("host", 2).With("gpu", 3),
		Hosts: []subjects.HostID{read[subjects.HostID]("a-000000000000a"),
			read[subjects.HostID]("b-000000000000b")},
		PerHost: 3, Owner: owner, Build: "build",
		Command: agent.Command{Path: "/bin/worker", Args: []string{"-v"}, Env: []string{"K=v"}, Dir: "/tmp",
			Arg0: "me"},
	}
	m.Ranks = []agent.RankSpec{{Command: m.Command, CPUs: []int{1}, NUMANodes: []int{2}}}
	m.Limits = agent.Limits{Memory: 1 << 30, Pids: 64, CPU: 1.5, Files: 100, PinnedCPUs: 1}
	m.Restarts = true
	m.Revision, m.FirstGen = 4, 2
	m.PerProcess, m.Keep, m.NameTaken, m.World = 3, true, true,
		&agent.WorldShare{World: "workers", First: 3, Count: 2}
	claim := agent.Claim{Epoch: 3, Owner: owner}
	part := read[shape.Region]("host=1/3,gpu=3/1")
	status := agent.Status{Phase: agent.Failed, Reason: "no luck"}
	proc := &agent.ProcInfo{
		PID: 7, Started: at, ExitCode: &code, Signal: 9, StderrTail: []string{"oh"}, Host: "a-000000000000a",
		State: agent.ProcessKilled, Core: true, OOM: true, Program: "/bin/worker", Unenforced: []string{"cpu: no"},
		Adopted: true, GraceExpired: true, Survivors: true, CPUTime: time.Second, Memory: 1 << 20,
	}
	info := &agent.ActorInfo{Type: "counter", Queued: 1, Handled: 2, Current: "add",
		Endpoints: []string{"add(int64) int64"}, Managed: true,
		Schemas:  map[string]agent.Schema{"add": {In: `{"type":"integer"}`, Out: "{}"}},
		Reducers: map[string][]string{"add": {"last"}}, Latency: time.Millisecond}
	state := agent.State{ID: "m", Rank: 4, Status: status, Revision: 5, Proc: proc, Actor: info, Mesh: &m,
		Gen: 2, Lease: time.Minute, Claim: &claim, Principal: subjects.Program.Principal("alice")}
	rank := read[subjects.ProcID]("m-000000000000m/4.1")
	return map[string]any{
		"Bootstrap": agent.Bootstrap{
			Mesh: m, Rank: 4, Gen: 1, Host: owner, Nonce: "nonce", Root: "root", Namespace: "ns", LogLevel: "debug",
			ReadyTimeout: time.Second, AdoptionTimeout: time.Minute, FirstPacket: 1 << 40,
			Config: config.Snapshot{Values: map[string]string{"proc.ready-timeout": "2m"}},
			Bus: agent.BusSettings{
				URL: "nats://h:1", Token: "t", User: "u", Password: "p", Creds: "c", NKey: "n", CertFile: "cert",
				KeyFile: "key",
				CAFile:  "ca", TLSFirst: true, InboxPrefix: "_I", Insecure: true, JWT: "j", Seed: "s", Fingerprint: "f",
			},
		},
		"CreateRequest": agent.CreateRequest{
			Procs: &m, Lease: time.Minute, Gen: 2, Ranks: []int{4}, Wait: true, Epoch: 7,
			HostIncarnation: "2026", Claim: claim,
			Config: config.Snapshot{Values: map[string]string{"proc.ready-timeout": "2m"}},
			Actors: &agent.ActorSpec{Name: "counters-000000000000n", Type: "counter", Params: []byte{1}, Owner: owner,
				Linked: true},
		},
		"HostBootstrap": agent.HostBootstrap{
			ID: m.Hosts[0], Dir: "/tmp", Allow: []string{"/bin/worker"}, AllowUser: true,
			Labels: map[string]string{"zone": "z"},
			Bus: agent.BusSettings{
				URL: "nats://h:1", Token: "t", User: "u", Password: "p", Creds: "c", NKey: "n", CertFile: "cert",
				KeyFile: "key",
				CAFile:  "ca", TLSFirst: true, InboxPrefix: "_I", Insecure: true, JWT: "j", Seed: "s", Fingerprint: "f",
			},
			Root: "root", Namespace: "ns", LogLevel: "debug", ReadyTimeout: time.Second,
			Config:  config.Snapshot{Values: map[string]string{"proc.ready-timeout": "2m"}},
			Command: m.Command, Maker: subjects.Anon(),
		},
		"StopRequest": agent.StopRequest{ID: "m", Reason: "done", Grace: time.Second, Epoch: 7, Region: &part,
			Claim: claim},
		"GetRequest":     agent.GetRequest{ID: "m", Schemas: true, Usage: true},
		"WaitRequest":    agent.WaitRequest{ID: "m", Until: agent.Running, Region: &part, OrFailed: true},
		"StopAllRequest": agent.StopAllRequest{Reason: "done", Grace: time.Second, MaxConcurrent: 8},
		"CordonRequest":  agent.CordonRequest{Cordon: true, Reason: "repair"},
		"ModeDraining":   agent.DrainRequest{Mesh: "m", Reason: "repair", Grace: time.Second, MaxConcurrent: 8},
		"StopSummary": agent.StopSummary{Requested: 3, Ended: 2, Failed: 1,
			Remaining: []agent.State{state}, Moved: 4},
		"EvacuateRequest": agent.EvacuateRequest{Host: m.Hosts[0], Reason: "repair", Grace: time.Second,
			MaxConcurrent: 8},
		"EvacuateResponse":  agent.EvacuateResponse{Moved: 2},
		"RestartRequest":    agent.RestartRequest{Region: &part, Reason: "repair", Grace: time.Second, ID: "mesh"},
		"AwaitActorRequest": agent.AwaitActorRequest{Mesh: m.ID, Rank: 2, Gen: 3},
		"ResizeRequest": agent.ResizeRequest{ID: "mesh", Add: m.Hosts, Remove: 2, Reason: "done",
			Timeout: time.Minute},
		"InviteRequest":  agent.InviteRequest{ID: "mesh", Host: "c", TTL: time.Minute},
		"InviteResponse": agent.InviteResponse{Invitation: "secret"},
		"JoinRequest":    agent.JoinRequest{ID: "mesh", Host: m.Hosts[0], Key: []byte{1}, Proof: []byte{2}},
		"JoinResponse":   agent.JoinResponse{First: 4, Count: 2, Present: true},
		"ResizeResponse": agent.ResizeResponse{Mesh: m,
			Statuses: agent.Overlay{{First: 2, Count: 3, Status: status}}},
		"FollowRequest":     agent.FollowRequest{Mesh: m},
		"RevisionRequest":   agent.RevisionRequest{ID: "mesh", After: 4},
		"RevisionResponse":  agent.RevisionResponse{Mesh: &m, Growing: true},
		"ListEventsRequest": agent.ListEventsRequest{After: 3},
		"EventList": agent.EventList{Events: []actor.Event{{Kind: actor.KindProc, Status: "failed", Rank: 2,
			Seq: 7}}, Version: 7, More: true, Ranks: 4},
		"CastsRequest": agent.CastsRequest{Named: []string{"cast"}},
		"Casts": agent.Casts{More: 2, Casts: []agent.RunningCast{{ID: "cast", Actor: "a", Endpoint: "add", From: "f",
			Age: time.Second, Left: time.Minute, Region: part, Asked: shape.Interval(0, 4), Gone: shape.Interval(0, 1),
			Answered: shape.Interval(1, 1), Failed: shape.Interval(2, 1), Waiting: shape.Interval(3, 1)}}},
		"Lease": agent.Lease{ID: "m", TTL: time.Minute, Claim: claim, Mesh: &m},
		"RenewResult": agent.RenewResult{Statuses: agent.Overlay{{First: 2, Count: 3, Status: status}},
			Refused: []byte("no")},
		"LogsRequest": agent.LogsRequest{ID: "m", Lines: 5, Since: at, Grep: "x+", Region: &part,
			Follow: &agent.LogFollow{
				From: []agent.LogPosition{{Rank: 2, Gen: 1, Stream: "stderr", Offset: 70}}, Tail: true,
				Delay: time.Millisecond, Wait: time.Second, Bytes: 1 << 16,
			}},
		"LogTail": agent.LogTail{Rank: 2, Stream: "stderr", Lines: []string{"a", "b"},
			Times: []int64{1764150000000, 0}, Gen: 1, Next: 70, More: true, DroppedLines: 3, DroppedBytes: 40},
		"Overlay": agent.Overlay{{First: 2, Count: 3, Status: status}},
		"State":   state,
		"HostInfo": agent.HostInfo{ID: m.Hosts[0], Label: "a", Version: "v1", Build: "build", PID: 7, Procs: 2,
			Started: at, CPUs: 8,
			Labels: map[string]string{"zone": "z"}, Mode: agent.ModeCordoned, ModeReason: "repair", Local: true,
			TreeControl: "cgroup", Owner: "client-000000000000c", Epoch: 7, Now: at, Revision: 9, LogTrouble: "full"},
		"Heartbeat": agent.Heartbeat{Host: m.Hosts[0], Incarnation: 8, Seq: 9, Interval: time.Second,
			Lag:   time.Millisecond,
			Conns: []agent.Connection{{Server: "S", Client: 7}}, Closing: true, Goodbye: true, Reason: "repair",
			Mode:    agent.ModeLeaving,
			Gateway: read[subjects.ProcessID]("gateway-000000000000g_0-0")},
		"Connection":  agent.Connection{Server: "S", Client: 7},
		"ExecRequest": agent.ExecRequest{Command: []string{"uname", "-r"}, Timeout: time.Second, Proc: &rank},
		"ExecResult": agent.ExecResult{ExitCode: -1, Signal: 9, TimedOut: true, Stdout: "out", Stderr: "err",
			DroppedBytes: 7},
		"TakeHostRequest": agent.TakeHostRequest{Force: true, Release: true},
		"ReadyReport": agent.ReadyReport{Proc: read[subjects.ProcID]("workers-000000000000m/4.1"),
			Proof: []byte("proof"), Build: "build", Types: []string{"counter"}},
		"ReadoptRequest": agent.ReadoptRequest{Proc: read[subjects.ProcID]("workers-000000000000m/4.1"),
			Proof: []byte("proof"), Host: owner, Challenge: "challenge"},
		"ReadoptResponse": agent.ReadoptResponse{PID: 7, Proof: []byte("proof")},
	}
}

// golden is the committed file: name, CBOR in hex, JSON, a line each.
func golden(t *testing.T) map[string][2]string {
	t.Helper()
	text, err := os.ReadFile(vectors)
	require.NoError(t, err)
	by := map[string][2]string{}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), " ", 3)
		require.Len(t, parts, 3, line)
		by[parts[0]] = [2]string{parts[1], parts[2]}
	}
	return by
}

func TestMessages_matchTheGoldenVectors(t *testing.T) {
	known := golden(t)
	for name, v := range samples() {
		b, err := wire.Marshal(v)
		require.NoError(t, err, name)
		j, err := json.Marshal(v)
		require.NoError(t, err, name)
		if _, ok := known[name]; !ok && *update {
			appendVector(t, name+" "+hex.EncodeToString(b)+" "+string(j)+"\n")
			continue
		}
		require.Contains(t, known, name, "a message without a golden vector: run with -update")
		require.Equal(t, known[name][0], hex.EncodeToString(b), "%s: messages are append-only", name)
		if name != "Bootstrap" && name != "HostBootstrap" { // they have no readers but our own
			require.Equal(t, known[name][1], string(j), "%s: JSON names are append-only", name)
		}
		back := reflect.New(reflect.TypeOf(v))
		require.NoError(t, wire.Unmarshal(b, back.Interface()), name)
		again, err := wire.Marshal(back.Elem().Interface())
		require.NoError(t, err, name)
		require.Equal(t, b, again, name)
	}
}

// Messages of agents have narrow limits: no list is longer, in unknown fields too.
func TestMessages_haveNarrowLimits_WIRE7(t *testing.T) {
	for name, v := range samples() {
		long := append([]byte{0x9a, 0, 1, 0, 1}, make([]byte, 1<<16+1)...)
		if reflect.TypeOf(v).Kind() == reflect.Struct {
			long = append([]byte{0xa1, 0x19, 0x03, 0xe7}, long...) // field 999
		}
		err := wire.Unmarshal(long, reflect.New(reflect.TypeOf(v)).Interface())
		require.ErrorContains(t, err, "exceeded max number of elements 65536", name)
	}
}

func TestMessages_longListsAreEncodedInBlocks_WIRE7(t *testing.T) {
	t.Parallel()
	const n = 70_000
	all := samples()
	state, mesh := all["State"].(agent.State), *all["CreateRequest"].(agent.CreateRequest).Procs
	state.Actor, state.Mesh = nil, nil
	mesh.Hosts = slices.Repeat(mesh.Hosts[:1], n)
	overlay := agent.Overlay{}
	for i := range n {
		overlay = append(overlay, agent.Run{First: 2 * i, Count: 1, Status: agent.Status{Phase: agent.Running}})
	}
	for name, v := range map[string]any{
		"the states of a mesh": slices.Repeat([]agent.State{state}, n),
		"statuses":             overlay,
		"leases":               []agent.RenewResult{{Statuses: overlay}},
		"a creation": agent.CreateRequest{Procs: &mesh, Ranks: slices.Repeat([]int{4}, n),
			Claim: all["CreateRequest"].(agent.CreateRequest).Claim},
		"tails": slices.Repeat([]agent.LogTail{all["LogTail"].(agent.LogTail)}, n),
		"labels": agent.HostInfo{ID: mesh.Hosts[0], Started: state.Proc.Started,
			Labels: manyLabels(5000)},
	} {
		b, err := wire.Marshal(v)
		require.NoError(t, err, name)
		back := reflect.New(reflect.TypeOf(v))
		require.NoError(t, wire.Unmarshal(b, back.Interface()), name)
		require.True(t, reflect.DeepEqual(v, back.Elem().Interface()), name)
	}
}

func manyLabels(n int) map[string]string {
	labels := map[string]string{}
	for i := range n {
		labels[strconv.Itoa(i)] = "x"
	}
	return labels
}

func appendVector(t *testing.T, line string) {
	t.Helper()
	f, err := os.OpenFile(vectors, os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(line)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// Every field of a sample is set, so a new field without a vector fails the test.
func TestMessages_samplesSetEveryField(t *testing.T) {
	for name, v := range samples() {
		requireFull(t, name, reflect.ValueOf(v))
	}
}

func requireFull(t *testing.T, at string, v reflect.Value) {
	t.Helper()
	require.False(t, v.IsZero(), "%s is not set", at)
	switch {
	case v.Kind() == reflect.Pointer:
		requireFull(t, at, v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		requireFull(t, at, v.Index(0))
	case v.Kind() == reflect.Struct && strings.HasSuffix(v.Type().PkgPath(), "castnet/agent"):
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "First" || v.Type().Name() != "Run" {
				requireFull(t, at+"."+name, v.Field(i))
			}
		}
	}
}

func TestBootstrap_namesItsProc(t *testing.T) {
	b := samples()["Bootstrap"].(agent.Bootstrap)
	require.Equal(t, "workers-000000000000m/4.1.1", b.ProcID().String())
}

func TestCommand_acceptsJSONOfAForeignClient(t *testing.T) {
	var s agent.StopRequest
	require.NoError(t, json.Unmarshal([]byte(`{"id":"m","reason":"done","grace":1000000000}`), &s))
	require.Equal(t, agent.StopRequest{ID: "m", Reason: "done", Grace: time.Second}, s)
	var w agent.WaitRequest
	require.NoError(t, json.Unmarshal([]byte(`{"id":"m","until":"running"}`), &w))
	require.Equal(t, agent.Running, w.Until)
}

// fuzz decodes arbitrary bytes. Accepted ones encode again, always to the same bytes.
func fuzz[T any](f *testing.F, name string) {
	b, err := wire.Marshal(samples()[name])
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte{0xa0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var v T
		if wire.Unmarshal(data, &v) != nil {
			return
		}
		first, err := wire.Marshal(v)
		if err != nil {
			return // an ID that was left out has no text
		}
		var again T
		require.NoError(t, wire.Unmarshal(first, &again))
		second, err := wire.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}

func FuzzCreateRequest(f *testing.F) { fuzz[agent.CreateRequest](f, "CreateRequest") }
func FuzzBootstrap(f *testing.F)     { fuzz[agent.Bootstrap](f, "Bootstrap") }
