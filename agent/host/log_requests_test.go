package host_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// follow asks for the lines after the positions of earlier replies, and adds the new ones.
func (r *rig) follow(t *testing.T, m agent.Mesh, f agent.LogFollow) ([]agent.LogTail, error) {
	t.Helper()
	return agent.Logs.Call(testkit.Soon(t), r.agent(), agent.LogsRequest{ID: m.ID.String(), Lines: 1, Follow: &f})
}

func linesOf(tails []agent.LogTail) (all []string) {
	for _, t := range tails {
		all = append(all, t.Lines...)
	}
	return all
}

func positions(tails []agent.LogTail) (all []agent.LogPosition) {
	for _, t := range tails {
		all = append(all, t.Position())
	}
	return all
}

func TestLogs_followReturnsEachLineOnce_HOST18(t *testing.T) {
	t.Parallel()
	r := newRig(t, withShell)
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	m := r.shell(t, "echo one; printf two; read -r line < "+fifo+"; echo \"$line\"; exec sleep 600")
	none, err := r.follow(t, m, agent.LogFollow{})
	require.NoError(t, err)
	require.Empty(t, none, "an unknown mesh is no error")
	_, err = agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	one, err := r.follow(t, m, agent.LogFollow{Wait: testkit.Patience})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, linesOf(one), "a line has an end")
	require.WithinDuration(t, time.Now(), one[0].Time(0), testkit.Patience)
	tail, err := r.follow(t, m, agent.LogFollow{Tail: true})
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, linesOf(tail))
	require.Len(t, tail, 2, "positions of all outputs")

	none, err = r.follow(t, m, agent.LogFollow{From: positions(tail), Wait: 50 * time.Millisecond})
	require.NoError(t, err)
	require.Empty(t, none)
	next := make(chan []agent.LogTail)
	go func() {
		tails, _ := r.follow(t, m, agent.LogFollow{From: positions(tail), Wait: testkit.Patience})
		next <- tails
	}()
	require.NoError(t, os.WriteFile(fifo, []byte(", and on\n"), 0o600))
	require.Equal(t, []string{"two, and on"}, linesOf(testkit.Next(t, next)))
	_, err = r.follow(t, m, agent.LogFollow{From: []agent.LogPosition{{Offset: -1}}})
	require.ErrorContains(t, err, "cannot search logs: offset -1 of rank 0: want 0 or more")
}

func TestLogs_waitingRequestsLeaveNothing_HOST18(t *testing.T) {
	t.Parallel()
	r := newRig(t, withShell)
	m := r.shell(t, "exec sleep 600")
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	wait := agent.LogsRequest{ID: m.ID.String(), Follow: &agent.LogFollow{Wait: time.Minute}}
	for range 3 { // more than a host keeps
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range host.MaxLogRequests {
			callers.Go(func() {
				for ctx.Err() == nil { // a burst may find a full mailbox
					_, _ = agent.Logs.Call(ctx, r.agent(), wait)
				}
			})
		}
		testkit.Until(t, "all wait", func() bool {
			_, err := r.follow(t, m, agent.LogFollow{})
			return err != nil && strings.Contains(err.Error(), "requests for logs are waiting already")
		})
		cancel()
		callers.Wait()
		testkit.Until(t, "none waits", func() bool {
			_, err := r.follow(t, m, agent.LogFollow{})
			return err == nil
		})
	}
}

func TestLogs_endingHostAnswersWithTheLastLines_HOST18(t *testing.T) {
	t.Parallel()
	r := newRig(t, withShell)
	m := r.shell(t, "trap 'echo good-bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	ready, err := r.follow(t, m, agent.LogFollow{Wait: testkit.Patience})
	require.NoError(t, err)
	require.Equal(t, []string{"ready"}, linesOf(ready))
	handled := func() uint64 {
		i, err := r.client.Inspect(t.Context(), r.agent().ID())
		require.NoError(t, err)
		return i.Handled
	}
	before := handled()
	last := make(chan []agent.LogTail)
	go func() {
		tails, _ := r.follow(t, m, agent.LogFollow{From: positions(ready), Delay: time.Minute})
		last <- tails
	}()
	testkit.Until(t, "the request waits", func() bool { return handled() > before })
	r.close()
	require.Equal(t, []string{"good-bye"}, linesOf(testkit.Next(t, last)))
}

func TestLogs_plainClientsFollowByRequests_HOST18(t *testing.T) {
	t.Parallel()
	r := newRig(t, withShell)
	m := r.shell(t, "echo one; exec sleep 600")
	_, err := agent.Create.Call(t.Context(), r.agent(), agent.CreateRequest{Procs: &m})
	require.NoError(t, err)
	subject := r.client.Space().HostRead(r.host.ID().String(), agent.Logs.Name(), subjects.Anon())
	body := `{"id":"` + m.ID.String() + `","follow":{"wait":5000000000}}`
	reply, err := r.client.Bus().Control().Request(testkit.Soon(t), bus.Msg{Subject: subject, Data: []byte(body)})
	require.NoError(t, err)
	var tails []agent.LogTail
	require.NoError(t, json.Unmarshal(reply.Data, &tails), string(reply.Data))
	require.Equal(t, []string{"one"}, linesOf(tails))
	require.EqualValues(t, 4, tails[0].Next)
}

func TestLogs_hostMirrorsOutput(t *testing.T) {
	t.Parallel()
	out, err := &testkit.Transcript{}, &testkit.Transcript{}
	r := newRig(t, withShell, func(o *host.Options) { o.Stdout, o.Stderr = out, err })
	for _, mirrored := range []string{"true", "false"} {
		m := r.shell(t, "echo said; echo grumbled >&2; exit 3")
		c := agent.CreateRequest{Procs: &m}
		c.Config.Values = map[string]string{"logs.mirror": mirrored, "logs.forward": "false"}
		_, failed := agent.Create.Call(t.Context(), r.agent(), c)
		require.NoError(t, failed)
		r.wait(t, m, agent.Stopped)
		if mirrored == "true" {
			require.Equal(t, "["+m.ProcID(0, 0).String()+"] said", out.Line(t))
			require.Equal(t, "["+m.ProcID(0, 0).String()+"] grumbled", err.Line(t))
		}
	}
	r.close()
	require.Empty(t, out.Unread()+err.Unread())
}
