// Command pingpong plays table tennis between two hosts. It shows the cost of a message between
// processes, that each arrives once, and how actors exchange refs in messages.
//
//	go run ./examples/pingpong
//
// It starts a NATS server and two hosts in this process. Each host has four procs, processes with
// this program. One cast makes each player of host 0 serve to the partner whose ref is in the
// message. Each ball carries the ref of its last hitter.
//
// After the last ball the program asks the players for their hits, and fails if the sum is not
// exact. During the match the same question feeds the status line.
//
// Everything ends with the program: at the end, with Ctrl-C (exit code 130), and when it is killed.
// An error goes to stderr, with exit code 1.
package main
