package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bench/local/lines"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

const (
	fewestProcs = 2  // however much a row is shrunk
	atOnce      = 64 // processes that the base launches at a time, as hosts do

	stoppedProcs = 200
	hostStops    = 16 // procs that hosts stop at a time

	idleProcs   = 64
	idleTime    = 30 * time.Second
	leastIdling = time.Second // however much the row is shrunk
)

// procFamilies are those whose rows are about procs as processes.
func procFamilies() []family {
	const ms = "ms"
	var all []family
	for _, n := range []int{16, 48, stoppedProcs} {
		all = append(all, family{[]row{{fmt.Sprintf("procs-ready-%d", n), ms, false}}, onRig(readyContest(n))})
	}
	return append(all,
		family{[]row{{fmt.Sprintf("procs-stop-%d", stoppedProcs), ms, false}}, onRig(stopContest)},
		family{[]row{{"first-reply-ms", ms, false}}, onRig(firstReplyContest)},
		family{[]row{{"hostd-idle-cpu", "%", false}}, idleContest})
}

// procs is how many there are of n.
func (s settings) procs(n int) int { return max(n/s.shrink, fewestProcs) }

// readyContest measures a spawn on one host against as many processes that the system starts, each
// of which connects, subscribes and says that it is ready.
func readyContest(n int) func(context.Context, *rig) (contest, error) {
	return func(_ context.Context, r *rig) (contest, error) {
		n := r.procs(n)
		ready := make(chan *nats.Msg, n)
		if _, err := r.raw.ChanSubscribe(readySubject, ready); err != nil {
			return nil, err
		}
		ours := func(ctx context.Context) ([]float64, error) {
			start := time.Now()
			procs, err := r.spawn(ctx, "ready", n)
			took := since(start, time.Millisecond)
			if err != nil {
				return nil, err
			}
			return []float64{took}, procs.Stop(ctx)
		}
		return against("exec-subscribe-ready", ours, execBase(r, subscriberRole, n, ready)),
			r.raw.FlushTimeout(patience)
	}
}

// spawn spawns n procs that run this program.
func (r *rig) spawn(ctx context.Context, name string, n int) (mesh.ProcMesh, error) {
	return r.hosts.SpawnProcs(ctx, mesh.SpawnSpec{Name: name, PerHost: shape.Of("proc", n)})
}

// stopContest measures a stop against the bound that hosts give for it.
func stopContest(_ context.Context, r *rig) (contest, error) {
	n := r.procs(stoppedProcs)
	ours := func(ctx context.Context) ([]float64, error) {
		procs, err := r.spawn(ctx, "stopped", n)
		if err != nil {
			return nil, err
		}
		start := time.Now()
		err = procs.Stop(ctx)
		return []float64{since(start, time.Millisecond)}, err
	}
	bound := host.StopBound(n, hostStops, agent.DefaultGrace, config.TerminateKillWait.Get(nil))
	return against("stop-bound", ours, constant(float64(bound/time.Millisecond))), nil
}

// firstReplyContest measures the time to a first answer: the spawn of a proc, the spawn of an actor
// in it, and a call; against a millisecond.
func firstReplyContest(_ context.Context, r *rig) (contest, error) {
	m := payload()
	ours := func(ctx context.Context) ([]float64, error) {
		start := time.Now()
		procs, err := r.spawn(ctx, "first", 1)
		if err != nil {
			return nil, err
		}
		w, err := mesh.Spawn(ctx, procs, worker, "first", struct{}{})
		if err != nil {
			return nil, errors.Join(err, procs.Stop(ctx))
		}
		answer, err := echo.Call(ctx, w.Ref(0), m)
		took := since(start, time.Millisecond)
		err = expect(err, len(answer), payloadSize)
		return []float64{took}, errors.Join(err, w.Stop(ctx), procs.Stop(ctx))
	}
	return against("one-ms", ours, constant(1)), nil
}

// constant is a base that is not measured.
func constant(v float64) side {
	return func(context.Context) ([]float64, error) { return []float64{v}, nil }
}

// idleContest measures what share of a CPU a host takes, with the server in its process, while its
// procs have nothing to do; against one percent.
func idleContest(ctx context.Context, g *ground) (contest, error) {
	hostd, err := startRole(hostdRole)
	if err != nil {
		return nil, err
	}
	g.later(func(context.Context) error { return endChildren(hostd) })
	r := &rig{ground: g}
	r.url, err = hostd.line(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.connect(ctx, 1); err != nil {
		return nil, err
	}
	if _, err := r.spawn(ctx, "idle", r.procs(idleProcs)); err != nil {
		return nil, err
	}
	ours := func(ctx context.Context) ([]float64, error) {
		before, err := hostd.used(ctx)
		if err != nil {
			return nil, err
		}
		start := time.Now()
		select {
		case <-time.After(max(idleTime/time.Duration(r.shrink), leastIdling)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		after, err := hostd.used(ctx)
		const percent = 100
		return []float64{percent * float64(after-before) / float64(time.Since(start))}, err
	}
	return against("one-percent", ours, constant(1)), nil
}

// used is how much CPU time a host has had.
func (c *child) used(ctx context.Context) (time.Duration, error) {
	line, err := c.ask(ctx, cpuRequest)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(line)
}

// cpuRequest is the line that asks a host how much CPU time it has had. Unlike others that are
// asked what they have used, it does not collect its garbage then.
const cpuRequest = "cpu"

func answerCPU(_ context.Context, line string) string {
	var r syscall.Rusage
	if line != cpuRequest {
		return lines.Failure(fmt.Errorf("request %q: want %s", line, cpuRequest))
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return lines.Failure(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).String()
}

// playHostd is a host and the server in one process.
func playHostd(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	srv, err := embed.Start(ctx, embed.Options{Log: server.Log()})
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	b, err := bus.Open(ctx, bus.Options{Server: srv, Name: "bench-hostd", Log: server.Log()})
	if err != nil {
		return err
	}
	return playHostOn(ctx, b, agent.BusSettings{URL: srv.URL()}, func(*host.Host) error {
		if _, err := fmt.Fprintln(out, srv.URL()); err != nil {
			return err
		}
		return lines.Serve(in, out, answerCPU)
	})
}

// playSubscriber says on the bus that it has subscribed.
func playSubscriber(in io.Reader, out io.Writer) error {
	nc, err := rawConnect(os.Getenv(urlEnv), os.Getenv(tokenEnv))
	if err != nil {
		return err
	}
	defer nc.Close()
	if _, err := nc.Subscribe(allSubject, func(*nats.Msg) {}); err != nil {
		return err
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	if err := nc.Publish(readySubject, nil); err != nil {
		return err
	}
	return untilEnd(in, out, "ready")
}
