package faults

import (
	"context"
	"errors"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/integration/faults/chaos"
	"github.com/castnet-io/castnet/internal/proctest"
	"github.com/castnet-io/castnet/mesh"
)

// Faults of meshes under controllers.

// busOf is a server in a process of its own.
func busOf(t *testing.T) bus.Options {
	t.Helper()
	_, r := start(t, "server", "server", t.TempDir(), serverConfig{})
	return bus.Options{URL: r.URL}
}

// F1. Each end is reported once, with its signal, to host, owner and monitors; calls to others go
// on.
func TestF01_ownerHearsOfAKilledProc(t *testing.T) {
	try(t, fault{"F1 controller", 1, often}, func(t *testing.T, _ uint64, f *figures) {
		e := newEstate(t, busOf(t), "a", "b")
		e.spawnMesh(4, mesh.RestartPolicy{}, 0)
		ends, actors := e.watch(e.procs), e.watch(e.tickers)
		calls := e.startCallers(8)
		for rank, pid := range e.pids()[:6] {
			monitored := make(chan time.Time, 1)
			_, err := e.net.Proc().Monitor(e.tickers.Ref(rank).ID(), func(actor.Down) { monitored <- time.Now() })
			require.NoError(t, err)
			killed := time.Now()
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			told := ends.next()
			require.Equal(t, rank, told.Event.Rank)
			require.Equal(t, int(syscall.SIGKILL), told.Event.Signal)
			f.time("host knew", told.Event.At.Sub(killed.Round(0)))
			f.time("owner knew", told.At.Sub(killed))
			f.time("owner of its actor", actors.next().At.Sub(killed))
			f.time("monitor", (<-monitored).Sub(killed))
		}
		alive := calls.answered.Load()
		require.Eventually(t, func() bool { return calls.answered.Load() > alive+100 }, patience, time.Millisecond,
			"the others answer")
		calls.stop()
		ends.quiet(time.Now().Add(200 * time.Millisecond))
		actors.quiet(time.Now())
		f.count("answered", int(calls.answered.Load()))
		f.must("failed at once", int(calls.dead.Load()))
		f.count("failed otherwise", int(calls.other.Load()))
		require.Zero(t, calls.other.Load(), "no call waits for its deadline")
	})
}

// F1, with a policy: the rank returns, and all holders of a handle reach it.
func TestF01_killedProcOfARestartingMeshReturns(t *testing.T) {
	try(t, fault{"F1 restart", 1, often}, func(t *testing.T, _ uint64, f *figures) {
		e := newEstate(t, busOf(t), "a")
		e.spawnMesh(2, mesh.RestartPolicy{Restart: mesh.Transient, Backoff: time.Millisecond, MaxRestarts: 100}, 0)
		for range 3 {
			killed := time.Now()
			require.NoError(t, syscall.Kill(e.pids()[1], syscall.SIGKILL))
			seen := false
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				n, err := tick.Call(ctx, e.tickers.Ref(1), 1)
				seen = seen || err != nil
				return err == nil && n == 1 // it begins anew
			}, patience, time.Millisecond)
			f.time("answers again", time.Since(killed))
			f.count("restarts", 1)
		}
	})
}

// F6. The meshes of a killed owner end with its lease, and leave no subscription.
func TestF06_killedOwnersMeshesEndWithTheirLease(t *testing.T) {
	t.Parallel()
	try(t, fault{"F6", 1, often}, func(t *testing.T, _ uint64, f *figures) {
		const lease = 2 * time.Second
		srv, err := embed.Start(t.Context(), embed.Options{})
		require.NoError(t, err)
		t.Cleanup(srv.Shutdown)
		o := bus.Options{URL: srv.URL(), Token: srv.Token()}
		program := buildHostd(t, "")
		hosts := []*machine{joined(t, program, "a", o), joined(t, program, "b", o)}
		before := srv.NumSubs()
		owner, _ := start(t, "owner", "owner", t.TempDir(), ownerConfig{o.URL, o.Token})
		owner.do(t, order{Do: "own", Own: possession{Hosts: 2, PerHost: 4, Lease: lease}})
		require.Equal(t, 8, processes(hosts))
		time.Sleep(lease + lease/2) // an owner that lives keeps them
		require.Equal(t, 8, processes(hosts))
		killed := time.Now()
		owner.kill()
		require.Eventually(t, func() bool { return processes(hosts) == 0 }, patience, 5*time.Millisecond)
		f.time("last exit", time.Since(killed))
		require.Eventually(t, func() bool { return srv.NumSubs() <= before }, patience, 5*time.Millisecond,
			"%d subscriptions, %d before", srv.NumSubs(), before)
		f.count("left over", processes(hosts)+max(0, srv.NumSubs()-before))
	})
}

// F7. An owner is killed at any instant of a spawn, while another one spawns the same at the same
// time. The ranks of the first end, and those of the second are untouched.
func TestF07_nextOwnerReplacesTheFirst(t *testing.T) {
	t.Parallel()
	try(t, fault{"F7", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		const lease = 2 * time.Second
		o, program := busOf(t), buildHostd(t, "")
		hosts := []*machine{joined(t, program, "a", o), joined(t, program, "b", o)}
		owns := order{Do: "own", Own: possession{Hosts: 2, PerHost: 2, Lease: lease}}
		first, _ := start(t, "owner", "first", t.TempDir(), ownerConfig{o.URL, o.Token})
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_, _ = first.ask(owns, patience) // it dies over it
		}()
		time.Sleep(time.Duration(seed*97%600) * time.Millisecond) // the fault is to fall anywhere
		first.kill()
		killed := time.Now()
		<-asked
		next, _ := start(t, "owner", "next", t.TempDir(), ownerConfig{o.URL, o.Token})
		next.do(t, owns)
		f.count("procs of the first", processes(hosts)-4)
		require.Eventually(t, func() bool { return processes(hosts) == 4 }, patience, 5*time.Millisecond)
		f.time("none of the first", time.Since(killed))
		time.Sleep(time.Until(killed.Add(2 * lease)))
		heard := next.do(t, order{Do: "look"}).Heard
		f.count("told of the next", len(heard))
		require.Empty(t, heard)
		require.Equal(t, 4, processes(hosts))
		next.end(t)
		require.Zero(t, processes(hosts))
	})
}

// processes counts the launched processes of hosts.
func processes(hosts []*machine) (n int) {
	for _, m := range hosts {
		n += len(m.processes()) - 1
	}
	return n
}

// F8. A stopped proc is not dead, even after its lease.
func TestF08_suspendedProcOfAMeshIsNotDead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault fault
		pause time.Duration
	}{
		{fault{"F8 controller, 1 s", 0, often}, time.Second},
		{fault{"F8 controller, 5 s", 1, often}, 5 * time.Second},
		{fault{"F8 controller, 30 s", 0, seldom}, 30 * time.Second},
	} {
		try(t, c.fault, func(t *testing.T, _ uint64, f *figures) {
			e := newEstate(t, busOf(t), "a")
			e.spawnMesh(2, mesh.RestartPolicy{}, 2*time.Second)
			ends, actors := e.watch(e.procs), e.watch(e.tickers)
			pid := e.pids()[1]
			proctest.Suspend(t, pid)
			ends.quiet(time.Now().Add(c.pause))
			require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
			going := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			n, err := tick.Call(ctx, e.tickers.Ref(1), 1)
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
			f.time("answers after", time.Since(going))
			ends.quiet(going.Add(3 * time.Second)) // a lease, and more
			actors.quiet(time.Now())
			f.count("false deaths", ends.n+actors.n)
		})
	}
}

// F9. A stopped hostd and a stopped owner make no rank dead. The events of that time are reported
// later.
func TestF09_suspendedHostdOrOwnerMakesNoRankDead(t *testing.T) {
	t.Parallel()
	try(t, fault{"F9 hostd", 1, seldom}, func(t *testing.T, _ uint64, f *figures) {
		e := newEstate(t, busOf(t), "a", "b")
		e.spawnMesh(2, mesh.RestartPolicy{}, 0)
		ends, pids := e.watch(e.procs), e.pids()
		proctest.Suspend(t, e.hosts[1].hostd.Process.Pid)
		require.NoError(t, syscall.Kill(pids[3], syscall.SIGKILL))
		ends.quiet(time.Now().Add(3 * time.Second)) // less than supervision.dead-after
		require.NoError(t, e.hosts[1].hostd.Process.Signal(syscall.SIGCONT))
		going := time.Now()
		told := ends.next()
		require.Equal(t, 3, told.Event.Rank)
		require.Equal(t, int(syscall.SIGKILL), told.Event.Signal)
		f.time("told after", told.At.Sub(going))
		ends.quiet(going.Add(2 * time.Second))
		f.count("false deaths", ends.n-1)
	})
	try(t, fault{"F9 owner", 0, seldom}, func(t *testing.T, _ uint64, f *figures) {
		o := busOf(t)
		program := buildHostd(t, "")
		m := joined(t, program, "a", o)
		owner, _ := start(t, "owner", "owner", t.TempDir(), ownerConfig{o.URL, o.Token})
		owner.do(t, order{Do: "own", Own: possession{Hosts: 1, PerHost: 2, Lease: 20 * time.Second}})
		require.Len(t, m.processes(), 3)
		proctest.Suspend(t, owner.cmd.Process.Pid)
		time.Sleep(7 * time.Second) // longer than it takes for a host to be dead
		owner.signal(t, syscall.SIGCONT)
		time.Sleep(3 * time.Second) // it looks at its hosts again
		require.Empty(t, owner.do(t, order{Do: "look"}).Heard, "no end is reported")
		f.count("false deaths", 0)
		require.Len(t, m.processes(), 3)
		owner.end(t)
	})
}

// F10. An owner with 5 % of a processor declares no rank dead, and keeps its leases.
func TestF10_starvedOwnerKeepsItsMeshes(t *testing.T) {
	program := buildHostd(t, "")
	try(t, fault{"F10 owner", 0, 1}, func(t *testing.T, _ uint64, f *figures) {
		quota, o := newQuota(t), busOf(t)
		hosts := []*machine{joined(t, program, "a", o), joined(t, program, "b", o)}
		owner, _ := start(t, "owner", "owner", t.TempDir(), ownerConfig{o.URL, o.Token})
		owner.do(t, order{Do: "own", Own: possession{Hosts: 2, PerHost: 2, Lease: 6 * time.Second}})
		for range 8 {
			quota.busy(t)
		}
		quota.take(t, owner.cmd.Process.Pid)
		long := 7 * time.Second // longer than the lease, and than it takes for a host to be dead
		if os.Getenv(runsVariable) == "full" {
			long = 10 * time.Minute
		}
		time.Sleep(long)
		quota.free(t, owner.cmd.Process.Pid)
		f.count("seconds", int(long.Seconds()))
		f.count("throttled", quota.throttled(t))
		heard := owner.do(t, order{Do: "look"}).Heard
		f.count("false deaths", len(heard))
		require.Empty(t, heard)
		for _, m := range hosts {
			require.Len(t, m.processes(), 3)
		}
		owner.end(t)
	})
}

// F15. The ranks of a silent host fail within 5 s. When the host returns, its procs of the mesh are
// stopped.
func TestF15_ranksOfAHostInABlackHoleFail(t *testing.T) {
	t.Parallel()
	try(t, fault{"F15 controller", 0, seldom}, func(t *testing.T, _ uint64, f *figures) {
		o := busOf(t)
		at, err := url.Parse(o.URL)
		require.NoError(t, err)
		hole, err := chaos.Start(at.Host)
		require.NoError(t, err)
		t.Cleanup(hole.Close)
		e := newEstate(t, o, "a")
		e.hosts = append(e.hosts, joined(t, e.hosts[0].program, "b", bus.Options{URL: "nats://" + hole.Addr()}))
		e.spawnMesh(2, mesh.RestartPolicy{}, 0)
		ends, actors := e.watch(e.procs), e.watch(e.tickers)
		began := time.Now()
		hole.Stall()
		for range 2 {
			told := ends.next()
			require.Contains(t, told.Event.Reason, "host b is dead")
			f.time("owner knew", told.At.Sub(began))
			actors.next()
		}
		hole.Resume()
		back := time.Now()
		require.Eventually(t, func() bool { return len(e.hosts[1].processes()) == 1 }, patience,
			10*time.Millisecond)
		f.time("its procs stopped", time.Since(back))
		require.Len(t, e.hosts[0].processes(), 3)
		ends.quiet(time.Now().Add(100 * time.Millisecond))
	})
}

// F30. Some ranks are dead and one is stopped. A cast ends by its deadline and names both.
func TestF30_castNamesDeadAndSuspendedRanks(t *testing.T) {
	t.Parallel()
	try(t, fault{"F30 controller", 1, often}, func(t *testing.T, _ uint64, f *figures) {
		const deadline = 1500 * time.Millisecond
		e := newEstate(t, busOf(t), "a", "b")
		e.spawnMesh(4, mesh.RestartPolicy{}, 0)
		pids, ends := e.pids(), e.watch(e.procs)
		for _, rank := range []int{1, 4} {
			require.NoError(t, syscall.Kill(pids[rank], syscall.SIGKILL))
			ends.next()
		}
		took, partial := e.gather(deadline)
		f.time("two dead", took)
		require.Equal(t, []int{1, 4}, ranksOf(partial.Failed))
		require.Empty(t, partial.Missing)
		proctest.Suspend(t, pids[6])
		took, partial = e.gather(deadline)
		require.NoError(t, syscall.Kill(pids[6], syscall.SIGCONT))
		f.time("beyond the deadline, one stopped", took-deadline)
		require.Equal(t, []int{1, 4}, ranksOf(partial.Failed))
		require.Equal(t, []int{6}, ranksOf(partial.Missing))
		require.Equal(t, 5, partial.Answered)
	})
}

// gather casts, and returns the time taken and the coverage.
func (e *estate) gather(deadline time.Duration) (time.Duration, cast.Coverage) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), deadline)
	defer cancel()
	began := time.Now()
	_, err := cast.Gather(ctx, e.tickers, tick, 1)
	partial, ok := errors.AsType[*cast.CoverageError](err)
	require.True(e, ok, "%v", err)
	return time.Since(began), partial.Coverage
}

func ranksOf(fs []cast.Failure) (ranks []int) {
	for _, f := range fs {
		ranks = append(ranks, f.Rank)
	}
	return ranks
}
