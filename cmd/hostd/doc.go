// Command hostd makes a machine a host of a castnet. Without flags it is a whole system on one
// node: a NATS server, and the host agent that launches procs; with --nats it joins a bus that is
// there. `hostd --help` has the flags and examples.
//
// It serves casts of plain NATS clients, too, together with the other hosts (package cast/gateway).
//
// Its binary is also the program of procs with the built-in actors (package internal/builtin),
// which any program can spawn without having one of its own on the host.
//
// # Contract
//
//   - HOSTD-1: a start that fails leaves nothing: no server, no file, no process. It says why in
//     one line, and exits with a code of package internal/cli.
//   - HOSTD-2: the file for other programs of this user is there only while hostd serves them; it
//     belongs to the first hostd with a server of its own. Another one is refused, unless its
//     user knows how to reach it: by --nats-config, or --listen and a token.
//   - HOSTD-3: programs of the user besides hostd itself run without --allow only where nobody
//     else can ask: on a server of its own, on loopback, behind a token that ps does not show.
//   - HOSTD-4: SIGTERM and SIGINT drain: the file goes first, then procs are stopped and waited
//     for, then bus and server; exit code 0. A second signal ends hostd at once, with 1, and the
//     operating system ends the procs (HOST-6), as it does when hostd is killed.
//   - HOSTD-5: a bus that breaks for good ends hostd and its procs with code 6. A bus that is away
//     for a while does not. A host agent that fails ends both with code 1: nothing runs unwatched.
//     A gateway that loses its own connections for good ends nothing: another one is started.
//   - HOSTD-6: SIGUSR2 makes it a lame duck: the host is cordoned, and the reason says so; its procs
//     may end of themselves, within --lame-duck; then it drains and exits with 0, as it does at once
//     when it was asked over the bus to leave, and has stopped every proc. SIGTERM drains at once.
//   - HOSTD-7: with --http, GET /healthz is 200 while the host agent answers, and /readyz while it
//     takes procs: the agent answers, the bus is there, and the host is open. Else they are 503. The
//     answer is JSON: ok, reason, host, mode, procs. While hostd starts, /healthz is 200, and /readyz is 503 with what
//     hostd waits for.
//   - HOSTD-8: with --state-dir, hostd is the same host after its death: same ID, and a server of its own
//     has the same port and token. Meshes that are to be kept go on, and are adopted (HOST-10).
//   - HOSTD-9: where hostd may hear which connections to the bus have ended, it tells those who watch hosts: on a server
//     of its own without --nats-config, and anywhere with --system-creds. These are hints (package agent/presence).
//   - HOSTD-10: with a server of its own, or --system, it runs the system controller; one whose bus breaks is started
//     anew. With --world it is a host of that world from its start to its end, which it leaves before its procs stop.
//   - HOSTD-11: it runs commands for clients only with --allow-exec, or host.exec in its file or environment, and its log
//     says which program and who asked.
//   - HOSTD-12 (start): hostd with a system controller waits while JetStream does not answer, and its log says so. The host
//     starts last: no other program finds it, or spawns on it, before. A permission that is missing ends hostd.
package main
