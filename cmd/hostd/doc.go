// Command hostd makes a machine a castnet host. Without flags it is a whole system on one
// node: a NATS server, and the host agent that launches procs. With --nats it joins a running bus.
// See `hostd --help` for flags and examples.
//
// Together with other hosts it serves casts of plain NATS clients (package gateway).
//
// Its binary also runs procs with built-in actors (package internal/builtin). Any program can spawn
// them without its own binary on the host.
//
// # Contract
//
//   - HOSTD-1 (start): The host starts last, and is invisible before. A failed start leaves no
//     server, file or process. It prints one line and exits with a code of package internal/cli.
//   - HOSTD-2 (local file): The file for other programs of this user exists while hostd serves
//     them. It belongs to the first hostd with its own server. A second one needs --nats-config, or
//     --listen with a token.
//   - HOSTD-3 (programs of users): Without --allow, programs of the user run only on a private
//     server: its own, on loopback, with a token hidden from ps. Clients run commands only with
//     --allow-exec or a local host.allow-exec.
//   - HOSTD-4 (drain): SIGTERM and SIGINT stop the procs, then bus and server, and exit with 0. A
//     second signal exits at once with 1. SIGUSR2 first cordons the host and awaits its procs.
//     SIGUSR1 stops unkept procs only.
//   - HOSTD-5 (failures): A bus closed for good ends hostd and its procs with code 6; a temporary
//     loss does not. A failed host agent ends both with code 1. A gateway that loses its
//     connections for good is replaced, and ends nothing.
//   - HOSTD-7 (health): With --http, /healthz is 200 during the start and while the agent
//     answers. /readyz is 200 while the agent answers, the bus is connected and the host takes
//     procs. Otherwise 503, with a reason. JSON: ok, reason, host, mode, procs.
//   - HOSTD-8 (state): With --state-dir, a restarted hostd keeps its ID and its own server's port
//     and token. It adopts the procs of kept meshes (HOST-10).
//   - HOSTD-9 (hints): hostd relays the ends of connections to host watchers (package
//     presence), on its own server without --nats-config, and elsewhere with --system-creds.
//   - HOSTD-10 (system controller): With its own server or --system, hostd runs the system
//     controller and restarts it after the loss of its bus. With --world it belongs to that world
//     from its start until its drain begins.
//   - HOSTD-13 (tickets): hostd's own server, without --nats-config, takes its token, keys and
//     tickets (EMB-3). It ends a ticket when the proc's host reports its end, and a key when the
//     operator revokes it. With --state-dir it refuses that after a restart.
//   - HOSTD-11 (rights of procs): Procs gain no privileges, have umask 0077 and no core files. With
//     --proc-user they have the IDs of that user, with --proc-limits at most these limits. The
//     generated token is in no environment and in no arguments.
//   - HOSTD-15 (TLS): With --tls or --tls-cert, hostd's own server encrypts, and clients, procs and
//     joined hosts trust the key with its fingerprint. With --state-dir the next hostd has the same
//     fingerprint. Certificates are renewed while hostd runs.
//   - HOSTD-16 (own credentials): With --auth-key hostd makes its credentials and those of its
//     procs, of an hour at most. A key of another host, and credentials of another principal, end
//     it at its start.
//   - HOSTD-14 (page): With --http, / is the live page (package page). Its address with the token
//     is in a file that only the user of hostd can read. Without --ui-act the page changes nothing.
//   - HOSTD-17 (invites): With --join-mesh, hostd joins the mesh of the invite before it is ready.
//     A malformed, foreign or refused invite is a failed start. If the mesh has the host already,
//     hostd starts.
//
// # Details
//
// A hostd with a system controller waits for an unresponsive JetStream and logs this. A missing
// permission ends it. After a second signal the operating system ends the procs (HOST-6). A leave
// request over the bus exits with 0 after all procs stopped.
package main
