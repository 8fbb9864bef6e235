// Package top prints message rates and queues of hosts and procs once: what `castnet top` shows
// without a terminal. Package screen is what it shows on one.
//
// A Sampler asks every live proc for its counters and compares them with the sample before. Once
// prints one table or document after two samples. Hosts without an answer stay in the list.
package top
