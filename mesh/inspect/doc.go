// Package inspect answers what a mesh is and how it is: its ranks by outcome, its owner, its
// failures, its hosts, its actors, links and counters.
//
// Mesh asks the owner, the hosts and the procs of one mesh, and merges their reports into a View. A
// world has the system controller as its owner. View.Explanation says why a mesh is not running,
// what happens next without a person, and what a person can do. Meshes, Procs, Actors, Links and
// Failures are lists; a Sampler counts messages. GroupRanks and Reasons turn the outcomes of many
// ranks into the few regions that share one.
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
//   - INS-1 (bounded): A query waits two seconds for reports at most, asks 64 parties at a time,
//     and ends with its context. It asks and changes nothing.
//   - INS-2 (silence is named): What did not answer is named: an owner, a host, or a rank in a
//     View, and in lists by an error beside the records of the others.
//   - INS-3 (precedence): The owner's report overrides that of hosts. Of several generations of a
//     rank the newest counts.
//   - INS-4 (every rank once): In the groups of a View every rank of the mesh occurs exactly once.
//   - INS-5 (pure explanation): An Explanation is a function of its View and of the present time
//     alone. Its causes are ordered: hosts, owner, ranks, actors.
package inspect
