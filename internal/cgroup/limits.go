package cgroup

import "strconv"

// Controllers that limit a group.
const (
	Memory = "memory"
	Pids   = "pids"
	CPU    = "cpu"
)

// Limits bound a group; zero means none.
type Limits struct {
	Memory int64   // bytes, swap included
	Pids   int     // processes and threads
	CPU    float64 // cores: 1.5 is one and a half
}

// Refusal reports a limit that could not be set.
type Refusal struct {
	Controller string
	Err        error
}

// The period is the kernel's default, the quota its minimum, both in microseconds.
const (
	cpuPeriod   = 100_000
	minCPUQuota = 1_000
)

// controllerLimit is a limit in the files of its controller, for v1 and v2.
type controllerLimit struct {
	controller string
	bytes      int64 // of memory
	v2, v1     []setting
}

type setting struct {
	file, value string
	optional    bool // swap, absent from some kernels
}

func (l Limits) settings() (all []controllerLimit) {
	if l.Memory > 0 {
		n := strconv.FormatInt(l.Memory, 10)
		all = append(all, controllerLimit{
			controller: Memory, bytes: l.Memory,
			v2: []setting{{file: "memory.max", value: n}, {"memory.swap.max", "0", true}},
			v1: []setting{{file: "memory.limit_in_bytes", value: n}, {"memory.memsw.limit_in_bytes", n, true}},
		})
	}
	if l.Pids > 0 {
		most := []setting{{file: "pids.max", value: strconv.Itoa(l.Pids)}}
		all = append(all, controllerLimit{controller: Pids, v2: most, v1: most})
	}
	if l.CPU > 0 {
		quota := strconv.Itoa(max(minCPUQuota, int(l.CPU*cpuPeriod)))
		period := strconv.Itoa(cpuPeriod)
		all = append(all, controllerLimit{
			controller: CPU,
			v2:         []setting{{file: "cpu.max", value: quota + " " + period}},
			v1: []setting{
				{file: "cpu.cfs_period_us", value: period}, {file: "cpu.cfs_quota_us", value: quota},
			},
		})
	}
	return all
}
