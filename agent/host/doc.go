// Package host is the host agent, an actor on every node. It launches procs as OS processes,
// watches them, keeps the end of their output, and stops them. hostd runs one. Tests and examples
// run theirs in process.
//
// # Use
//
//	h, err := host.Start(ctx, host.Options{Label: "n07", Bus: b, Settings: settings, RunDir: dir})
//	defer h.Close(ctx)
//
// After Start, package mesh and any NATS client can find the host. The verb in
// `hr.<host>.<verb>.<sender>` is the endpoint; the host `any` addresses all hosts. Verbs on which
// the host acts have `hw.` and one host. As a micro service it is called castnet-host.
//
//	nats req castnet.v1.default.hr.any.info.u-anon.x '' --replies 0
//
// # Contract
//
//   - HOST-1 (unique label): A label belongs to one live host. Start refuses a label in use.
//   - HOST-2 (allowed programs): A host runs only programs that Options.Allow allows, or
//     AllowCommands with their first arguments, without a shell. Commands (agent.Exec) need
//     host.allow-exec, which clients cannot push. A command's descendants and files end with it, at
//     its deadline at the latest.
//   - HOST-3 (one end): Each launch ends in exactly one terminal status, with exit code or signal
//     and last stderr lines. `ev.` has each end once, right after the output of the proc.
//   - HOST-4 (readiness): A proc that is not ready in time, or has another build, is killed, and
//     its status says why. A ready report with a wrong proof is refused.
//   - HOST-5 (stop): Stopping a proc is TERM, grace, KILL, always carried out, also when its lease
//     expires. Close stops all procs and waits. A survivor of KILL delays no other stop and is in
//     the reply (agent.NotEndedError).
//   - HOST-6 (no orphans): When the host process dies, its procs die (lifeline, parent-death
//     signal), except those of a kept mesh.
//   - HOST-9 (owners): Only the owning process may drain a host or make it leave, unless another
//     takes it by force. A host refuses orders of former system controllers (agent.EpochError) and
//     for another incarnation of the host.
//   - HOST-10 (kept procs): The next host of an Options.StateDir has its ID and the owners of its
//     meshes. It adopts live kept procs that answer with their proof, reports ended ones and kills
//     the rest. No generation runs twice.
//   - HOST-12 (control connection): From Start on the host sends heartbeats on the control
//     connection; the last one, a goodbye, follows the end of every proc. Requests of plain
//     clients and discovery use it too, so no data delays them.
//   - HOST-16 (drain): A draining host first asks owners to move their ranks (agent.Evacuate), then
//     stops the rest. A dead owner delays it until its end is known. An owner without progress
//     delays it by one move timeout.
//   - HOST-18 (reading on): A Logs request with Follow gets the whole lines after its positions,
//     each once, also of earlier generations. It waits for them, and leaves nothing behind: between
//     requests a host knows no reader. An ending host answers waiting requests last.
//   - HOST-19 (tickets): Where the server takes tickets, each launched proc gets its own, for
//     exactly its mesh, rank and generation, instead of the host's credentials. The proc's end ends
//     it. A kept proc keeps it over a restart of its host.
//   - HOST-20 (credentials): With Options.MintCreds each proc has a credentials file that only its
//     user can read. The host replaces it before half of its life has passed, also for adopted
//     procs, and removes it at the proc's end.
//
// # Details
//
// A program that attaches replaces the client layer of the host's configuration. The values of a
// spawn go before it for the procs of that spawn. Options.Command takes the place of the caller's
// executable.
//
// The owner of a host keeps it until it releases the host or another process takes it by force.
// The latest claim names the owner of a mesh (AGT-10). Log and status name an expired lease. One
// message renews up to 256 leases (agent.Renew). A command also ends with the host, or with the
// caller's wait; its output is bounded.
//
// A drain also asks the owners of ranks before their restart. After a drain or shutdown, a closed
// host starts no rank of the meshes on it. A merely cordoned host restarts ranks in place. Of
// drains and shutdowns at the same time, the largest limit of concurrent stops counts.
//
// The end of a proc waits for its output at most 200 ms, or 50 ms for an unexpected end. Requested
// ends batch for up to 1 s, before the reply. A heartbeat has its delay, the mode of the host and
// the reason for which it closes. The host sends one every supervision.heartbeat-interval. A burst
// of requests beyond the queue of the control connection is dropped and counted.
//
// A host with Options.StateDir records each kept proc (Mesh.Keep) before it is ready; a proc
// without a record fails (StateError). An adopted proc that has not answered after
// proc.ready-timeout is killed. Its lease continues, with at least half its TTL. Output since the
// former host is published.
//
// The agent keeps the promises of package agent. It remembers the newest 256 ended meshes. One host
// at a time uses a state directory. A host without one kills leftovers of killed hosts without one.
//
// # Output
//
// The output of procs goes to files in the run directory. A file holds at least the newest
// Options.LogCap bytes (see package logfile), until its mesh is forgotten, or until its rank has
// had three further generations. Programs read the files by Logs requests: the last lines, or all
// after an offset. A request waits up to 30 s; 256 requests may wait. A reader that lies more than
// 8 MiB behind an output continues with its last 64 KiB, and learns the number of dropped lines.
//
// With logs.forward the output also goes to `log.` subjects, at most once, for plain clients. A
// message there holds several lines with newlines between them. With logs.mirror the host prints
// each line as its own, with the proc before it. Slow readers delay no proc.
//
// The host publishes 2 MiB per second of one proc, 16 MiB of all. Beyond that the stream says
// `[castnet] 12345 lines left out` and continues with at least the last 16 KiB of the omitted
// lines. A full or read-only disk costs output, reported in the stream and the host's log. It costs
// no proc.
//
// Tests kill a host at these points (see internal/failpoint), besides those of package launch:
//
//   - host-state-reserved: a file has room for the proc, nothing is launched
//   - host-launched: the proc runs, without a record
//   - host-state-written: the record is written under a temporary name
//   - host-recorded: the record is in place, no event is published
//   - host-adopted: one proc of an earlier host is adopted
//   - host-census: unrecorded procs have ended, the agent has not started
//   - host-readopted: an adopted proc has answered
//   - host-ended: a proc has ended, and its record says so
package host
