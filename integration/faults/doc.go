// Package faults tests whole systems while something is broken: real processes, a real NATS server
// and a proxy between each process and the server that can be told to hurt it. It has no code that
// anybody could import; packages chaos (the proxy) and history (what processes write down, and the
// checker that judges it) do.
//
//	go test -C integration/faults ./...                           a sample, about 100 s
//	make faults                                                   all of it, some hours
//	FAULTS_RUNS=50 go test -C integration/faults -run F14         so many runs of one fault
//	FAULTS_RUNS=1 FAULTS_SEED=17 go test -C integration/faults -run F14    one run again; with
//	    -artifacts -outputdir DIR the histories and what all processes said stay there
//
// A run is a world of its own: a server, workers (each this test binary again, with a proc, actors
// that send and actors that record) and their proxies. Everything random in it comes from its seed,
// which is in the name of its subtest; what the kernel and the scheduler do does not. When all runs
// of a fault are over, one line sums up what was found and says how many there were. The faults
// have the numbers of the project's fault matrix. Tests that mostly wait run side by side, those
// that measure speed, memory or delay by themselves.
//
// # Invariants
//
// Of every run, whatever its fault:
//
//   - FLT-1: no message is lost, handled twice or handled after a later one of its stream (DEL-1,
//     DEL-3, DEL-4).
//   - FLT-2: no message that was said to be undeliverable is handled (DEL-2).
//   - FLT-3: no actor handles what was addressed to another incarnation (DEL-5).
//   - FLT-4: every message of a sender that lives has a fate in bounded time: Proc.Flush returns
//     (DEL-1), and where messages have deadlines none comes long after.
//   - FLT-5: no process ends but those that the test ends, and those exit 0. None outlives its
//     test.
//
// Of faults that kill no process and after which no process is away for longer than others:
//
//   - FLT-6: nothing is indeterminate, but messages whose deadline is over before the fault is (of
//     F14 with deadlines all have some milliseconds, of F17 those of every third run 100).
//
// Of casts:
//
//   - FLT-8: each rank that lives handles each cast once, and in order with direct messages of its
//     sender; those who are said to have answered, failed and be missing are all who were asked,
//     and what was folded is of exactly those who answered. Only silent ranks, and ranks that fold
//     for them, are missing; only dead ranks fail (CAST-1 to CAST-6).
//
// Of pressure:
//
//   - FLT-7: the server cuts nobody for reading slowly, a sender's memory has a bound, and calls to
//     others are answered (DEL-6, DEL-7).
//
// That the checker finds what is planted is tested in package history; that faults bite, by
// TestControl_cutLosesMessagesOfPlainNATSOnly, which sends by NATS without castnet's links.
//
// Of hosts, whose hostd is killed, starved, or given procs that behave badly (F2 to F5, F23, F26,
// F27, F29):
//
//   - FLT-9: of a rank and generation one process lives at most, and none after its host was
//     stopped (HOST-3, HOST-5, HOST-6, HOST-10).
//
// Of hosts as others see them (F3, F9 to F11, F15):
//
//   - FLT-11: whatever becomes of the system controller or the server, no proc of a world ends or
//     is started twice, nothing that was declared is forgotten, and one controller answers (F7,
//     F11: WORLD-10, WORLD-13).
//   - FLT-10: a host is dead to those who watch it when it is killed, stopped or cut off for the
//     full time, and never because it or the watcher is starved, or the server is away (package
//     presence).
//
// Of meshes under controllers (F1, F6 to F10, F15, F30):
//
//   - FLT-11: the owner is told of each end once, with its cause, and of none that was not: a proc,
//     a host or an owner that is stopped or starved for a while ends nobody. The meshes of a killed
//     owner end with its lease, and no others do. Casts and calls wait for nobody who is known to
//     be dead (CTL-3, CTL-4, CTL-8).
//
// # Limits
//
// Loss of single packets: a proxy cannot make it on TCP. Host agents, in tests of messages: where a
// process is killed, the test itself tells the others, as a host agent does, or nobody does. Zero
// found in n messages is an upper bound of 3/n, at 95 %, and no more.
//
// The tests look into /proc and stop processes, so they are for Linux.
package faults
