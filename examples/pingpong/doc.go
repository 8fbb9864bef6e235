// Command pingpong plays table tennis between two hosts: it shows what a message from one process to
// another costs, that none is lost or doubled, and how actors find each other by refs in messages.
//
//	go run ./examples/pingpong
//
// It starts a NATS server and two hosts in this process, and on each host four procs, which are
// processes that run this very program. One cast to the players of host 0 tells each of them to serve
// to the partner whose ref is in the message; from then on each ball carries the ref of who hit it
// last. When all balls have been played, the players are asked how often they hit: that is exact, or
// the program fails. While they play, the same question folds into the status line.
//
// Everything ends with the program: at the end, with Ctrl-C (exit code 130), and when it is killed.
// An error goes to stderr, with exit code 1.
package main
