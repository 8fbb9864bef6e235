package local

// Workload is one thing to measure.
type Workload struct {
	Name string
	Unit string
	Size int  // how much one repeat does
	More bool // more is better
	// Fresh says that each repeat needs a process of its own: what an earlier one left in the heap
	// and in the library would be part of the number.
	Fresh bool
	run   func(*stage) (float64, error)
}

// Workloads are all there are, in the order of a report.
func Workloads() []Workload {
	const ns, ms = "ns", "ms"
	return []Workload{
		{Name: "local-tell-1to1-0B", Unit: ns, Size: 1_000_000, run: tell(1, sendSame)},
		{Name: "local-tell-4to1-0B", Unit: ns, Size: 1_000_000, run: tell(4, sendSame)},
		{Name: "local-tell-1to1-64B", Unit: ns, Size: 1_000_000, run: tell(1, sendFresh)},
		{Name: "local-tell-4to1-64B", Unit: ns, Size: 1_000_000, run: tell(4, sendFresh)},
		{Name: "local-ask-p50", Unit: ns, Size: 100_000, run: askOne},
		{Name: "local-ask-64", Unit: "asks/s", Size: 200_000, More: true, run: askMany},
		{Name: "spawn-time", Unit: ns, Size: 100_000, Fresh: true, run: spawnTime},
		{Name: "spawn-bytes", Unit: "B", Size: 100_000, Fresh: true, run: spawnBytes},
		{Name: "rss-per-million-actors", Unit: "MiB", Size: 1_000_000, Fresh: true, run: spawnRSS},
		{Name: "savina-pingpong", Unit: ms, Size: 400_000, run: pingpong},
		{Name: "savina-counting", Unit: ms, Size: 4_000_000, run: counting},
		{Name: "savina-forkjoin-throughput", Unit: ms, Size: 50_000, run: forkjoinThroughput},
		{Name: "savina-forkjoin-create", Unit: ms, Size: 20_000, run: forkjoinCreate},
		{Name: "savina-threadring", Unit: ms, Size: 800_000, run: threadring},
		{Name: "savina-chameneos", Unit: ms, Size: 400_000, run: chameneos},
		{Name: "savina-big", Unit: ms, Size: 8_000, run: big},
	}
}

// Find is the workload of that name.
func Find(name string) (Workload, bool) {
	for _, w := range Workloads() {
		if w.Name == name {
			return w, true
		}
	}
	return Workload{}, false
}
