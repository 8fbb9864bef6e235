package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// nodesDir describes the NUMA nodes of the machine.
const nodesDir = "/sys/devices/system/node"

// UsableCPUs returns the CPUs of a list and those of NUMA nodes, for Limits.CPUs. It refuses a CPU
// that this process may not use.
func UsableCPUs(cpus, nodes []int) ([]int, error) {
	if len(cpus)+len(nodes) == 0 {
		return nil, nil
	}
	all := slices.Clone(cpus)
	for _, node := range nodes {
		text, err := os.ReadFile(filepath.Join(nodesDir, fmt.Sprintf("node%d", node), "cpulist"))
		if err != nil {
			return nil, fmt.Errorf("NUMA node %d: %w", node, err)
		}
		of, err := parseCPUs(strings.TrimSpace(string(text)))
		if err != nil {
			return nil, fmt.Errorf("NUMA node %d: %w", node, err)
		}
		all = append(all, of...)
	}
	var usable unix.CPUSet
	if err := unix.SchedGetaffinity(0, &usable); err != nil {
		return nil, fmt.Errorf("cannot read the usable CPUs: %w", err)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for _, cpu := range all {
		if cpu < 0 || cpu >= maxCPU || !usable.IsSet(cpu) {
			return nil, fmt.Errorf("CPU %d: want one of the %d that this host may use", cpu, usable.Count())
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("NUMA nodes %v have no CPUs", nodes)
	}
	return all, nil
}

// parseCPUs parses a list such as 0-3,8.
func parseCPUs(text string) (cpus []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || last-first >= maxCPU {
			return nil, fmt.Errorf("CPUs %q: want a list such as 0-3,8", text)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
