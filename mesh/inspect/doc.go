// Package inspect answers what a mesh is and how it is: its ranks by outcome, its owner, its
// failures, its hosts, its actors, links and counters.
//
// Mesh asks the owner, the hosts and the procs of one mesh, and merges their reports into a View.
// A world has the system controller as its owner. View.Explanation says why a mesh is not running,
// what happens next without a person, and what a person can do. Meshes, Procs, Actors, Links,
// Casts and Failures are lists; a Sampler counts messages. GroupRanks and Reasons turn the
// outcomes of many ranks into the few regions that share one.
//
//	v, _, err := inspect.Mesh(ctx, conn, "demo")
//	if err != nil {
//		return err
//	}
//	fmt.Println(v.Explanation().Answer) // demo-… is running with 3 of its 4 ranks
//
// The JSON names of all types are stable.
//
// # Contract
//
//   - INS-1 (queries): A query asks 64 parties at a time, waits two seconds for reports at most,
//     ends with its context, and changes nothing. It names each owner, host and rank that did not
//     answer.
//   - INS-3 (every rank once): The groups of a View have every rank of the mesh exactly once. The
//     owner's report of a rank overrides that of hosts, and of several generations the newest
//     counts.
//   - INS-5 (pure explanation): An Explanation is a function of its View and of the present time
//     alone. Its causes are ordered: hosts, owner, ranks, actors.
//
// # Details
//
// A list has an error for the silent parties beside the records of the others.
package inspect
