// Command bench measures castnet against baselines in the same run.
//
//	go run -C bench . -only 'call|cast' -repeats 9
//
// Each row is one line on stdout, and the last line says whether the machine was disturbed:
//
//	row=call-latency ours=… base=… base_name=nats-request unit=us ratio=… n=9
//	canary=spin median=… min=… max=… unit=ms spread=… n=… disturbed=no
//
// Progress goes to stderr, with a line for each contender of a row: name, median, minimum and
// maximum.
//
// # Rows between processes
//
//   - call-latency, call-latency-p99: a Call of 64 bytes, answered with the same, to an actor in
//     another process; against a NATS request and its reply between two processes.
//   - cast-gather-8-hostd: a cast of 64 bytes to 8 procs of one hostd, every answer of 64 bytes
//     brought home; against one publish to a subject that 8 processes subscribe, and their 8
//     replies.
//   - cast-reduce-8-hostd: the same cast, its answers folded to one number on the way; against the
//     same publish and replies, summed up by who asked.
//   - spawn-8: HostMesh.Spawn of 8 procs until it returns; against 8 times exec of the same
//     program, which connects and says so on a subject.
//
// # Rows of processes
//
//   - procs-ready-16, procs-ready-48, procs-ready-200: HostMesh.SpawnProcs of as many procs on one
//     host until it returns; against exec of the same program, as often and as many launched at a
//     time, which connects, subscribes and says that it is ready.
//   - procs-stop-200: ProcMesh.Stop of 200 procs until it returns; against host.StopBound for as
//     many.
//   - first-reply-ms: from asking for a proc until an actor that was then spawned in it has
//     answered a call; against a millisecond.
//   - control-messages-100x10: all messages of one operation on a mesh of 100 hosts of 10 procs, as
//     a subscriber of `castnet.>` counts them, but for heartbeats: of spawn, status and stop the
//     one that has the most; against the number of hosts. The hosts are simulated: they share a
//     process with each other and with their procs (host.Local). Notes have each operation by the
//     kinds of its subjects. TestControl_messagesGrowWithHostsNotProcs holds the bounds: requests
//     and replies at most 2 × hosts + 10, all messages at most 8 × hosts.
//   - hostd-idle-cpu: percent of a CPU that a host with the server in its process takes for 30 s,
//     while its 64 procs have nothing to do; against 1.
//   - detect-actor-p99-ms: from sending an actor a message that fails it, by an error or a panic,
//     until its owner, in a process that is neither the actor's nor the host's, is told; of 40
//     actors in a repeat; against a millisecond.
//   - detect-proc-p99-ms: from SIGKILL of a proc until its owner is told and each of 4 calls that
//     waited for it has failed; of 40 procs in a repeat; against a millisecond. Notes of both have
//     the histogram of all repeats.
//   - controller-idle-cpu-100x10, controller-idle-messages-100x10, controller-burst-ms-100x10: a
//     process that owns 1,000 procs on 100 simulated hosts, and an actor in each: percent of a CPU
//     that it takes for 30 s while nothing happens, all messages on the bus in a second of that,
//     heartbeats included, and ms from one cast that fails the actors of one proc on each host
//     until it knows of all; each against 1. Notes have messages by kind, and the CPU time of the
//     burst.
//   - detect-host-p99-ms, detect-host-close-p99-ms: from SIGKILL of a host until a process that
//     watches it says that it is dead, of 20 hosts in a repeat; in the second one where a host
//     hears from its server which connections have ended; against a millisecond.
//   - false-deaths-starved: how many of four hosts are taken for dead in a minute in which they
//     share 5 % of a CPU with eight busy loops (where there are cgroups v1); against 1.
//   - bus-restart-recovery-ms: from when a server is back until four hosts are known to be alive
//     again; against a millisecond. No row when one was taken for dead.
//
// Latencies are the median (or the 99th percentile) of one repeat of -samples messages, one in
// flight.
//
// # Rows of meshes
//
//   - actor-spawn-512: µs of mesh.Spawn of an actor in each of 512 procs of 8 simulated hosts,
//     until it returns; against a gather of 64 bytes from as many actors there. A repeat has
//     -samples/100 of each.
//   - handle-bytes-1e5: bytes of heap that one holds who has read a handle on 100,000 ranks of
//     12,500 hosts, and has 16 slices of it and its text; against a mebibyte.
//
// # Rows of worlds
//
//   - worlds-reconcile-1000-ms: from the start of a system controller, just after its predecessor
//     was killed, until it has told that each of 1,000 worlds of 10 procs is live: it waits for the
//     lease, reads what is wanted and asks 20 hosts, which are imagined, what there is; against a
//     millisecond. Notes have its memory, and the CPU that it takes in 10 s in which nothing
//     happens.
//   - detached-reconcile-1000-ms: the same with 1,000 detached meshes of 10 procs beside the
//     worlds, until the hosts have heard who owns each.
//
// # Rows of casts
//
// They cast 64 bytes to N ranks, which are spread over 8 processes (one for N=1), with the server
// in a process of its own: package bench/casts says what each side does. N is 1, 8, 64, 512 and
// 4096.
//
//   - cast-reduce-N, cast-gather-N: µs until the answers are home, as their sum, or 64 bytes of
//     each rank; one cast at a time.
//   - cast-reduce-N-inflight8, cast-gather-N-inflight8: such casts per second, with 8 in flight, on
//     both sides.
//   - cast-post-N: µs until the caller knows that every rank has the message in its mailbox.
//   - cast-reduce-4096-naive: as cast-reduce-4096, against a publish and a reply for each rank.
//   - cast-slice-2-of-4096: µs of a gather from two of the 4096 ranks, in different processes;
//     against a call of one.
//   - cast-per-rank-growth: the time of cast-reduce-4096 over the number of ranks, in ns; against
//     that of cast-reduce-64.
//   - all but the last with -embedded at the end: the same with the server in the process that
//     casts, on both sides.
//
// The base of the first three is one publish, which every process hands to a goroutine for each of
// its ranks, and one reply from each process. The median is of -samples casts, or fewer in
// proportion to the ranks when they are more than 256; with 8 in flight there are 8 times as many.
//
// # Rows of the gateway
//
//   - gateway-overhead: µs of a cast of 64 bytes to 8 procs of one hostd, folded to a sum, asked
//     for by one plain NATS request; against the same cast by this program itself.
//   - gateway-casts-per-second: such casts per second, with 8 in flight; against NATS requests to
//     one process, as many in flight.
//
// # Rows of messages between processes
//
// They compare what one process can send to one actor of another, over TCP on loopback: package
// bench/remote says what each of the workloads does, bench/ours how castnet takes part.
//
//   - remote-tell-64B, remote-tell-1KiB: messages per second of a burst of 1,000,000 or 200,000,
//     from one goroutine, until the last is handled.
//   - remote-ask-p50, remote-ask-p99: µs of an ask of 64 bytes, answered with the same, one in
//     flight; of 10,000.
//   - remote-ask-64: asks per second from 64 goroutines, of 64,000.
//   - route-burst-lost: how many of 500,000 messages of 1 KiB were lost between two servers that
//     are joined by a route, the sender connected to one and the receiver to the other.
//   - flood-rss: the most memory, in MiB, that a sender had resident which sent messages of 1 KiB
//     for 6 s to a process that was stopped (SIGSTOP).
//
// With -nats at the end the base is plain NATS (bench/raw) on the same server: publish without a
// wait, and one flush for a burst; request for an ask. Its rate does not count lost messages, and a
// note says so. Where castnet or a peer loses a message, there is no row. With -peer it is the best
// of the peers with their own remoting and its defaults. It has no server between, which castnet
// has: in a process of its own or, with -embedded at the end, in the receiver's. The two last rows
// have a base of plain NATS and no suffix; the servers of the first are in the processes of sender
// and receiver.
//
// For each repeat a note says what a message cost in each process: CPU time, and the bytes written
// and the system calls that wrote them (where there is a /proc).
//
// # Rows within one process
//
// They compare actor runtimes: package bench/local says what each of the workloads does, bench/ours
// how castnet takes part. The base is the best of the peers, which are other actor libraries for Go
// (their programs are in bench/peers), each used as its own documentation and benchmarks use it.
//
//   - local-tell-1to1-0B, local-tell-4to1-0B, local-tell-1to1-64B, local-tell-4to1-64B: ns per
//     message, of 1,000,000 that 1 or 4 goroutines send to one actor.
//   - local-ask-p50: ns of an ask, one in flight; the median of 100,000.
//   - local-ask-64: asks per second from 64 goroutines to one actor, of 200,000.
//   - spawn-time, spawn-bytes: ns until an actor has started, and bytes of heap and stack while it
//     is idle, for each of 100,000.
//   - savina-pingpong, savina-counting, savina-forkjoin-throughput, savina-forkjoin-create,
//     savina-threadring, savina-chameneos, savina-big: ms for all of it.
//   - the first eight with -floor at their end: the same against mutexq, which is a mutex, two
//     slices and a goroutine (bench/floor).
//
// In what is per second (local-ask-64, remote-tell and remote-ask-64, casts with 8 in flight, with
// all their suffixes) more is better, and so is a ratio above 1; in all other rows less is. When
// both sides are 0 the ratio is 1. -shrink divides what is done in rows that -samples says nothing
// about, to try them out: the numbers then mean little.
//
// # Method
//
//   - BENCH-1: ours and the bases are measured in the same run, between the same kinds of processes
//     and, where there is a server, through the same one, in turns: ours, base, ours, base …
//   - BENCH-2: each side has a repeat that does not count before the first that does, and the
//     process that measures collects its garbage before each.
//   - BENCH-3: a row shows medians over the repeats; its ratio is the median of ours over that of
//     the base. Only ratios of one run mean something.
//   - BENCH-4: the same fixed work on every CPU is timed before and after each measurement. When
//     its spread exceeds 10 % of its median, something else was running, and the last line says so.
//   - BENCH-5: no process outlives a run that ends or is interrupted. When it is killed they follow
//     within seconds.
//   - BENCH-6: where there are several bases, the row shows the one with the best median in this
//     run, by the direction of the row. When one of them cannot be had there is no row.
//   - BENCH-7: a peer is pinned to the version that base_name shows, in a module of its own, so
//     that it runs with the dependency versions it chooses itself. It is built when a row needs it.
//   - BENCH-8: within one process, everybody (ours and the floor, too) is a child that is asked for
//     the workload and does nothing between its turns. It has a new system for each repeat, and is
//     a new process where actors are spawned. Messages between processes are measured the same way,
//     between two children, which are new ones for each repeat where it may leave them in disorder
//     (route-burst-lost, flood-rss).
//
// The server, the host agent, and everybody who answers are processes of their own: this program
// again, in the role that an environment variable names, or a peer. All run on loopback ports the
// system chooses. Each ends when the pipe on its stdin does, which no end of its parent can
// prevent.
//
// # Failure
//
// A flag that makes no sense is exit code 2. A repeat that fails is done once more, with a note
// that says why. A row that fails again is no line; the others are measured all the same, and the
// run ends with exit code 1 and says why. So does a run that is interrupted, at once. A step that
// hangs fails after 40 s, the build of a peer after 10 minutes.
package main
