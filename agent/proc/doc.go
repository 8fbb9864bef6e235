// Package proc is what a worker process runs: the proc, its router for casts, and the proc agent,
// which spawns and stops actors on behalf of controllers.
//
// # Use
//
// A program that can be a worker calls Main first thing, with the actor types it defines:
//
//	func main() {
//		proc.Main(counter.Made(newCounter, add.By((*Counter).add)))
//		// from here on: the program as its user started it
//	}
//
// A process that a host launched never returns from Main; any other returns at once. So one
// executable is both the program and its workers.
//
// # Contract
//
//   - PROC-1: Ready is said only once everything the proc subscribes has interest at its server,
//     and its first bytes on the bus are that word.
//   - PROC-2: the process ends when its host does (lifeline), whatever its actors are doing, after
//     at most 2 s of cleaning up.
//   - PROC-3: SIGTERM stops the actors, each after the messages it has accepted, then exits 0; a
//     second SIGTERM exits at once with 1.
//     A proc that is to be kept waits for another host, Bootstrap.Orphan at most, before it does so.
//   - PROC-4: an actor's name belongs to one spec; another one under it is a conflict (AGT-1). Of
//     actors that have ended the agent remembers the newest 1,024.
//   - PROC-5: only a host that knows the nonce of the one that launched a proc can adopt it.
//
// # Failure
//
// A bootstrap that cannot be read, a bus that cannot be reached, a host that refuses the build: one
// line on stderr and exit code 1; the host reports both.
package proc
