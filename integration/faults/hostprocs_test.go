package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/config"
)

// endings are ways to end, with their expected reports.
var endings = []struct {
	name, script string
	reason, tail string
	signal       int
	memory       int64
}{
	{name: "code 0", script: "echo fine >&2", reason: "exited with code 0 before it was ready", tail: "fine"},
	{name: "code 1", script: "echo no luck >&2; exit 1", reason: "exited with code 1", tail: "no luck"},
	{name: "panic", script: "panics", reason: "exited with code 2", tail: "panic: no way on"},
	{name: "abort", script: "echo giving up >&2; ulimit -c 0; kill -ABRT $$", reason: "killed by signal 6",
		tail: "giving up", signal: 6},
	{name: "KILL", script: "echo poor me >&2; kill -KILL $$", reason: "killed by signal 9",
		tail: "poor me", signal: 9},
	{name: "memory", script: "gobbles", reason: "killed by the kernel: out of memory", tail: "hungry", signal: 9,
		memory: 32 << 20},
}

// F2.
func TestF02_procExitIsReportedCorrectly(t *testing.T) {
	program := buildHostd(t, "")
	try(t, fault{"F2", 1, often}, func(t *testing.T, _ uint64, f *figures) {
		m := newMachine(t, program)
		m.start()
		for _, e := range endings {
			d := m.mesh(1, script(e.script))
			if e.script == "panics" || e.script == "gobbles" {
				d.Command = agent.Command{Path: self(t), Env: []string{roleVariable + "=" + e.script}}
			}
			d.Limits.Memory = e.memory
			m.spawnMesh(d)
			s := m.states(d)[0]
			if e.memory > 0 && len(s.Proc.Unenforced) > 0 {
				t.Logf("%s: not shown: %v", e.name, s.Proc.Unenforced)
				f.count("not shown", 1)
				continue
			}
			f.count("ends", 1)
			right := s.Status.Phase == agent.Failed && strings.HasPrefix(s.Status.Reason, e.reason) &&
				s.Proc.Signal == e.signal &&
				s.Proc.OOM == (e.memory > 0) && strings.Contains(strings.Join(s.Proc.StderrTail, "\n"), e.tail)
			if !right {
				f.count("wrong", 1)
			}
			require.True(t, right, "%s: %v %+v", e.name, s.Status, *s.Proc)
		}
		f.count("wrong", 0)
		m.shutdown()
	})
}

// zombies are the unreaped children of hostd.
func (m *machine) zombies() (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[0] == "Z" && fields[1] == strconv.Itoa(m.hostd.Process.Pid) {
			n++
		}
	}
	return n
}

// descriptors are the open ones of hostd.
func (m *machine) descriptors() int {
	open, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(m.hostd.Process.Pid), "fd"))
	require.NoError(m, err)
	return len(open)
}

// awaitProcesses waits until a number of processes run on the machine besides hostd.
func (m *machine) awaitProcesses(n int) {
	m.Helper()
	require.Eventually(m, func() bool { return len(m.processes()) >= n+1 }, patience, 5*time.Millisecond,
		"%d processes", n)
}

// begins spawns a mesh of procs without a ready report, and waits until all run.
func (m *machine) begins(d agent.Mesh, processes int) {
	m.Helper()
	ref, _ := m.host()
	insist(m, agent.Create, ref, agent.CreateRequest{Procs: &d})
	m.awaitProcesses(processes)
}

// stopMesh stops a mesh, and returns the time taken.
func (m *machine) stopMesh(d agent.Mesh, grace time.Duration) time.Duration {
	m.Helper()
	ref, _ := m.host()
	began := time.Now()
	insist(m, agent.Stop, ref, agent.StopRequest{ID: d.ID.String(), Grace: grace})
	return time.Since(began)
}

// F26.
func TestF26_stormOfProcsLeaksNothing(t *testing.T) {
	const procs = 200
	program := buildHostd(t, "")
	try(t, fault{"F26", 1, seldom}, func(t *testing.T, _ uint64, f *figures) {
		m := newMachine(t, program)
		m.start()
		m.stopMesh(m.mesh(1, nil), time.Second) // what is opened once is open
		before := m.descriptors()
		d := m.mesh(procs, script("exec sleep 1000"))
		began := time.Now()
		m.begins(d, procs)
		f.time("launched", time.Since(began))
		took, bound := m.stopMesh(d, time.Second),
			host.StopBound(procs, 16, time.Second, config.TerminateKillWait.Get(nil))
		f.time("stopped", took)
		f.time("bound", bound)
		require.Less(t, took, bound)
		for _, s := range m.states(d) {
			require.Equal(t, agent.Stopped, s.Status.Phase, "%v", s.Status)
		}
		require.Len(t, m.processes(), 1)
		f.count("zombies", m.zombies())
		require.Zero(t, m.zombies())
		require.Eventually(t, func() bool { return m.descriptors() <= before+2 }, patience, 5*time.Millisecond,
			"%d descriptors before, %d now", before, m.descriptors())
		f.count("descriptors that did not come back", max(0, m.descriptors()-before-2))
		m.shutdown()
	})
}

// trees are procs with descendants; alone is the least number of processes.
var trees = []struct {
	name, script string
	alone        int
	pids         int
}{
	{name: "fork bomb", script: "b() { b | b & sleep 1000; }; b & exec sleep 1000", alone: 4, pids: 64},
	{name: "setsid", script: "setsid sleep 1000 & setsid sh -c 'trap \"\" TERM; sleep 1000' & wait", alone: 4},
	{name: "double fork", script: "(setsid sh -c '(sleep 1000 &) & sleep 1000 &' &) ; exec sleep 1000",
		alone: 3},
	{name: "held stdout", script: "setsid sleep 1000 & trap '' TERM; echo held; wait; sleep 1000", alone: 2},
}

// F27.
func TestF27_processTreeEndsWithItsProc(t *testing.T) {
	const grace = time.Second
	program := buildHostd(t, "")
	try(t, fault{"F27", 1, often}, func(t *testing.T, _ uint64, f *figures) {
		m := newMachine(t, program)
		m.start()
		for _, tree := range trees {
			d := m.mesh(1, script(tree.script))
			d.Limits.Pids = tree.pids
			if tree.pids > 0 && !limitsPids() {
				f.count("not shown", 1) // a bomb without a limit is no test
				continue
			}
			m.begins(d, tree.alone)
			took := m.stopMesh(d, grace)
			f.time("stopped", took)
			for end := time.Now().Add(time.Second); len(m.processes()) > 1 &&
				time.Now().Before(end); time.Sleep(time.Millisecond) {
			}
			f.count("survivors", len(m.processes())-1)
			require.Len(t, m.processes(), 1, tree.name)
			require.Less(t, took, grace+5*time.Second, tree.name)
		}
		m.shutdown()
	})
}

// limitsPids reports whether the number of processes can be limited here.
func limitsPids() bool {
	for _, dir := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		if syscall.Access(filepath.Join(dir, "cgroup.procs"), 2) == nil {
			return true
		}
	}
	return false
}

// F29
func TestF29_hostdSurvivesWithoutDescriptors(t *testing.T) {
	program := buildHostd(t, "")
	try(t, fault{"F29", 1, often}, func(t *testing.T, _ uint64, f *figures) {
		m := newMachine(t, program)
		m.shell = "ulimit -n 64;"
		m.start()
		d := m.mesh(64, script("exec sleep 1000"))
		ref, _ := m.host()
		insist(m, agent.Create, ref, agent.CreateRequest{Procs: &d})
		refused := 0
		require.Eventually(t, func() bool {
			refused = 0
			for _, s := range m.states(d) {
				if s.Status.Phase == agent.Failed {
					refused++
					require.Contains(t, s.Status.Reason, "too many open files")
				}
			}
			return refused > 0 && refused+len(m.processes())-1 == 64
		}, patience, 10*time.Millisecond, "each runs or was refused: %v", m.states(d))
		f.count("refused", refused)
		m.stopMesh(d, time.Second)
		few := m.mesh(1, script("exec sleep 1000"))
		m.begins(few, 1)
		m.stopMesh(few, time.Second)
		f.count("hostd deaths", 0)
		require.False(t, m.dead())
		m.shutdown()
	})
}

// F29: forks are refused, as by a machine full of processes. The scheduler chooses the affected
// ranks.
func TestF29_hostdSurvivesWithoutProcesses(t *testing.T) {
	const procs, refusals = 16, 5
	program := buildHostd(t, "failpoint")
	try(t, fault{"F29 fork", 1, often}, func(t *testing.T, _ uint64, f *figures) {
		m := newMachine(t, program)
		m.start("CASTNET_FAILPOINT_REFUSE=launch-fork:" + strconv.Itoa(refusals))
		d := m.mesh(procs, nil)
		m.spawnMesh(d)
		before := m.descriptors()
		var again []int
		for _, s := range m.states(d) {
			if s.Status.Phase == agent.Running {
				continue
			}
			again = append(again, s.Rank)
			want := fmt.Sprintf("cannot launch %q (%s): fork: the user, the cgroup or the machine is at its limit "+
				"of processes: "+
				"resource temporarily unavailable", d.ProcID(s.Rank, 0).Process(), program)
			require.Equal(t, agent.Status{Phase: agent.Failed, Reason: want}, s.Status)
			_, host := m.host()
			require.Equal(t, host.String(), s.Proc.Host)
			require.Zero(t, s.Proc.PID)
		}
		f.must("refused", len(again))
		require.Len(t, again, refusals, "and no other")
		require.Len(t, m.processes(), 1+procs-refusals, "a failed launch leaves nothing")
		require.Zero(t, m.zombies())
		ref, _ := m.host()
		insist(m, agent.Create, ref, agent.CreateRequest{Procs: &d, Ranks: again, Gen: 1, Wait: true})
		for _, s := range m.states(d) {
			require.Equal(t, agent.Running, s.Status.Phase, "once there is room: %v", s.Status)
		}
		m.stopMesh(d, 5*time.Second)
		require.Len(t, m.processes(), 1)
		require.LessOrEqual(t, m.descriptors(), before)
		f.count("hostd deaths", 0)
		require.False(t, m.dead())
		m.shutdown()
	})
}
