package launch

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// controllerLimit is a limit enforced by a cgroup controller, for v1 and v2.
type controllerLimit struct {
	name       string
	controller string
	v2, v1     []cgroupSetting
}

type cgroupSetting struct {
	file, value string
	optional    bool // swap, absent from some kernels
}

func (controllerLimit) oomFile(v2 bool) string {
	if v2 {
		return "memory.events"
	}
	return "memory.oom_control"
}

func (l *Limits) byController() (all []controllerLimit) {
	if l.Memory > 0 {
		n := strconv.FormatInt(l.Memory, 10)
		all = append(all, controllerLimit{
			name: l.memoryName(), controller: "memory",
			v2: []cgroupSetting{{file: "memory.max", value: n}, {"memory.swap.max", "0", true}},
			v1: []cgroupSetting{{file: "memory.limit_in_bytes", value: n}, {"memory.memsw.limit_in_bytes", n, true}},
		})
	}
	if l.Pids > 0 {
		max := []cgroupSetting{{file: "pids.max", value: strconv.Itoa(l.Pids)}}
		all = append(all, controllerLimit{name: l.pidsName(), controller: "pids", v2: max, v1: max})
	}
	if l.CPU > 0 {
		quota := strconv.Itoa(max(minCPUQuota, int(l.CPU*cpuPeriod)))
		period := strconv.Itoa(cpuPeriod)
		all = append(all, controllerLimit{
			name: l.cpuName(), controller: "cpu",
			v2: []cgroupSetting{{file: "cpu.max", value: quota + " " + period}},
			v1: []cgroupSetting{{file: "cpu.cfs_period_us", value: period}, {file: "cpu.cfs_quota_us", value: quota}},
		})
	}
	return all
}

// needsStoppedStart reports whether some limit can only be set after the fork. The child is then
// held at its first instruction.
func (t *tree) needsStoppedStart(l *Limits) bool {
	return len(t.legacy) > 0 || l.Files > 0 || len(l.CPUs) > 0
}

// apply sets the limits that need an existing process.
func (t *tree) apply(pid int, l *Limits) {
	for _, dir := range t.legacy {
		if err := writeCgroupFile(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			t.addUnenforced(dir, err)
		}
	}
	if len(l.CPUs) > 0 {
		var set unix.CPUSet
		for _, cpu := range l.CPUs {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(pid, &set); err != nil {
			t.addUnenforced(l.cpusName(), err)
		}
	}
	if l.Files > 0 {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: l.Files, Max: l.Files}, nil); err != nil {
			t.addUnenforced(l.filesName(), err)
		}
	}
}

// applyWhileStopped waits for the tracee to stop at its first instruction, applies the limits and
// detaches. It must run on the thread of the fork.
func (t *tree) applyWhileStopped(pid int, l *Limits) error {
	for {
		// WNOWAIT: reap takes an exit before the stop.
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
