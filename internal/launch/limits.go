package launch

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Limits bound one child with its whole tree; zero means none. What the kernel
// does not allow here is not in force, and Child.Unenforced says so.
type Limits struct {
	Memory int64   // bytes, swap included
	Pids   int     // processes and threads
	CPU    float64 // cores: 1.5 is one and a half
	CPUs   []int   // numbers of the CPUs it may run on
	Files  uint64  // descriptors each process may have open
}

// cpuPeriod is the kernel's default, in microseconds.
const (
	cpuPeriod   = 100_000
	minCPUQuota = 1_000 // the kernel takes no less
	maxCPU      = 1024
)

func (l *Limits) validate() error {
	switch {
	case l.Memory < 0:
		return fmt.Errorf("limit of %d bytes of memory", l.Memory)
	case l.Pids < 0:
		return fmt.Errorf("limit of %d processes", l.Pids)
	case l.CPU < 0 || math.IsNaN(l.CPU) || l.CPU > maxCPU:
		return fmt.Errorf("limit of %v CPU cores", l.CPU)
	case l.Files != 0 && l.Files <= lifelineFD:
		return fmt.Errorf("limit of %d descriptors: a child starts with %d", l.Files, lifelineFD+1)
	}
	for _, cpu := range l.CPUs {
		if cpu < 0 || cpu >= maxCPU {
			return errors.New("CPU " + strconv.Itoa(cpu) + " cannot exist")
		}
	}
	return nil
}

// How messages name a limit.
func (l *Limits) memoryName() string { return "memory " + size(l.Memory) }
func (l *Limits) pidsName() string   { return fmt.Sprintf("pids %d", l.Pids) }
func (l *Limits) cpuName() string    { return fmt.Sprintf("cpu %v cores", l.CPU) }
func (l *Limits) cpusName() string   { return fmt.Sprintf("cpus %v", l.CPUs) }
func (l *Limits) filesName() string  { return fmt.Sprintf("files %d", l.Files) }

// size is a number of bytes as people write it, such as "64 MiB".
func size(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if by := int64(1) << (30 - 10*i); n >= by && n%by == 0 {
			return fmt.Sprintf("%d %s", n/by, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
