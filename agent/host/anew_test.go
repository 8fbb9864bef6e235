package host_test

import (
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
	"github.com/castnet-io/castnet/subjects"
)

// writerFunc is a function as a writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// dies ends a host without its procs, and leaves such records of them.
func dies(t *testing.T, h *host.Host, o host.Options, records map[string][]byte) {
	t.Helper()
	_ = o.Bus.Close(t.Context()) // it says nothing more
	require.NoError(t, h.Forsake())
	_ = h.Close(t.Context()) // it has no bus to say goodbye on
	for path := range recordsIn(t, o.StateDir) {
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

// What a client wants of its procs is in force also on the next host.
func TestHOST11_anAdoptedProcThatDoesNotAnswerInItsClientsTimeIsEnded(t *testing.T) {
	r := newRig(t)
	o := r.options(t, "b")
	o.StateDir = t.TempDir()
	first, err := host.Start(t.Context(), o)
	require.NoError(t, err)
	m := r.mesh(t, 1)
	m.Keep, m.Hosts = true, []subjects.HostID{first.ID()}
	at := agent.Of(first.ID().Proc()).Via(r.client)
	wants := config.Snapshot{Values: map[string]string{config.HostReady.String(): "1s"}}
	_, err = agent.Create.Call(t.Context(), at, agent.Creation{Procs: &m, Wait: true, Config: wants})
	require.NoError(t, err)
	before, err := agent.Get.Call(t.Context(), at, agent.Query{ID: m.ID.String()})
	require.NoError(t, err)
	records := recordsIn(t, o.StateDir)
	require.Len(t, records, 1)
	require.NoError(t, syscall.Kill(before[0].Proc.PID, syscall.SIGSTOP))
	dies(t, first, o, records)

	next := r.options(t, "b")
	next.StateDir = o.StateDir
	second, err := host.Start(t.Context(), next)
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close(context.Background())) }()
	require.Eventually(t, func() bool { // the link to who is dead ends with the first message
		after, err := agent.Get.Call(t.Context(), at, agent.Query{ID: m.ID.String()})
		return err == nil && strings.HasPrefix(after[0].Status.Reason, "adopted, but not known to be the proc")
	}, 20*time.Second, 20*time.Millisecond)
	_, _ = syscall.Wait4(before[0].Proc.PID, nil, syscall.WNOHANG, nil) // this process here has launched it
}

// A host that dies before it has written down a proc leaves one that the next host does not know, and starts anew, with
// the same address. The old one has ended before the new host can be heard of, and what the new one says is not taken
// for what the old one has said already.
func TestHOST10_aProcThatIsStartedAnewAfterItsHostsDeathIsHeardAtOnce(t *testing.T) {
	r := newRig(t)
	o := r.options(t, "b")
	o.StateDir = t.TempDir()
	first, err := host.Start(t.Context(), o)
	require.NoError(t, err)
	m := r.mesh(t, 1)
	m.Keep, m.Hosts = true, []subjects.HostID{first.ID()}
	at := agent.Of(first.ID().Proc()).Via(r.client)
	_, err = agent.Create.Call(t.Context(), at, agent.Creation{Procs: &m, Wait: true})
	require.NoError(t, err)
	proc := agent.Of(m.Proc(0, 0)).Via(r.client)
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
	before, err := agent.Get.Call(t.Context(), at, agent.Query{ID: m.ID.String()})
	require.NoError(t, err)
	dies(t, first, o, nil)

	frames := r.client.Space().Frame(first.ID().Proc().Process(), subjects.Anon)
	heard := false
	next := r.options(t, "b")
	next.StateDir = o.StateDir
	next.Log = zerolog.New(writerFunc(func(line []byte) (int, error) {
		if strings.Contains(string(line), "an earlier host left it") {
			heard = true
			_, err := r.client.Bus().Control().Request(soon, bus.Msg{Subject: frames})
			require.ErrorIs(t, err, bus.ErrNoResponders)
		}
		return len(line), nil
	})).Level(zerolog.WarnLevel)
	second, err := host.Start(t.Context(), next)
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Close(context.Background())) }()
	require.True(t, heard, "what it left is ended before anybody can speak to it")
	pid, err := syscall.Wait4(before[0].Proc.PID, nil, syscall.WNOHANG, nil)
	require.NoError(t, err)
	require.Equal(t, before[0].Proc.PID, pid, "the old one has ended: who launched it is this process here, and nobody has reaped it")
	insist(func() error {
		_, err := agent.Create.Call(soon, at, agent.Creation{Procs: &m, Wait: true})
		return err
	})
	after, err := agent.Get.Call(t.Context(), at, agent.Query{ID: m.ID.String()})
	require.NoError(t, err)
	require.NotEqual(t, before[0].Proc.PID, after[0].Proc.PID)
	require.Equal(t, before[0].Gen, after[0].Gen)
	insist(ping)
}
