package launch

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/castnet-io/castnet/internal/cgroup"
)

// Limits bound one child with its whole tree; zero means none. Child.Unenforced lists limits
// without effect on this system.
type Limits struct {
	Memory int64   // bytes, swap included
	Pids   int     // processes and threads
	CPU    float64 // cores: 1.5 is one and a half
	CPUs   []int   // numbers of the CPUs it may run on
	Files  uint64  // open descriptors of each process
}

// ProcessLimits are limits of the kernel for each child, and for each process that it starts; zero
// means those of this process. They bound Limits, too. A child of root may raise its own.
type ProcessLimits struct {
	Files        uint64 // open descriptors of one process
	Processes    uint64 // processes and threads of the user of children; no limit for root
	AddressSpace uint64 // bytes of one process
}

const (
	minFiles        = 32
	minAddressSpace = 256 << 20
)

// maxCPU bounds the number of cores, and the numbers of CPUs.
const maxCPU = 1024

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

// Names of limits in messages.
func (l *Limits) cpusName() string  { return fmt.Sprintf("cpus %v", l.CPUs) }
func (l *Limits) filesName() string { return fmt.Sprintf("files %d", l.Files) }

// controllerName names the limit of a cgroup controller.
func (l *Limits) controllerName(controller string) string {
	switch controller {
	case cgroup.Memory:
		return "memory " + formatBytes(l.Memory)
	case cgroup.Pids:
		return fmt.Sprintf("pids %d", l.Pids)
	default:
		return fmt.Sprintf("cpu %v cores", l.CPU)
	}
}

// tree holds all descendants of a child: its cgroups, and its limits without effect.
type tree struct {
	cgroup.Group
	unenforced []string // with reasons
}

func (t *tree) addUnenforced(what string, err error) {
	t.unenforced = append(t.unenforced, fmt.Sprintf("%s: %v", what, err))
}

// createTree makes the cgroups of a child, before the fork.
func (l *Launcher) createTree(spec *Spec) (*tree, error) {
	limits := cgroup.Limits{Memory: spec.Limits.Memory, Pids: spec.Limits.Pids, CPU: spec.Limits.CPU}
	group, refused, err := l.cgroups.Create(spec.Name, spec.Keep, limits)
	t := &tree{Group: group}
	for _, r := range refused {
		t.addUnenforced(spec.Limits.controllerName(r.Controller), r.Err)
	}
	return t, err
}

// formatBytes formats a number of bytes, such as "64 MiB".
func formatBytes(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if by := int64(1) << (30 - 10*i); n >= by && n%by == 0 {
			return fmt.Sprintf("%d %s", n/by, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
