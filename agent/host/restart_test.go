package host_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

// writerFunc is a function as a writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// keeper is a host with a state directory, and a kept mesh of one proc on it.
type keeper struct {
	*host.Host
	options host.Options
	mesh    agent.Mesh
	at      actor.Ref[agent.Agent]
}

func newKeeper(t *testing.T, r *rig, wants config.Snapshot) keeper {
	t.Helper()
	k := keeper{options: r.options(t, "b"), mesh: r.mesh(t, 1)}
	k.options.StateDir = t.TempDir()
	var err error
	k.Host, err = host.Start(t.Context(), k.options)
	require.NoError(t, err)
	k.mesh.Keep, k.mesh.Hosts = true, []subjects.HostID{k.ID()}
	k.at = agent.Of(k.ID().Proc()).Via(r.client)
	o, err := agent.Create.Call(t.Context(), k.at,
		agent.CreateRequest{Procs: &k.mesh, Wait: true, Config: wants})
	require.NoError(t, err)
	require.Equal(t, all(1, agent.Status{Phase: agent.Running}), o)
	return k
}

// proc is the state of the proc.
func (k keeper) proc(t *testing.T) agent.State {
	t.Helper()
	all, err := agent.Get.Call(t.Context(), k.at, agent.GetRequest{ID: k.mesh.ID.String()})
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// killHost ends the host without its proc, and leaves some of its records.
func (k keeper) killHost(t *testing.T, records map[string][]byte) {
	t.Helper()
	_ = k.options.Bus.Close(t.Context()) // it says nothing more
	require.NoError(t, k.Forsake())
	_ = k.Close(t.Context()) // it has no bus to say goodbye on
	for path := range recordsIn(t, k.options.StateDir) {
		require.NoError(t, os.Remove(path))
	}
	for path, text := range records {
		require.NoError(t, os.WriteFile(path, text, 0o600))
	}
}

// recordsIn are the records of procs in a state directory.
func recordsIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.proc.json"))
	require.NoError(t, err)
	records := map[string][]byte{}
	for _, path := range paths {
		records[path], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	return records
}

// The client's configuration of its procs also applies on the next host.
func TestAdopt_procThatDoesNotAnswerInTimeIsKilled_HOST10(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k := newKeeper(t, r, config.Snapshot{Values: map[string]string{config.ProcReadyTimeout.String(): "29m"}})
	pid := k.proc(t).Proc.PID
	records := recordsIn(t, k.options.StateDir)
	require.Len(t, records, 1)
	// the time applies to the next host only: a launch takes longer on a busy machine
	for path, text := range records {
		require.Contains(t, string(text), `"29m"`)
		records[path] = bytes.ReplaceAll(text, []byte(`"29m"`), []byte(`"1s"`))
	}
	proctest.Suspend(t, pid)
	k.killHost(t, records)

	next := r.options(t, "b")
	next.StateDir = k.options.StateDir
	second, err := host.Start(t.Context(), next)
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close(context.Background())) }()
	require.Eventually(t, func() bool { // the link to who is dead ends with the first message
		after, err := agent.Get.Call(t.Context(), k.at, agent.GetRequest{ID: k.mesh.ID.String()})
		return err == nil && strings.HasPrefix(after[0].Status.Reason, "cannot verify the adopted process")
	}, 20*time.Second, 20*time.Millisecond)
	_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // this process here has launched it
}

// A host dies before it has recorded a proc. The next host, at the same address, does not know that
// proc. The old host has ended before the new one is visible, and no message of the new one counts
// as one of the old.
func TestRestart_procAfterItsHostsDeathIsReachableAtOnce_HOST10(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	k := newKeeper(t, r, config.Snapshot{})
	proc := agent.Of(k.mesh.ProcID(0, 0)).Via(r.client)
	soon, cancel := context.WithTimeout(t.Context(), 15*time.Second) // who is not heard is not for 30 s
	defer cancel()
	insist := func(ask func() error) {
		t.Helper()
		err := ask()
		for err != nil && soon.Err() == nil { // the link to who is dead ends with the first message
			err = ask()
		}
		require.NoError(t, err)
	}
	ping := func() error {
		_, err := agent.Ping.Call(soon, proc, actor.None{})
		return err
	}
	insist(ping)
	before := k.proc(t)
	k.killHost(t, nil)

	frames := r.client.Space().Frame(k.ID().Proc().Process(), subjects.Anon())
	heard := false
	next := r.options(t, "b")
	next.StateDir = k.options.StateDir
	next.Log = zerolog.New(writerFunc(func(line []byte) (int, error) {
		if strings.Contains(string(line), "killed an orphaned process") {
			heard = true
			_, err := r.client.Bus().Control().Request(soon, bus.Msg{Subject: frames})
			require.ErrorIs(t, err, bus.ErrNoResponders)
		}
		return len(line), nil
	})).Level(zerolog.WarnLevel)
	second, err := host.Start(t.Context(), next)
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close(context.Background())) }()
	require.True(t, heard, "leftovers end before the new host is visible")
	pid, err := syscall.Wait4(before.Proc.PID, nil, syscall.WNOHANG, nil)
	require.NoError(t, err)
	require.Equal(t, before.Proc.PID, pid,
		"the old one is an unreaped zombie of this process")
	insist(func() error {
		_, err := agent.Create.Call(soon, k.at, agent.CreateRequest{Procs: &k.mesh, Wait: true})
		return err
	})
	after := k.proc(t)
	require.NotEqual(t, before.Proc.PID, after.Proc.PID)
	require.Equal(t, before.Gen, after.Gen)
	insist(ping)
}

func TestStateDir_keepsLogsOfTheNewestEndedMeshes(t *testing.T) {
	t.Parallel()
	for _, state := range []string{t.TempDir(), ""} { // which a host with a log directory alone has not
		keepsNewestLogs(t, state)
	}
}

func keepsNewestLogs(t *testing.T, state string) {
	r := newRig(t)
	o := r.options(t, "b")
	o.StateDir, o.Config = state, &config.Config{}
	o.RunDir = filepath.Join(t.TempDir(), "logs")
	require.NoError(t, config.HostEndedHistory.Set(o.Config, 1))
	require.NoError(t, os.Mkdir(o.RunDir, 0o700))
	old, recent := testproc.MeshID(t, "old"), testproc.MeshID(t, "recent")
	paths := map[string]time.Duration{"notes": 3 * time.Hour}
	for _, stream := range []string{"stdout", "stderr"} {
		paths[old.String()+"_0-0."+stream+".log"] = 2 * time.Hour
		paths[recent.String()+"_1-0."+stream+".log"] = time.Hour
	}
	for name, age := range paths {
		path := filepath.Join(o.RunDir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-age)))
	}
	h, err := host.Start(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, h.Close(t.Context()))
	left, err := os.ReadDir(o.RunDir)
	require.NoError(t, err)
	var names []string
	for _, f := range left {
		names = append(names, f.Name())
	}
	require.ElementsMatch(t, []string{
		"notes", recent.String() + "_1-0.stdout.log", recent.String() + "_1-0.stderr.log",
	}, names)
}

func TestRunDir_belongsToOneHost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options(t, "b")
	h, err := host.Start(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, o.RunDir, h.RunDir())
	twin := r.options(t, "c")
	twin.RunDir = o.RunDir
	_, err = host.Start(t.Context(), twin)
	require.ErrorContains(t, err, o.RunDir+": another hostd uses it: want a --log-dir for each")
	require.NoError(t, h.Close(t.Context()))
	h, err = host.Start(t.Context(), twin)
	require.NoError(t, err)
	require.NoError(t, h.Close(t.Context()))
}

func TestRunDir_temporaryOnesOfKilledHostsAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := newRig(t)
	start := func(label string) *host.Host {
		o := r.options(t, label)
		o.RunDir = ""
		h, err := host.Start(t.Context(), o)
		require.NoError(t, err)
		return h
	}
	killed := filepath.Join(os.TempDir(), "castnet-x-1")
	require.NoError(t, os.MkdirAll(filepath.Join(killed, "sub"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(killed, "m.stdout.log"), []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(killed, ".hostd"), nil, 0o600))
	other := filepath.Join(os.TempDir(), "castnet-sources") // without the mark it is not a host's
	require.NoError(t, os.Mkdir(other, 0o700))
	first, second := start("b"), start("c")
	require.NoDirExists(t, killed)
	require.DirExists(t, other)
	require.DirExists(t, first.RunDir(), "it lives")
	require.NoError(t, first.Close(t.Context()))
	require.NoError(t, second.Close(t.Context()))
	require.NoDirExists(t, first.RunDir())
}
