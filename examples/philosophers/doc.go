// Command philosophers has five philosophers dine, each a process of its own, and one of them die at
// the table: it shows answers that are given later, monitors, and what a death does to those around.
//
//	go run ./examples/philosophers
//
// It starts a NATS server and two hosts in this process. On one host are the philosophers, on the
// other the forks, each in a proc, which is a process that runs this very program. One cast asks all
// philosophers to dine, with the refs of the forks in the message; each answers when it has had its
// meals. Laozi (-choke says who) ends his process during the third, a fork in each hand. Each fork
// monitors its holder, so both are free again a moment later, and the others dine on. The program, which
// owns the philosophers, is told of the death with the last words of the process, and the answer to its
// cast names the rank that is missing.
//
// Nobody starves and nothing locks up. A philosopher takes the fork with the lower number first: who
// waits for a fork holds lower ones only, so the numbers grow along any chain of those who wait for
// each other, and no chain is a circle. A fork goes to who asked first.
//
// Dinner is over when everybody has had all meals, or is dead. The program then replays the meals by
// the clock, and fails if a fork was ever held by two.
//
// Everything ends with the program: at the end, with Ctrl-C (exit code 130), and when it is killed.
// An error goes to stderr, with exit code 1.
package main
