package mesh_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// programVariable makes the test binary run unhandledMain.
const programVariable = "MESH_TEST_UNHANDLED"

// unhandledStatus is the exit status of unhandledMain.
const unhandledStatus = 7

// unhandledMain is a program that handles no failure. One of its actors panics. After the end of
// its Net the program prints the errors of its verbs, by name, as JSON, and returns its own exit
// status.
func unhandledMain() int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*testkit.Patience)
	defer cancel()
	said, err := unhandled(ctx)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(said)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return unhandledStatus
}

func unhandled(ctx context.Context) (map[string]string, error) {
	const long = 2 * testkit.Patience
	conn, err := mesh.Connect(ctx, mesh.Options{
		Principal: mesh.UserPrincipal(subjects.Operator), Actors: []actor.Def{actors()},
	})
	if err != nil {
		return nil, err
	}
	hosts, err := conn.AwaitHosts(ctx, 1)
	if err != nil {
		return nil, err
	}
	if err := hosts.Take(ctx); err != nil {
		return nil, err
	}
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 2))
	if err != nil {
		return nil, err
	}
	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 0)
	if err != nil {
		return nil, err
	}
	list := mesh.StaticHosts(hosts.Hosts())
	free, err := hosts.Spawn(ctx, "others", shape.Of("gpu", 1)) // of a mesh that does not fail
	if err != nil {
		return nil, err
	}
	busy, err := mesh.Spawn(ctx, free, counter, "busy", 0)
	if err != nil {
		return nil, err
	}

	said := map[string]string{}
	var mu sync.Mutex
	try := func(verb string, do func(context.Context) error) {
		ctx, cancel := context.WithTimeout(ctx, testkit.Patience/3)
		defer cancel()
		err := do(ctx)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			said[verb] = "no error"
		case !errors.Is(err, actor.ErrFailed):
			said[verb] = "not ErrFailed: " + err.Error()
		default:
			said[verb] = err.Error()
		}
	}
	var begun sync.WaitGroup
	for verb, do := range map[string]func(context.Context) error{
		"a waiting call": func(ctx context.Context) error {
			_,
				err := hold.Call(ctx, busy.Ref(0), long)
			return err
		},
		"a waiting cast": func(ctx context.Context) error {
			_,
				err := cast.Gather(ctx, busy, hold, long)
			return err
		},
		"a waiting AwaitHosts": func(ctx context.Context) error {
			_,
				err := conn.AwaitHosts(ctx, 2)
			return err
		},
		"a waiting watch":          func(ctx context.Context) error { return last(busy.Watch(ctx)) },
		"a waiting watch of procs": func(ctx context.Context) error { return last(free.Watch(ctx)) },
		"a waiting watch of hosts": func(ctx context.Context) error { return last(hosts.Watch(ctx)) },
	} {
		begun.Go(func() { try(verb, do) })
	}
	if err := crash.Send(ctx, counters.Ref(1), actor.None{}); err != nil {
		return nil, err
	}
	select {
	case <-conn.Context().Done():
	case <-ctx.Done():
		return nil, errors.New("the failure of a rank did not end the Net")
	}
	begun.Wait()
	for verb, do := range map[string]func(context.Context) error{
		"the context": func(context.Context) error { return context.Cause(conn.Context()) },
		"Call":        func(ctx context.Context) error { _, err := add.Call(ctx, counters.Ref(0), 1); return err },
		"Post":        func(ctx context.Context) error { return add.Send(ctx, counters.Ref(0), 1) },
		"cast.Gather": func(ctx context.Context) error { _, err := cast.Gather(ctx, counters, add, 1); return err },
		"cast.Post":   func(ctx context.Context) error { return cast.Send(ctx, counters, add, 1) },
		"actor.Spawn": func(ctx context.Context) error {
			_,
				err := actor.Spawn(ctx, conn.Proc(), counter, "own", 0)
			return err
		},
		"mesh.Spawn": func(ctx context.Context) error {
			_,
				err := mesh.Spawn(ctx, free, counter, "more", 0)
			return err
		},
		"mesh.Find": func(ctx context.Context) error {
			_,
				err := mesh.Find[*Counter](ctx, procs, "counters")
			return err
		},
		"Hosts":      func(ctx context.Context) error { _, err := conn.Hosts(ctx); return err },
		"AwaitHosts": func(ctx context.Context) error { _, err := conn.AwaitHosts(ctx, 1); return err },
		"AllHosts":   func(ctx context.Context) error { _, err := conn.AllHosts(ctx); return err },
		"Inventory":  func(ctx context.Context) error { _, err := conn.Inventory(ctx); return err },
		"Meshes":     func(ctx context.Context) error { _, err := conn.Meshes(ctx); return err },
		"Lookup":     func(ctx context.Context) error { _, err := conn.Lookup(ctx, "workers"); return err },
		"TakeName":   func(ctx context.Context) error { _, err := conn.TakeName(ctx, "name"); return err },
		"Attach": func(ctx context.Context) error {
			_,
				err := conn.Attach(ctx, "mine", hosts.Hosts()...)
			return err
		},
		"Allocate": func(ctx context.Context) error {
			_, err := conn.Allocate(ctx, list, "mine", shape.Of("host", 1))
			return err
		},
		"Adopt":    func(ctx context.Context) error { _, err := conn.Adopt(ctx, "workers", 1); return err },
		"Detached": func(ctx context.Context) error { _, err := conn.Detached(ctx); return err },
		"hosts.Spawn": func(ctx context.Context) error {
			_,
				err := hosts.Spawn(ctx, "more", shape.Of("gpu", 1))
			return err
		},
		"hosts.Take": func(ctx context.Context) error { return hosts.Take(ctx) },
		"hosts.Drain": func(ctx context.Context) error {
			_, err := hosts.Drain(ctx, mesh.DrainOptions{Reason: "test"})
			return err
		},
		"hosts.States": func(ctx context.Context) error { _, err := hosts.States(ctx); return err },
		"hosts.Ping":   func(ctx context.Context) error { _, err := hosts.Ping(ctx); return err },
		"hosts.Watch":  func(ctx context.Context) error { return last(hosts.Watch(ctx)) },
		"procs.States": func(ctx context.Context) error { _, err := procs.States(ctx); return err },
		"procs.Ping":   func(ctx context.Context) error { _, err := procs.Ping(ctx); return err },
		"procs.Actors": func(ctx context.Context) error { _, err := procs.Actors(ctx); return err },
		"procs.Logs":   func(ctx context.Context) error { _, err := procs.Logs(ctx, mesh.LogQuery{Lines: 1}); return err },
		"procs.StreamLogs": func(ctx context.Context) error {
			_, err := procs.StreamLogs(ctx, mesh.LogOptions{})
			return err
		},
		"Restart": func(ctx context.Context) error { return procs.Restart(ctx, mesh.RollingRestart{}) },
		"TakeOver": func(ctx context.Context) error {
			_, err := procs.TakeOver(ctx, mesh.Takeover{Epoch: 1})
			return err
		},
		"Detach":        func(ctx context.Context) error { _, err := procs.Detach(ctx); return err },
		"procs.Watch":   func(ctx context.Context) error { return last(procs.Watch(ctx)) },
		"procs.Stop":    func(ctx context.Context) error { return procs.Stop(ctx) },
		"actors.States": func(ctx context.Context) error { _, err := counters.States(ctx); return err },
		"actors.Watch":  func(ctx context.Context) error { return last(counters.Watch(ctx)) },
		"actors.Stop":   func(ctx context.Context) error { return counters.Stop(ctx) },
	} {
		try(verb, do)
	}
	return said, conn.Close(ctx)
}

// last is the final error of a watch.
func last(watch iter.Seq2[actor.Event, error]) (last error) {
	for _, err := range watch {
		last = err
	}
	return last
}

func TestFailure_unhandledOneFailsCallsAndSetsTheExitStatus_MESH21(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	self, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*testkit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), programVariable+"=1", "NATS_URL="+c.Server.URL(),
		"NATS_TOKEN="+c.Server.Token())
	var stderr testkit.Transcript
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, unhandledStatus, exit.ExitCode(), stderr.String())

	const cause = "crash test"
	require.Contains(t, stderr.String(), cause)
	require.NotContains(t, stderr.String(), "missed an event", "an ended Net misses no event")
	said := map[string]string{}
	require.NoError(t, json.Unmarshal(out, &said))
	for verb, text := range said {
		require.Contains(t, text, cause, verb)
		require.NotContains(t, text, "not ErrFailed", verb)
	}
}
