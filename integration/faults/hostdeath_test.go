package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
)

// F3. Policy stop: the procs end with their hostd, and the next hostd starts without conflicts.
func TestF03_killedHostdsProcsEnd(t *testing.T) {
	program := buildHostd(t, "")
	try(t, fault{"F3", 3, often}, func(t *testing.T, _ uint64, f *figures) {
		m := newMachine(t, program)
		m.start()
		d := m.mesh(4, nil)
		require.Len(t, m.spawnMesh(d), 1)
		require.Len(t, m.processes(), 5)
		killed := time.Now()
		m.kill()
		last := killed
		for len(m.processes()) > 0 && time.Since(killed) < 3*time.Second {
			last = time.Now()
			time.Sleep(time.Millisecond)
		}
		f.count("orphans after 3 s", len(m.processes()))
		f.time("last exit", last.Sub(killed))
		require.Empty(t, m.processes())
		m.start()
		require.Empty(t, m.states(d), "the next one knows nothing of it")
		m.shutdown()
	})
}

// ticker is an actor of kept procs.
var (
	tickerType = actor.NewType[*ticker, actor.None]("ticker")
	tick       = actor.NewEndpoint[*ticker, int64, int64]("tick")
)

// ticker counts, and prints each number as a line.
type ticker struct{ n int64 }

func (t *ticker) tick(_ *actor.Context, by int64) (int64, error) {
	t.n += by
	fmt.Println("tick", t.n)
	return t.n, nil
}

func tickerDef() actor.Def {
	return tickerType.Define(func(*actor.Context, actor.None) (*ticker, error) { return &ticker{}, nil },
		tick.Handle((*ticker).tick))
}

// ticks counts at a ticker until it is stopped, and returns the numbers of answered calls and of
// those with an unknown fate.
type ticks struct {
	answered, unknown atomic.Int64
	stop              func()
}

func (m *machine) ticks(to actor.Ref[*ticker]) *ticks {
	ctx, cancel := context.WithCancel(m.Context())
	var wg sync.WaitGroup
	k := &ticks{stop: func() { cancel(); wg.Wait() }}
	wg.Go(func() {
		for ctx.Err() == nil {
			once, done := context.WithTimeout(ctx, 5*time.Second)
			_, err := tick.Call(once, to, 1)
			done()
			failure, ok := errors.AsType[*actor.Error](err)
			switch {
			case err == nil:
				k.answered.Add(1)
			case !ok || !failure.Undeliverable():
				k.unknown.Add(1)
			}
		}
	})
	m.Cleanup(k.stop)
	return k
}

// F4. Policy keep: the next hostd adopts, and peers of the procs notice only an outage of the bus.
func TestF04_keptProcsSurviveAKilledHostd(t *testing.T) {
	program := buildHostd(t, "")
	try(t, fault{"F4", 3, often}, func(t *testing.T, _ uint64, f *figures) {
		m := newMachine(t, program)
		m.start()
		d := m.mesh(2, func(d *agent.Mesh) { kept(d); d.Command = agent.Command{Path: self(t)} })
		m.spawnMesh(d)
		before := m.states(d)
		of := d.ProcID(1, 0)
		spec := agent.ActorSpec{Name: "ticker", Type: "ticker", Params: []byte{0xa0}, Owner: d.Owner}
		insist(m, agent.Create, agent.Of(of).Via(m.client), agent.CreateRequest{Actors: &spec, Wait: true})
		var lines atomic.Int64
		_, err := m.client.Bus().Data().Subscribe(m.client.Space().Logs(d.ID), func(msg bus.Msg) {
			lines.Add(int64(strings.Count(string(msg.Data), "tick ")))
		})
		require.NoError(t, err)
		k := m.ticks(actor.RefOf[*ticker](of.Actor("ticker")).Via(m.client))
		flows := func(more int64) {
			want := k.answered.Load() + more
			require.Eventually(t, func() bool { return k.answered.Load() >= want }, patience, time.Millisecond,
				"messages flow")
		}
		flows(50)
		m.kill()
		time.Sleep(50 * time.Millisecond) // they are alone for a moment
		require.Len(t, m.processes(), 2)
		began := time.Now()
		m.start()
		f.time("hostd is back", time.Since(began))
		host, _ := m.host()
		insist(m, agent.Wait, host, agent.WaitRequest{ID: d.ID.String(), Until: agent.Running})
		f.time("adopted", time.Since(began))
		after, wrong := m.states(d), 0
		for i, s := range after {
			if s.Status.Phase != agent.Running || s.Gen != before[i].Gen || s.Proc.PID != before[i].Proc.PID ||
				!s.Proc.Adopted {
				wrong++
			}
		}
		f.count("wrong adoptions", wrong)
		require.Zero(t, wrong, "%+v", after)
		require.Len(t, m.processes(), 3, "no second proc of a rank")
		flows(50)
		k.stop()
		total := insist(m, agent.Get, agent.Of(of).Via(m.client), agent.GetRequest{ID: "ticker"})
		require.Len(t, total, 1)
		n, err := tick.Call(t.Context(), actor.RefOf[*ticker](of.Actor("ticker")).Via(m.client), 0)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, k.answered.Load(), "each answered call is counted")
		require.LessOrEqual(t, n, k.answered.Load()+k.unknown.Load()+1, "nothing is counted twice")
		f.count("calls", int(k.answered.Load()))
		f.count("indeterminate", int(k.unknown.Load()))
		tails := insist(m, agent.Logs, host, agent.LogsRequest{ID: d.ID.String(), Lines: 1})
		last := fmt.Sprint("tick ", n)
		require.True(t, func() bool {
			for _, tail := range tails {
				for _, line := range tail.Lines {
					if line == last {
						return true
					}
				}
			}
			return false
		}(), "%v: the file has what was printed last, %s", tails, last)
		m.shutdown()
		f.count("log lines", int(n)+1)
		f.count("not seen by a subscriber", int(max(0, n+1-lines.Load())))
	})
}

// points are those of packages launch and agent/host.
var points = []string{
	"launch-planted", "launch-forked", "launch-payload", "launch-delivered", "launch-tree-killed",
	"launch-reaped",
	"host-state-reserved", "host-launched", "host-state-written", "host-recorded", "host-ended",
	"adopt-verified", "adopt-held", "host-adopted", "host-census", "host-readopted", "census-killed",
}

// F5. At every instant of hostd's death, a rank and generation has one live process at most, and
// none in the end. A run dies once at each point; the sample is one run.
func TestF05_nextHostdFindsEverythingAfterADeath(t *testing.T) {
	program := buildHostd(t, "failpoint")
	try(t, fault{"F5", 1, 100}, func(t *testing.T, _ uint64, f *figures) {
		for _, point := range points {
			diesAt(t, program, point, f)
		}
	})
}

func diesAt(t *testing.T, program, point string, f *figures) {
	m := newMachine(t, program)
	at := "CASTNET_FAILPOINT=" + point
	adopting := strings.HasPrefix(point, "adopt") || point == "host-adopted" || point == "host-census" ||
		point == "host-readopted" || point == "census-killed"
	if adopting {
		m.start()
	} else {
		m.start(at + nth(point))
	}
	d, plain := m.mesh(1, kept), m.mesh(1, script("setsid sleep 1000 & wait"))
	host, _ := m.host()
	m.whileItLives(func(ctx context.Context) {
		_, _ = agent.Create.Call(ctx, host, agent.CreateRequest{Procs: &plain}) // it may die over it
		_, _ = agent.Create.Call(ctx, host, agent.CreateRequest{Procs: &d, Wait: true})
	})
	if adopting {
		insist(m, agent.Wait, host, agent.WaitRequest{ID: d.ID.String(), Until: agent.Running})
		require.Eventually(m, func() bool { return slices.ContainsFunc(m.processes(), sleeps) }, patience,
			5*time.Millisecond, "what the plain one leaves behind")
		m.kill()
		// some other hostd on the computer has taken its census in between
		for tries := 3; m.boot(at) && point == "census-killed" && tries > 0; tries-- {
			f.count("ended by another's census", 1)
			m.whileItLives(func(ctx context.Context) {
				_, _ = agent.Create.Call(ctx, host, agent.CreateRequest{Procs: &plain})
			})
			require.Eventually(m, func() bool { return slices.ContainsFunc(m.processes(), sleeps) }, patience,
				5*time.Millisecond, "it is left anew")
			m.kill()
		}
	}
	if !m.dead() { // the points of its end
		m.whileItLives(func(ctx context.Context) {
			// hostd dies meanwhile
			_, _ = agent.Stop.Call(ctx, host, agent.StopRequest{ID: d.ID.String(), Grace: time.Second})
		})
		select {
		case <-m.over:
		case <-time.After(5 * time.Second):
			require.FailNow(t, point+" is never hit", m.output())
		}
	}
	require.Equal(t, syscall.SIGKILL, m.hostd.ProcessState.Sys().(syscall.WaitStatus).Signal(), "%s: %v: %s",
		point, m.hostd.ProcessState, m.output())
	f.count("deaths", 1)
	m.start()
	host, _ = m.host()
	insist(m, agent.Create, host, agent.CreateRequest{Procs: &d, Wait: true})
	if s := m.states(d)[0]; s.Status.Phase.Terminal() { // as a controller would
		insist(m, agent.Create, host, agent.CreateRequest{Procs: &d, Wait: true, Gen: s.Gen + 1})
	}
	require.Equal(t, agent.Running, m.states(d)[0].Status.Phase, "%s: %v", point, m.states(d))
	double := len(m.processes()) - 2
	f.count("double spawned or left by the dead", max(0, double))
	require.Zero(t, double, "%s: want hostd and one proc", point)
	m.shutdown()
	f.count("leaked", len(m.processes()))
}

func sleeps(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.HasPrefix(string(line), "sleep")
}

// nth skips the hits of the first launched mesh, and of hostd's own identity.
func nth(point string) string {
	switch point {
	case "launch-planted", "launch-forked", "launch-payload", "launch-delivered", "host-state-written":
		return ":2"
	}
	return ""
}

// whileItLives calls hostd; its death ends the wait for the answer.
func (m *machine) whileItLives(ask func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(m.Context(), 5*time.Second)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		ask(ctx)
	}()
	select {
	case <-m.over:
	case <-answered:
	}
	cancel()
	<-answered
}
