// Package cgroup gives each child of a launcher a control group of its own. A group limits the
// child's whole tree of processes, kills it, and counts it.
//
//	m := cgroup.Open(cgroup.Options{Owner: stateDir})
//	defer m.Close()
//	g, refused, err := m.Create("workers-0", true, cgroup.Limits{Memory: 64 << 20})
//	...                              // fork into g.Dir, then g.AddProcess where needed
//	g.KillAndWait(5 * time.Second)   // every process of the tree
//	g.Remove(0)
//
// Trees need cgroup v2 with cgroup.kill (Linux 5.14), in a cgroup that this process may divide.
// [Manager.Unavailable] has the reason if there is none. A limit needs its controller, delegated in
// v2 or in a v1 hierarchy. A group in a v1 hierarchy only limits.
//
// A manager's own directory is castnet-OWNER-RANDOM, with keep.NAME.N or stop.NAME.N for each
// group. It is locked as long as the manager lives. So the directories of dead managers are known,
// and [Manager.KillLeftovers] ends what they left.
//
// # Invariants
//
//   - CGR-1 (own groups only): No directory is killed or removed, and no recorded group is
//     adopted, unless a manager made it. KillLeftovers spares the groups of live managers, and the
//     kept groups of other owners.
//
// The point at which tests kill the process (see internal/failpoint):
//
//   - census-killed: a dead manager's group was killed, its directory exists
package cgroup
