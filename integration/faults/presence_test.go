package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/integration/faults/chaos"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// lookout watches hosts, in the process of the test.
type lookout struct {
	*testing.T
	proc    *actor.Proc
	watcher *presence.Watcher
	changes chan presence.Change
	seen    map[presence.State]int
}

func newLookout(t *testing.T, o bus.Options) *lookout {
	t.Helper()
	b, err := bus.Open(t.Context(), o)
	require.NoError(t, err)
	id, err := subjects.NewHostID("lookout")
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), actor.Options{ID: id.Proc(), Bus: b})
	require.NoError(t, err)
	w, err := presence.New(p)
	require.NoError(t, err)
	t.Cleanup(func() {
		w.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, _ = p.Close(ctx), b.Close(ctx) // the server may be gone
	})
	return &lookout{t, p, w, make(chan presence.Change, 1<<16), map[presence.State]int{}}
}

// watch begins to watch hosts, and waits until all are alive.
func (l *lookout) watch(hosts ...subjects.HostID) {
	l.Helper()
	l.Cleanup(l.watcher.Watch(hosts, func(c presence.Change) { l.changes <- c }))
	l.awaitAllAlive(hosts...)
}

// awaitAllAlive waits for a report of each host as alive, and requires no other report after it.
func (l *lookout) awaitAllAlive(hosts ...subjects.HostID) {
	l.Helper()
	left := map[subjects.HostID]bool{}
	for _, h := range hosts {
		left[h] = true
	}
	for len(left) > 0 {
		if c := l.next(patience); c.State == presence.Alive {
			delete(left, c.Host)
		} else {
			left[c.Host] = true
		}
	}
}

// next is the next change.
func (l *lookout) next(within time.Duration) presence.Change {
	l.Helper()
	select {
	case c := <-l.changes:
		l.seen[c.State]++
		l.Logf("%s is %s: %s", c.Host, c.State, c.Reason)
		return c
	case <-time.After(within):
		require.FailNow(l, "no report")
		return presence.Change{}
	}
}

// until waits for a state of a host, and returns the time of its report.
func (l *lookout) until(h subjects.HostID, s presence.State) (time.Time, presence.Change) {
	l.Helper()
	for {
		if c := l.next(patience); c.Host == h && c.State == s {
			return time.Now(), c
		}
	}
}

// countUntil counts the reports until a time.
func (l *lookout) countUntil(until time.Time) {
	for {
		select {
		case c := <-l.changes:
			l.seen[c.State]++
			l.Logf("%s is %s: %s", c.Host, c.State, c.Reason)
		case <-time.After(time.Until(until)):
			return
		}
	}
}

// joined is a hostd on a running bus.
func joined(t *testing.T, program, label string, o bus.Options) *machine {
	t.Helper()
	m := newMachine(t, program, "--nats", o.URL, "--gateway=false")
	m.joins = true
	m.args[len(m.args)-1] = label
	m.start("NATS_TOKEN="+o.Token, "NATS_CREDS="+o.Creds)
	return m
}

// id is the ID reported by hostd.
func (m *machine) id() (id subjects.HostID) {
	m.Helper()
	data, err := os.ReadFile(m.log())
	require.NoError(m, err)
	for line := range strings.Lines(string(data)) {
		var said struct{ Host subjects.HostID }
		if strings.Contains(line, "hostd is ready") && json.Unmarshal([]byte(line), &said) == nil {
			id = said.Host
		}
	}
	require.True(m, id.IsValid(), "%s", data)
	return id
}

// spawnMesh runs procs on a host.
func (l *lookout) spawnMesh(on subjects.HostID, procs int) {
	l.Helper()
	id, err := subjects.NewMeshID("mesh")
	require.NoError(l, err)
	d := agent.Mesh{
		ID: id, Extent: shape.Of("gpu", procs), Hosts: []subjects.HostID{on}, PerHost: procs,
		Owner: l.proc.ID().Actor("owner"), Command: agent.Command{Path: agent.Builtin},
	}
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	_, err = agent.Create.Call(ctx, agent.Of(on.Proc()).Via(l.proc), agent.CreateRequest{Procs: &d, Wait: true})
	require.NoError(l, err)
}

// The hosts with a relay of a server's disconnects.
const (
	nobody      = ""
	own         = "its own"      // a hostd, of its own server
	systemCreds = "system-creds" // a hostd that is let into the system account
)

// aBus is a bus for hosts.
func aBus(t *testing.T, program, hears string) bus.Options {
	t.Helper()
	var args []string
	var o bus.Options
	switch hears {
	case nobody:
		_, r := start(t, "server", "server", t.TempDir(), serverConfig{})
		return bus.Options{URL: r.URL}
	case systemCreds:
		dir, err := filepath.Abs("testdata/operator")
		require.NoError(t, err)
		o.Creds = filepath.Join(dir, "hosts.creds")
		args = []string{"--nats-config", filepath.Join(dir, "nats.conf"), "--creds", o.Creds, "--system-creds",
			filepath.Join(dir, "system.creds")}
	}
	m := newMachine(t, program, append(args, "--gateway=false")...)
	m.start()
	local, err := bus.ReadLocal(filepath.Join(m.dir, "run", "castnet", "local.json"))
	require.NoError(t, err)
	o.URL, o.Token = local.URL, local.Token
	return o
}

// F3, as others see it: hostd and its procs are killed.
func TestF03_killedHostIsDead(t *testing.T) { // HOSTD-9
	program := buildHostd(t, "")
	for _, c := range []struct {
		fault fault
		hears string
	}{
		{fault{"F3 presence", 3, often}, nobody},
		{fault{"F3 presence, with hints", 5, often}, own},
		{fault{"F3 presence, with hints of the system account", 1, often}, systemCreds},
	} {
		try(t, c.fault, func(t *testing.T, seed uint64, f *figures) {
			o := aBus(t, program, c.hears)
			l, m := newLookout(t, o), joined(t, program, "h", o)
			l.watch(m.id())
			l.spawnMesh(m.id(), 2)
			// anywhere between two heartbeats
			time.Sleep(600*time.Millisecond + time.Duration(seed*83%500)*time.Millisecond)
			killed := time.Now()
			m.kill()
			at, _ := l.until(m.id(), presence.Suspect)
			f.time("suspect", at.Sub(killed))
			at, dead := l.until(m.id(), presence.Dead)
			f.time("dead", at.Sub(killed))
			require.Equal(t, c.hears != nobody,
				strings.Contains(dead.Reason, "its connections have ended"), dead.Reason)
		})
	}
}

// F9. A stopped hostd is dead after the full time, and alive when it goes on.
func TestF09_suspendedHostIsDeadAndReturns(t *testing.T) {
	t.Parallel()
	program := buildHostd(t, "")
	try(t, fault{"F9 presence", 1, seldom}, func(t *testing.T, _ uint64, f *figures) {
		o := aBus(t, program, own)
		l, m := newLookout(t, o), joined(t, program, "h", o)
		l.watch(m.id())
		stopped := time.Now()
		require.NoError(t, m.hostd.Process.Signal(syscall.SIGSTOP))
		at, _ := l.until(m.id(), presence.Suspect)
		f.time("suspect", at.Sub(stopped))
		at, _ = l.until(m.id(), presence.Dead)
		f.time("dead", at.Sub(stopped))
		going := time.Now()
		require.NoError(t, m.hostd.Process.Signal(syscall.SIGCONT))
		at, _ = l.until(m.id(), presence.Alive)
		f.time("alive", at.Sub(going))
	})
}

// F15. No message of the host arrives, and its connections are there.
func TestF15_hostBehindABlackHoleIsDeadAndReturns(t *testing.T) {
	t.Parallel()
	program := buildHostd(t, "")
	try(t, fault{"F15 presence", 1, seldom}, func(t *testing.T, _ uint64, f *figures) {
		o := aBus(t, program, own)
		at, err := url.Parse(o.URL)
		require.NoError(t, err)
		hole, err := chaos.Start(at.Host)
		require.NoError(t, err)
		t.Cleanup(hole.Close)
		l := newLookout(t, o)
		o.URL = "nats://" + hole.Addr()
		m := joined(t, program, "h", o)
		l.watch(m.id())
		began := time.Now()
		hole.Stall()
		died, _ := l.until(m.id(), presence.Dead)
		f.time("dead", died.Sub(began))
		over := time.Now()
		hole.Resume()
		back, _ := l.until(m.id(), presence.Alive)
		f.time("alive", back.Sub(over))
	})
}

// F11, as watchers of hosts see it: no host is dead, however long the server is away.
func TestF11_serverRestartMakesNoHostDead(t *testing.T) {
	t.Parallel()
	program := buildHostd(t, "")
	for _, c := range []struct {
		fault fault
		away  time.Duration
	}{{fault{"F11 presence", 2, often}, 0}, {fault{"F11 presence, away for 8 s", 1, seldom}, 8 * time.Second}} {
		try(t, c.fault, func(t *testing.T, seed uint64, f *figures) {
			dir := t.TempDir()
			config := serverConfig{Port: reservePort(t)}
			server, r := start(t, "server", "server", dir, config)
			l := newLookout(t, bus.Options{URL: r.URL})
			var hosts []subjects.HostID
			for _, label := range []string{"a", "b", "c"} {
				hosts = append(hosts, joined(t, program, label, bus.Options{URL: r.URL}).id())
			}
			l.watch(hosts...)
			if seed%2 == 0 {
				server.kill()
			} else {
				server.end(t)
			}
			time.Sleep(c.away)
			start(t, "server", "server", dir, config)
			over := time.Now()
			l.awaitAllAlive(hosts...)
			f.time("all alive", time.Since(over))
			l.countUntil(time.Now().Add(6 * time.Second))
			f.count("false deaths", l.seen[presence.Dead])
			require.Zero(t, l.seen[presence.Dead])
		})
	}
}

// F10. Hosts, and then their watchers, get 5 % of a processor beside eight busy processes.
func TestF10_starvedHostIsNotDead(t *testing.T) {
	program := buildHostd(t, "")
	for _, who := range []string{"hosts", "watcher"} {
		try(t, fault{"F10 " + who, 1, 1}, func(t *testing.T, _ uint64, f *figures) {
			quota := newQuota(t)
			o := aBus(t, program, own)
			l := newLookout(t, o)
			a, b := joined(t, program, "a", o), joined(t, program, "b", o)
			l.watch(a.id(), b.id())
			for range 8 {
				quota.busy(t)
			}
			long := 8 * time.Second // supervision.dead-after, and more
			if os.Getenv(runsVariable) == "full" {
				long = 10 * time.Minute
			}
			if who == "hosts" {
				quota.take(t, a.hostd.Process.Pid)
				quota.take(t, b.hostd.Process.Pid)
			} else {
				quota.take(t, os.Getpid())
				defer quota.free(t, os.Getpid())
			}
			l.countUntil(time.Now().Add(long))
			f.count("seconds", int(long.Seconds()))
			f.count("throttled", quota.throttled(t))
			f.count("suspicions", l.seen[presence.Suspect])
			f.count("false deaths", l.seen[presence.Dead])
			require.Zero(t, l.seen[presence.Dead])
		})
	}
}

// quota is a cgroup with 5 % of a processor.
type quota struct{ dir string }

func newQuota(t *testing.T) quota {
	t.Helper()
	const all = "/sys/fs/cgroup/cpu"
	// A hostd removes empty groups with the name of a proc's group, but not this one.
	q := quota{filepath.Join(all, fmt.Sprintf("faults-of-castnet-%d", os.Getpid()))}
	if err := os.Mkdir(q.dir, 0o755); err != nil {
		t.Skipf("not shown: no quota can be set here: %v", err)
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.Remove(q.dir) == nil }, patience, 10*time.Millisecond,
			"the cgroup stays")
	})
	require.NoError(t, os.WriteFile(filepath.Join(q.dir, "cpu.cfs_period_us"), []byte("100000"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(q.dir, "cpu.cfs_quota_us"), []byte("5000"), 0o600))
	return q
}

func (q quota) take(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(q.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600))
}

// free moves a process back to the root group.
func (q quota) free(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(q.dir), "cgroup.procs"),
		[]byte(strconv.Itoa(pid)), 0o600))
}

// busy starts a process without pauses in the group.
func (q quota) busy(t *testing.T) {
	t.Helper()
	loop := exec.Command("/bin/sh", "-c", "while :; do :; done")
	loop.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, loop.Start())
	t.Cleanup(func() {
		_ = loop.Process.Kill()
		_ = loop.Wait() // it was killed
	})
	q.take(t, loop.Process.Pid)
}

// throttled counts the group's waits for the next period.
func (q quota) throttled(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(q.dir, "cpu.stat"))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled "); ok {
			count, err := strconv.Atoi(n)
			require.NoError(t, err)
			return count
		}
	}
	return 0
}
