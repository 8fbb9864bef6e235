// Command philosophers lets five philosophers dine, each in its own process, and one die at the
// table. It shows late replies, monitors, and the effects of a death.
//
//	go run ./examples/philosophers
//
// It starts a NATS server and two hosts in this process. The philosophers run on one host, the
// forks on the other, each in a proc, a process with this program. One cast asks all philosophers
// to dine, with refs of the forks in the message. Each replies after its last meal.
//
// Laozi (or the name in -choke) ends his process during the third meal, a fork in each hand. Each
// fork monitors its holder, so both forks are free a moment later, and the others dine on. The
// program owns the philosophers: it receives the death with the last lines of the process. The
// result of its cast names the missing rank.
//
// No philosopher starves and no deadlock occurs. A philosopher takes the fork with the lower number
// first, so a waiting one holds lower forks only. The numbers grow along any chain of waits, and no
// chain is a circle. A fork serves requests in order.
//
// Dinner ends when every philosopher is full or dead. The program then replays the meals by the
// clock, and fails if two philosophers ever held one fork.
//
// Everything ends with the program: at the end, with Ctrl-C (exit code 130), and when it is killed.
// An error goes to stderr, with exit code 1.
package main
