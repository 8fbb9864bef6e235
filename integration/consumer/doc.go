// Command consumer is a program outside the castnet module. It imports what users import, public
// packages only, so that it does not compile when they need anything internal.
//
//	make consumer
//
// It is a whole system in one process: a NATS server, a host, and a client that spawns four procs,
// which run this very program, and counts in them by a call, a cast and a fold. It prints what came
// back and exits 0, or says what is wrong and exits 1. Everything ends with it.
//
// Its module stands for one of a user's; the replace directive stands for a version to be had.
package main
