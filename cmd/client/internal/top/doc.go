// Package top is the screen of `castnet top`: message rates and queues of hosts and procs.
//
// A Sampler asks every live proc for its counters and compares them with the sample before. Once
// prints one table after two samples; Live redraws a terminal until it is interrupted. Hosts
// without an answer stay in the list.
package top
