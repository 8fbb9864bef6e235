package system

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

const vectors = "testdata/vectors.golden"

// samples are the messages with every field set, by name.
func samples(t *testing.T) map[string]any {
	s := newScenario(t)
	host, proc, labels := s.host("a"), s.proc("w/3.1"), map[string]string{"k": "v"}
	extent := shape.Of("x", 4)
	spec := Spec{
		Name: "w", Shape: extent, PerHost: 2,
		Command: agent.Command{Path: "/bin/w", Args: []string{"-v"}, Env: []string{"K=v"}, Dir: "/tmp"},
		Labels:  labels, Limits: agent.Limits{Memory: 1 << 30}, Keep: true,
	}
	var port actor.PortRef[StopReport]
	require.NoError(t, port.UnmarshalText([]byte("client-000000000000c/0.0/client:_1")))
	state := ProcState{ID: proc, Health: HealthEnded, Reason: "why", Failed: []string{"counter"},
		Host: host.String(), Labels: labels}
	seat := HostAssignment{Host: host, Rank: 1, Incarnation: "l", Gen: 1, Labels: labels, OrderedIn: "b"}
	claim := agent.Claim{Epoch: 2, Owner: proc.Actor("owner")}
	giving := DetachRequest{Mesh: proc.Mesh, Claim: claim, Hosts: []subjects.HostID{host}, Lease: time.Minute,
		Display: "d", RestartPolicy: controller.RestartPolicy{
			Restart: actor.Transient, MaxRestarts: 2, Window: time.Minute, Backoff: time.Second,
			MaxBackoff: time.Minute, Spares: []subjects.HostID{host},
		}}
	return map[string]any{
		"UpsertRequest":   UpsertRequest{Spec: spec, DryRun: true},
		"NameReservation": NameReservation{proc.Mesh, proc},
		"UpsertResponse": UpsertResponse{World: "w", Mesh: proc.Mesh.String(), Status: StatusLive,
			Change: ChangeLabels},
		"JoinRequest": JoinRequest{World: "w", Host: &HostJoin{host, 1, "l"},
			Proc: &ProcJoin{proc, ModeManager}, Labels: labels},
		"JoinResponse":     JoinResponse{World: "w", Execution: "e", First: 2, Count: 2},
		"LeaveRequest":     LeaveRequest{Host: &host, Proc: &proc},
		"HeartbeatRequest": HeartbeatRequest{Proc: proc, Failed: []string{"counter"}},
		"Filter":           Filter{Worlds: []string{"w"}, WorldLabels: labels, ProcLabels: labels},
		"Snapshot": Snapshot{Execution: "e", Epoch: 7, Durable: true, Worlds: []WorldState{{
			Name: "w", Status: StatusUnhealthy, Reason: "why", StatusAge: time.Second, Mesh: proc.Mesh.String(),
			Shape: &extent, PerHost: 2, Labels: labels,
			Hosts: []HostState{{Rank: 1, ID: host, First: 2, Count: 2, Lost: "why", Labels: labels}},
			Procs: []ProcState{state}, StoppingReason: "why", EvictionIn: time.Minute,
			Left: map[int]subjects.HostID{1: host},
		}}, Detached: []DetachedState{{Mesh: proc.Mesh, Claim: claim, Age: time.Second, Reason: "why",
			Lease: time.Minute}}},
		"DetachRequest":  giving,
		"DetachResponse": DetachResponse{proc.Mesh, claim, true},
		"AdoptRequest":   AdoptRequest{proc.Mesh, claim},
		"AdoptResponse":  AdoptResponse{giving, claim},
		"WorldHealth":    WorldHealth{[]ProcState{state}},
		"StopRequest": StopRequest{Worlds: []string{"w"}, Timeout: time.Second, Reason: "why",
			Report: &port, All: true},
		"StopResponse": StopResponse{Worlds: []string{"w"}, Skipped: map[string]string{"v": "why"}},
		"StopReport": StopReport{[]WorldStopped{{World: "w", Stopped: 1, Aborted: 2,
			Silent: []string{"host a"}, Killed: []string{"rank 1: failed"}}}},
		"Location": Location{World: "w", Proc: proc, Host: host.String(), Health: HealthEnded, Reason: "why"},
		"Record": Record{
			Name: "w", Spec: &spec, Mesh: proc.Mesh.String(), Labels: labels, Hosts: []HostAssignment{seat},
			StoppingReason: "why", Gens: map[int]int{1: 2},
			Procs: []SelfJoined{{ID: proc, Mode: ModeManager, Labels: labels}},
			Detached: &DetachedRecord{DetachRequest: giving, OriginalClaim: claim, CurrentClaim: claim,
				FormerClaims: []agent.Claim{claim}, AdopterClaim: &claim, By: subjects.Anon()},
			Reserved: &NameReservation{proc.Mesh, proc},
		},
	}
}

func TestMessages_matchTheGoldenVectors(t *testing.T) {
	var lines []string
	all := samples(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		v := all[name]
		requireFull(t, name, reflect.ValueOf(v))
		b, err := wire.Marshal(v)
		require.NoError(t, err, name)
		j, err := json.Marshal(v)
		require.NoError(t, err, name)
		lines = append(lines, fmt.Sprintf("%s %s %s\n", name, hex.EncodeToString(b), j))
		for _, decode := range []func(any) error{
			func(v any) error { return wire.Unmarshal(b, v) }, func(v any) error { return json.Unmarshal(j, v) },
		} {
			back := reflect.New(reflect.TypeOf(v))
			require.NoError(t, decode(back.Interface()), name)
			again, err := wire.Marshal(back.Elem().Interface())
			require.NoError(t, err, name)
			require.Equal(t, b, again, name)
		}
	}
	got := strings.Join(lines, "")
	if *update {
		require.NoError(t, os.WriteFile(vectors, []byte(got), 0o600))
	}
	want, err := os.ReadFile(vectors)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "messages are append-only")
}

// requireFull fails for a new field without a value.
func requireFull(t *testing.T, at string, v reflect.Value) {
	t.Helper()
	require.False(t, v.IsZero(), "%s is not set", at)
	switch {
	case v.Kind() == reflect.Pointer:
		requireFull(t, at, v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		requireFull(t, at, v.Index(0))
	case v.Kind() == reflect.Struct && strings.HasSuffix(v.Type().PkgPath(), "system"):
		for i := range v.NumField() {
			requireFull(t, at+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}

func TestMessages_haveNarrowLimits_WIRE7(t *testing.T) {
	long := append([]byte{0xa1, 0x19, 0x03, 0xe7, 0x9a, 0, 1, 0, 1}, make([]byte, 1<<16+1)...) // field 999
	all := samples(t)
	all["Report"] = controller.Report{}
	for name, v := range all {
		err := wire.Unmarshal(long, reflect.New(reflect.TypeOf(v)).Interface())
		require.ErrorContains(t, err, "exceeded max number of elements 65536", name)
	}
}

func TestMessages_manyProcsAreEncodedInBlocks_WIRE7(t *testing.T) {
	snapshot := samples(t)["Snapshot"].(Snapshot)
	w := &snapshot.Worlds[0]
	w.Procs, w.Hosts = slices.Repeat(w.Procs, 70_000), slices.Repeat(w.Hosts, 66_000)
	b, err := wire.Marshal(snapshot)
	require.NoError(t, err)
	var back Snapshot
	require.NoError(t, wire.Unmarshal(b, &back))
	require.True(t, reflect.DeepEqual(snapshot, back))
}

func TestSpec_changesAreTheKeysThatDifferExceptLabels(t *testing.T) {
	a := Spec{Name: "w", Shape: shape.Of("x", 1), PerHost: 1, Labels: map[string]string{"a": "b"}}
	b := a
	b.Labels = nil
	changes, err := a.changes(b)
	require.NoError(t, err)
	require.Empty(t, changes, "labels are apart")
	b.Command.Args = []string{"-v"}
	b.Limits.Pids = 7
	changes, err = a.changes(b)
	require.NoError(t, err)
	require.Equal(t, []string{"command", "limits"}, changes)
}
