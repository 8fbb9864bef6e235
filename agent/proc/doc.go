// Package proc runs a worker process: the proc, its router for casts, and the proc agent. The proc
// agent spawns and stops actors on behalf of controllers.
//
// # Use
//
// A program that can be a worker calls Main first, with the actor types it defines:
//
//	func main() {
//		proc.Main(counter.Define(newCounter, add.Handle((*Counter).add)))
//		// from here on: the program as its user started it
//	}
//
// Main never returns in a process launched by a host. In any other process it returns at once. Thus
// one executable serves as the program and as its workers.
//
// # Contract
//
//   - PROC-1 (ready): A proc reports ready only after the server has all its subscriptions. The
//     report is the first message of the proc on the bus.
//   - PROC-2 (lifeline): The process ends when its host ends, whatever its actors do, after at most
//     2 s of cleanup.
//   - PROC-3 (SIGTERM): SIGTERM stops the actors, each after its accepted messages, and exits with
//     0. A second SIGTERM exits at once with 1. A kept proc first waits for another host, up to
//     Bootstrap.AdoptionTimeout.
//   - PROC-4 (actor names): An actor's name belongs to one spec. Another spec under it is a
//     conflict (AGT-1). The agent remembers the newest 1,024 ended actors.
//   - PROC-5 (adoption): A host needs the launch nonce to adopt a proc.
//
// # Failure
//
// A bad bootstrap, an unreachable bus or a refused build ends the process with exit code 1 and one
// line on stderr. The host reports both.
package proc
