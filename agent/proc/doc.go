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
//   - PROC-2 (end): The process ends within 2 s of its host, whatever its actors do; a kept proc
//     first waits for another host with a proof. SIGTERM stops the actors, each after its
//     accepted messages; a second one exits at once.
//   - PROC-4 (actor names): An actor's name belongs to one spec. Another spec under it is a
//     conflict (AGT-1). The agent remembers the newest 1,024 ended actors.
//
// # Details
//
// A kept proc waits up to Bootstrap.AdoptionTimeout for another host. After SIGTERM the process
// exits with 0, after a second one with 1.
//
// # Failure
//
// A bad bootstrap, an unreachable bus or a refused build ends the process with exit code 1 and one
// line on stderr. The host reports both.
package proc
