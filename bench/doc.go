// Command bench measures castnet against baselines in the same run.
//
//	go run -C bench . -only 'call|cast' -repeats 9
//
// Each row is one line on stdout, and the last line says whether the machine was disturbed:
//
//	row=call-latency ours=… base=… base_name=nats-request unit=us ratio=… n=9
//	canary=spin median=… min=… max=… unit=ms spread=… n=… disturbed=no
//
// What a person wants to know meanwhile goes to stderr.
//
// # Rows
//
//   - call-latency, call-latency-p99: a Call of 64 bytes, answered with the same, to an actor in
//     another process; against a NATS request and its reply between two processes.
//   - cast-gather-8: a cast of 64 bytes to 8 processes, every answer of 64 bytes brought home;
//     against one publish to a subject that 8 processes subscribe, and their 8 replies.
//   - cast-reduce-8: the same cast, its answers folded to one number on the way; against the same
//     publish and replies, summed up by who asked.
//   - spawn-8: HostMesh.Spawn of 8 procs until it returns; against 8 times exec of the same
//     program, which connects and says so on a subject.
//
// Latencies are the median (or the 99th percentile) of one repeat of -samples messages, one in
// flight.
//
// # Method
//
//   - BENCH-1: ours and the base are measured in the same run, between the same kinds of processes
//     and through the same server, in turns: ours, base, ours, base …
//   - BENCH-2: each side has a repeat that does not count before the first that does, and this
//     process collects its garbage before each.
//   - BENCH-3: a row shows medians over the repeats; its ratio is the median of ours over that of
//     the base. Only ratios of one run mean something.
//   - BENCH-4: the same fixed work on every CPU is timed before and after each measurement. When
//     its spread exceeds 10 % of its median, something else was running, and the last line says so.
//   - BENCH-5: no process outlives a run that ends or is interrupted. When it is killed they follow
//     within seconds.
//
// The server, the host agent, and everybody who answers are processes of their own: this program
// again, in the role that an environment variable names. All run on loopback ports the system
// chooses. Each ends when the pipe on its stdin does, which no end of its parent can prevent.
//
// # Failure
//
// A flag that makes no sense is exit code 2; a measurement that fails, or is interrupted, ends the
// run with exit code 1. Rows that were finished before stand. A step that hangs fails after 30 s.
package main
