package launch

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// controlled is a limit that a cgroup controller enforces, in both dialects.
type controlled struct {
	what       string
	controller string
	v2, v1     []setting
}

type setting struct {
	file, value string
	optional    bool // swap, which a kernel may not account
}

func (controlled) oomFile(v2 bool) string {
	if v2 {
		return "memory.events"
	}
	return "memory.oom_control"
}

func (l *Limits) byController() (all []controlled) {
	if l.Memory > 0 {
		n := strconv.FormatInt(l.Memory, 10)
		all = append(all, controlled{
			what: l.memoryName(), controller: "memory",
			v2: []setting{{file: "memory.max", value: n}, {"memory.swap.max", "0", true}},
			v1: []setting{{file: "memory.limit_in_bytes", value: n}, {"memory.memsw.limit_in_bytes", n, true}},
		})
	}
	if l.Pids > 0 {
		max := []setting{{file: "pids.max", value: strconv.Itoa(l.Pids)}}
		all = append(all, controlled{what: l.pidsName(), controller: "pids", v2: max, v1: max})
	}
	if l.CPU > 0 {
		quota := strconv.Itoa(max(minCPUQuota, int(l.CPU*cpuPeriod)))
		period := strconv.Itoa(cpuPeriod)
		all = append(all, controlled{
			what: l.cpuName(), controller: "cpu",
			v2: []setting{{file: "cpu.max", value: quota + " " + period}},
			v1: []setting{{file: "cpu.cfs_period_us", value: period}, {file: "cpu.cfs_quota_us", value: quota}},
		})
	}
	return all
}

// stopped reports whether a child must be held at its first instruction, until
// what cannot be given to a fork is in force.
func (t *tree) stopped(l *Limits) bool {
	return len(t.legacy) > 0 || l.Files > 0 || len(l.CPUs) > 0
}

// apply puts in force what needs a process to exist.
func (t *tree) apply(pid int, l *Limits) {
	for _, dir := range t.legacy {
		if err := put(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			t.unenforced(dir, err)
		}
	}
	if len(l.CPUs) > 0 {
		var set unix.CPUSet
		for _, cpu := range l.CPUs {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(pid, &set); err != nil {
			t.unenforced(l.cpusName(), err)
		}
	}
	if l.Files > 0 {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Files, Max: l.Files}, nil); err != nil {
			t.unenforced(l.filesName(), err)
		}
	}
}

// hold waits until the child, a tracee, stops at its first instruction, applies
// the limits and lets it go. It must run on the thread that forked.
func (t *tree) hold(pid int, l *Limits) error {
	for {
		// WNOWAIT: an end before the stop is for reap to take.
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return fmt.Errorf("waiting for its first instruction: %w", err)
		}
	}
	t.apply(pid, l)
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("letting it go: %w", err)
	}
	return nil
}
