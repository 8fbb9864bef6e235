package host_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
)

// heard collects the output of a mesh, by stream.
type heard struct {
	mu    sync.Mutex
	lines map[string][]string
}

func (r *rig) listen(t *testing.T, m agent.Mesh) *heard {
	t.Helper()
	h := &heard{lines: map[string][]string{}}
	space := r.client.Space()
	_, err := r.client.Bus().Data().Subscribe(space.Logs(m.ID), func(msg bus.Msg) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if s, err := space.Parse(msg.Subject); err == nil {
			h.lines[s.Stream] = append(h.lines[s.Stream], strings.Split(string(msg.Data), "\n")...)
		}
	})
	require.NoError(t, err)
	return h
}

// soFar is the output that the server had at the time of the call.
func (h *heard) soFar(t *testing.T, r *rig) map[string][]string {
	t.Helper()
	reached := make(chan struct{})
	r.client.Bus().Data().AfterReceived(func() { close(reached) })
	select {
	case <-reached:
	case <-time.After(20 * time.Second):
		t.Fatal("the pump does not get there")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.lines)
}

func withShell(o *host.Options) { o.Allow = []string{"/bin/sh"} }

func TestLogs_ofAProcPrecedeItsEnd_HOST3(t *testing.T) {
	t.Parallel()
	r := newRig(t, withShell)
	for range 5 {
		m := r.shell(t, "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; echo last words >&2; "+
			"printf unfinished; exit 3")
		h := r.listen(t, m)
		_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
		require.NoError(t, err)
		end := testkit.Next(t, r.events)
		require.Equal(t, "failed", end.Status)
		if time.Since(end.At) >= 50*time.Millisecond { // its end may have waited for the output no longer
			require.Eventually(t, func() bool {
				got := h.soFar(t, r)
				return len(got["stdout"]) == 501 && len(got["stderr"]) == 1
			}, 20*time.Second, 10*time.Millisecond)
		}
		got := h.soFar(t, r)
		require.Len(t, got["stdout"], 501)
		require.Equal(t, []string{"line 499", "unfinished"}, got["stdout"][499:])
		require.Equal(t, []string{"last words"}, got["stderr"])

		tails, err := agent.Logs.Call(t.Context(), r.agent(), agent.LogsRequest{ID: m.ID.String(), Lines: 2})
		require.NoError(t, err)
		require.Len(t, tails, 2)
		require.Equal(t, []any{"stdout", []string{"line 499", "unfinished"}}, []any{tails[0].Stream, tails[0].Lines})
		require.Equal(t, []any{"stderr", []string{"last words"}}, []any{tails[1].Stream, tails[1].Lines},
			"kept after death")
		q := agent.LogsRequest{ID: m.ID.String(), Lines: 9, Since: end.At.Add(-time.Minute), Grep: "^line .*99$|words"}
		tails, err = agent.Logs.Call(t.Context(), r.agent(), q)
		require.NoError(t, err)
		require.Equal(t, []string{"line 99", "line 199", "line 299", "line 399", "line 499"}, tails[0].Lines)
		require.Equal(t, []string{"last words"}, tails[1].Lines)
		require.WithinDuration(t, end.At, tails[0].Time(4), 10*time.Second)
		q.Since = time.Now().Add(time.Hour)
		tails, err = agent.Logs.Call(t.Context(), r.agent(), q)
		require.NoError(t, err)
		require.Empty(t, append(tails[0].Lines, tails[1].Lines...))
		q.Grep = "("
		_, err = agent.Logs.Call(t.Context(), r.agent(), q)
		require.ErrorContains(t, err, "cannot search logs: error parsing regexp")
	}
}

func TestLogs_precedeTheEndWhenTheHostCloses_HOST3(t *testing.T) {
	t.Parallel()
	r := newRig(t, withShell)
	m := r.shell(t, "trap 'echo good-bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	h := r.listen(t, m)
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(h.soFar(t, r)["stdout"]) == 1 }, 20*time.Second,
		10*time.Millisecond)
	r.close()
	require.Equal(t, "stopped", testkit.Next(t, r.events).Status)
	require.Equal(t, []string{"ready", "good-bye"}, h.soFar(t, r)["stdout"])
}

func TestLogs_floodIsBoundedOnBusAndDisk(t *testing.T) {
	t.Parallel()
	var dir string
	r := newRig(t, withShell, func(o *host.Options) { o.LogCap, dir = 1<<20, o.RunDir })
	m := r.shell(t, "yes 'one of very many lines' | head -c 199999996; echo the end; exit 3")
	h := r.listen(t, m)
	begun := time.Now()
	o := r.create(t, m)
	require.Contains(t, o[0].Status.Reason, "exited with code 3")
	var lines []string
	require.Eventually(t, func() bool { // the end of a proc does not wait long for a flood
		lines = h.soFar(t, r)["stdout"]
		return len(lines) > 0 && lines[len(lines)-1] == "the end"
	}, 20*time.Second, 10*time.Millisecond)
	published, notices := 0, 0
	for _, l := range lines {
		published += len(l) + 1
		if strings.HasPrefix(l, "[castnet] ") {
			notices++
		}
	}
	seconds := int(time.Since(begun).Seconds()) + 2 // windows begin anywhere
	require.LessOrEqual(t, published, seconds*(2<<20)+1<<20)
	require.Positive(t, notices, "the stream reports omitted lines")
	var taken int64
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		var st syscall.Stat_t
		require.NoError(t, syscall.Stat(filepath.Join(dir, f.Name()), &st))
		taken += st.Blocks * 512
	}
	require.LessOrEqual(t, taken, int64(3<<20))
	tails, err := agent.Logs.Call(t.Context(), r.agent(), agent.LogsRequest{ID: m.ID.String(), Lines: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"one of very many lines", "the end"}, tails[0].Lines)
	t.Logf("published %d lines, %d KiB of 195312 KiB; %d KiB on disk", len(lines), published>>10, taken>>10)
}

func TestF23_readOnlyDiskRunsProcsAndReportsLostLogs(t *testing.T) {
	t.Parallel()
	var dir string
	r := newRig(t, withShell, func(o *host.Options) { dir = o.RunDir })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_RDONLY, "size=1m"); err == syscall.EPERM {
		t.Skip("mounting a disk takes CAP_SYS_ADMIN")
	} else {
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	m := r.shell(t, "echo nobody hears this; exit 3")
	h := r.listen(t, m)
	o := r.create(t, m)
	require.Equal(t, agent.Status{Phase: agent.Failed, Reason: "exited with code 3"}, o[0].Status)
	got := h.soFar(t, r)
	require.Empty(t, got["stdout"])
	require.Len(t, got["stderr"], 1)
	require.Contains(t, got["stderr"][0], "[castnet] the output of this proc is not kept: log file: open "+
		fmt.Sprint(dir))
	require.Contains(t, got["stderr"][0], "read-only file system")
	tails, err := agent.Logs.Call(t.Context(), r.agent(), agent.LogsRequest{ID: m.ID.String(), Lines: 2})
	require.NoError(t, err)
	require.Len(t, tails, 2)
	for _, tail := range tails {
		require.Len(t, tail.Lines, 1)
		require.Contains(t, tail.Lines[0], "[castnet] the output of this proc is not kept: ", "later, too")
	}
	require.Contains(t, r.logs.String(), "cannot keep the output of a proc")
	testkit.Until(t, "the host says so", func() bool {
		info, err := agent.Info.Call(t.Context(), r.agent(), actor.None{})
		return err == nil && info.LogTrouble == "cannot write to "+dir+": read-only file system"
	})
	require.Equal(t, 1, strings.Count(r.logs.String(), "output of procs may be lost"))
}
