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
// maximum. At the end all rows follow as a table for people. Package bench/figures makes the plots of
// docs/performance.md from it.
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
//     and replies at most 4 × hosts + 10, audit records at most 2 × hosts + 2, all other messages at
//     most 12 × hosts.
//   - hostd-idle-cpu: percent of a CPU that a host with the server in its process takes for 30 s,
//     while its 64 procs have nothing to do; against 1.
//   - detect-actor-p99-ms: from sending an actor a message that fails it, by an error or a panic,
//     until its owner, in a third process, learns of it; of 40 actors in a repeat; against a
//     millisecond.
//   - detect-proc-p99-ms: from SIGKILL of a proc until its owner learns of it and each of 4 calls
//     that waited for it has failed; of 40 procs in a repeat; against a millisecond. Notes of both
//     have the histogram of all repeats.
//   - controller-idle-cpu-100x10, controller-idle-messages-100x10, controller-burst-ms-100x10: a
//     process that owns 1,000 procs on 100 simulated hosts, and an actor in each: percent of a CPU
//     that it takes for 30 s while nothing happens, all messages on the bus in a second of that,
//     heartbeats included, and ms from one cast that fails the actors of one proc on each host
//     until it knows of all; each against 1. Notes have messages by kind, and the CPU time of the
//     burst.
//   - detect-host-p99-ms, detect-host-close-p99-ms: from SIGKILL of a host until a watching process
//     reports it as dead, of 20 hosts in a repeat; against a millisecond. In the second row a host
//     relays the disconnects that its server reports.
//   - false-deaths-starved: how many of four hosts are reported dead within a minute, while they
//     share 5 % of a CPU with eight busy loops (needs cgroups v1); against 1.
//   - bus-restart-recovery-ms: from when a server is back until four hosts are known to be alive
//     again; against a millisecond. There is no row if one was reported dead.
//
// Latencies are the median (or the 99th percentile) of one repeat of -samples messages, one in
// flight.
//
// # Rows of meshes
//
//   - actor-spawn-512: µs of mesh.Spawn of an actor in each of 512 procs of 8 simulated hosts,
//     until it returns; against a gather of 64 bytes from as many actors there. A repeat has
//     -samples/100 of each.
//   - subs-per-process: subscriptions that a server has of each of 64 procs of a mesh in one
//     dimension, with an actor in each that was cast to; against one.
//   - handle-bytes-1e5: bytes of heap for a handle on 100,000 ranks of 12,500 hosts as read from
//     text, with 16 slices of it and its text; against a mebibyte.
//
// # Rows of worlds
//
//   - worlds-reconcile-1000-ms: from the start of a system controller, just after its predecessor
//     was killed, until it has reported each of 1,000 worlds of 10 procs as live; against a
//     millisecond. It waits for the lease, reads the worlds and asks 20 simulated hosts for their
//     procs. Notes have its memory, and its CPU time in 10 s without events.
//   - detached-reconcile-1000-ms: the same with 1,000 detached meshes of 10 procs beside the
//     worlds, until the hosts have heard who owns each.
//
// # Rows of casts
//
// They cast 64 bytes to N ranks in 8 processes (one for N=1), with the server in a process of its
// own. Package bench/casts describes both sides. N is 1, 8, 64, 512 and 4096.
//
//   - cast-reduce-N, cast-gather-N: µs until the answers are home, as their sum, or 64 bytes of
//     each rank; one cast at a time.
//   - cast-reduce-N-inflight8, cast-gather-N-inflight8: such casts per second, with 8 in flight, on
//     both sides.
//   - cast-post-N: µs until the caller knows that every rank has the message in its mailbox.
//   - cast-reduce-100000: cast-reduce-N with 12,500 ranks in a process. Each process stands for a
//     host; hostd runs fewer procs in one. Needs 6 GB of memory.
//   - cast-reduce-64-64KiB, cast-reduce-64-1MiB, cast-reduce-64-16MiB: cast-reduce-64 with messages of
//     that size. Plain NATS sends 16 MiB as 16 messages, which each process joins.
//   - cast-gather-64-64KiB, cast-gather-64-1MiB: cast-gather-64 with messages and answers of that
//     size.
//   - cast-reduce-4096-naive: as cast-reduce-4096, against a publish and a reply for each rank.
//   - cast-slice-2-of-4096: µs of a gather from two of the 4096 ranks, in different processes;
//     against a call of one.
//   - cast-per-rank-growth: the time of cast-reduce-4096 over the number of ranks, in ns; against
//     that of cast-reduce-64.
//   - cast-reduce-512-in-64: 8 ranks in each of 64 processes. Notes of these three have the memory
//     for each rank with its share of a process, and of the caster for each process.
//   - cast-reduce-1024-in-128, cast-reduce-8192-in-1024: the same over 128 and 1,024 simulated hosts.
//     128 of them share a process, each with connections of its own. The latter needs 2 GB.
//   - all but the last four with -embedded at the end: the same with the server in the casting
//     process, on both sides.
//
// The base of the first three is one publish and one reply from each process. A process hands the
// message to a goroutine for each of its ranks. The median is of -samples casts, or fewer in
// proportion to the ranks when they are more than 256; with 8 in flight there are 8 times as many.
//
// # Rows of the gateway
//
//   - gateway-overhead: µs of one plain NATS request for a cast of 64 bytes to 8 procs of one
//     hostd, folded to a sum; against the same cast by this program itself.
//   - gateway-casts-per-second: such casts per second, with 8 in flight; against NATS requests to
//     one process, as many in flight.
//
// # Rows of messages between processes
//
// They compare messages from one process to one actor of another, over TCP on loopback. Package
// bench/remote describes the workloads, bench/ours castnet's side.
//
//   - remote-tell-64B, remote-tell-1KiB: messages per second of a burst of 1,000,000 or 200,000,
//     from one goroutine, until the last is handled.
//   - remote-ask-p50, remote-ask-p99: µs of an ask of 64 bytes, answered with the same, one in
//     flight; of 10,000.
//   - remote-tell-64KiB, remote-tell-1MiB, remote-tell-16MiB: bursts of 4,000, 250 and 16. With a
//     body above the server's limit of 1 MiB, plain NATS sends as many messages as it takes.
//   - remote-ask-64KiB, remote-ask-1MiB, remote-ask-16MiB with -p50 or -p99: the same of 1,000, 100
//     and 8 asks of that size.
//   - remote-ask-64: asks per second from 64 goroutines, of 64,000.
//   - route-burst-lost: lost messages of 500,000 of 1 KiB. Sender and receiver are connected to
//     two servers that are joined by a route.
//   - flood-rss: the largest resident memory, in MiB, of a sender that sends messages of 1 KiB for
//     6 s to a stopped process (SIGSTOP).
//
// With -nats at the end the base is plain NATS (bench/raw) on the same server: publish without a
// wait, and one flush for a burst; request for an ask. Its rate does not count lost messages, and a
// note says so. Where castnet or a peer loses a message, there is no row. With -peer it is the best
// of the peers with their own remoting and its defaults. It has no server between, which castnet
// has: in a process of its own or, with -embedded at the end, in the receiver's. The two last rows
// have a base of plain NATS and no suffix; the servers of the first are in the processes of sender
// and receiver.
//
// # Rows of permissions
//
// They compare users with permissions to users without any, through one server with tickets,
// over TCP on loopback. One process speaks in turns with N others, in one OS process without a shared
// connection. On the one side each process has a ticket, with the permissions of a proc; on the
// other it has the server's token, with all permissions. N is 1, 64, 128, 129 and 512: the
// server remembers 128 answers about a connection.
//
//   - tell-permissions-N: messages of 64 bytes per second, of 300,000 from one goroutine.
//   - ask-permissions-N: asks of 64 bytes per second from 64 goroutines, of 64,000.
//   - both with -cpu at the end: ns of CPU time of sender, receivers and server for each.
//   - publish-permissions-N: ns of CPU time of the server for a publish of 64 bytes in the form of a
//     packet to one of N processes in turns, without a receiver; of 20,000.
//
// For each repeat a note has the cost of a message in each process: CPU time, and, with a /proc,
// the written bytes, the system calls for them, and the most resident memory meanwhile.
//
// # Rows within one process
//
// They compare actor runtimes. Package bench/local describes the workloads, bench/ours castnet's
// side. The base is the best of the peers: other actor libraries for Go, with their programs in
// bench/peers. Each is used as its own documentation and benchmarks use it.
//
//   - local-tell-1to1-0B, local-tell-4to1-0B, local-tell-1to1-64B, local-tell-4to1-64B: ns per
//     message, of 1,000,000 that 1 or 4 goroutines send to one actor.
//   - local-ask-p50: ns of an ask, one in flight; the median of 100,000.
//   - local-ask-64: asks per second from 64 goroutines to one actor, of 200,000.
//   - spawn-time, spawn-bytes: ns until an actor has started, and bytes of heap and stack while it
//     is idle, for each of 100,000.
//   - rss-per-million-actors: MiB of resident memory that 1,000,000 idle actors add. goakt takes no
//     part, because it does not start them within a repeat.
//   - savina-pingpong, savina-counting, savina-forkjoin-throughput, savina-forkjoin-create,
//     savina-threadring, savina-chameneos, savina-big: ms for all of it.
//   - the first eight with -floor at their end: the same against mutexq, which is a mutex, two
//     slices and a goroutine (bench/floor).
//
// In rows per second more is better, and so is a ratio above 1: local-ask-64, remote-tell,
// remote-ask-64, tell-permissions and ask-permissions without -cpu, and casts with 8 in flight,
// with all their suffixes. In all other rows less is better. When both sides are 0 the ratio is 1.
// -shrink divides the work of rows without samples, to try them out: the numbers then mean little.
//
// # Method
//
//   - Castnet and the bases are measured in turns in one run, between the same kinds of processes
//     and through the same server, if there is one.
//   - Each side first has a repeat that does not count. The measuring process collects its garbage
//     before each repeat.
//   - A row shows medians over the repeats. Its ratio is the median of castnet over that of the
//     base. Only ratios of one run are comparable.
//   - The same fixed work on every CPU is timed before and after each measurement. If its spread
//     exceeds 10 % of its median, the last line reports a disturbance.
//   - BENCH-5 (processes): No process outlives a run that ends or is interrupted. After a kill of
//     the run they end within seconds.
//   - BENCH-6 (bases): Of several bases the row shows the one with the best median in this run;
//     without one of them there is no row. A peer is a module of its own, pinned to the version in
//     base_name.
//   - BENCH-8 (fresh systems): Within one process, each side is a child that is idle between its
//     turns, with a new system for each repeat, and a new process for spawns. Rows between
//     processes use two such children, new ones for route-burst-lost and flood-rss.
//
// # Details
//
// The direction of the row says which median is the best. A peer runs with its own dependency
// versions, and is built when a row needs it.
//
// The server, the host agent and all responders are separate processes: this program again, in a
// role named by an environment variable, or a peer. All use loopback ports chosen by the system.
// Each ends with the pipe on its stdin, however its parent ends.
//
// # Failure
//
// An invalid flag is exit code 2. A failed repeat runs once more, with a note of the reason. A row
// that fails again has no line. The other rows are still measured, and the run ends with exit code
// 1 and the reason. An interrupted run ends so at once. A step that hangs fails after 40 s, the
// build of a peer after 10 minutes.
package main
