// Package host is the host agent: the actor on every node that launches procs as OS processes,
// watches them, keeps their last words, and stops them. hostd runs one; tests and examples run
// theirs in process.
//
// # Use
//
//	h, err := host.Start(ctx, host.Options{Label: "n07", Bus: b, Settings: settings, Dir: dir})
//	defer h.Close(ctx)
//
// From then on package mesh finds it, and any NATS client may ask it: the endpoint is the verb in
// `h.<host>.<verb>.<from>`, and the host any is all of them. It is the micro service castnet-host.
//
//	nats req castnet.v1.default.h.any.info.anon '' --replies 0
//
// # Contract
//
//   - HOST-1: a label belongs to one live host; Start refuses one that is taken.
//   - HOST-2: only programs that the policy allows are run (Options.Allow), without a shell.
//   - HOST-3: each launch ends in exactly one terminal status, with exit code or signal and the
//     last lines of stderr, and is told on `ev.` once: as soon as its output is (HOST-8), and one
//     that was asked for at most 1 s later, together with others of its mesh (Event.Count), before
//     whoever asked is answered.
//   - HOST-4: a proc that is not ready in time or has another build is killed, and the status says
//     which. Who says another nonce than the one a proc was launched with is refused.
//   - HOST-5: stopping a proc is TERM, grace, KILL, always reached; Close stops all of them and
//     returns when none is left. What survives KILL holds up no other stop, and is in the answer to who asked
//     (agent.LeftError).
//   - HOST-6: when the host process dies, its procs die (lifeline, parent-death signal), but for those of
//     a mesh that is to be kept.
//   - HOST-7: procs whose lease ran out are stopped, and the log and their status say so.
//     One message renews up to 256 of them (agent.Renew).
//   - HOST-8: what a proc has printed is published before its end is told, however it ends; but
//     its end waits for that 200 ms at most, and 50 ms when nobody has asked for it.
//   - HOST-9: a host that a process has taken is drained, and made to leave, by that one alone, until it
//     lets go or another takes it by force.
//   - HOST-10: a proc that is to be kept (Mesh.Keep) is written down in Options.StateDir before anybody can
//     hear that it is ready. The next host there is the same one to all others: it has the ID, adopts
//     what lives, in the generation it has, tells the ends of what does not, and ends what nobody wrote
//     down. Whatever the instant at which a host dies, there is never a second proc of a rank and generation.
//     Who cannot be written down is not launched: StateError. One host at a time has a directory. A host without
//     one ends what such hosts left that were killed.
//   - HOST-11: an adopted proc is running once it has answered on the bus, to the nonce it was launched with and
//     from the process that is watched, and ended when it does not within host.ready. Its lease goes on where it
//     was, with half of its term at least. What it printed while nobody watched is published then.
//   - HOST-12: from Start on the host beats on `hb.`, every supervision.heartbeat and on the control connection, so
//     that nothing it does for its procs holds it up; each beat says how late it is, whether the host takes procs,
//     and from when on it is closing, and why. The last one is a goodbye, when every proc has ended and that was told.
//   - HOST-13: orders of system controllers have an epoch. A host that has heard of a later one refuses those of
//     an earlier one (agent.EpochError), and those that are meant for another life of the host.
//   - HOST-14: commands (agent.Exec) are run only where the operator of the host allows it: host.exec, which no client
//     can push. Each is a child like a proc: it ends with all that it started, at its deadline at the latest, when
//     the host does, and when who asked for it waits no longer; what it has printed is bounded, and its files go with it.
//   - HOST-15: who owns a mesh is known by its latest claim (AGT-10), also to the next host that adopts its procs.
//   - HOST-16: a host that is drained asks the owners of meshes first to have what is here elsewhere (agent.Vacate), and
//     stops what is left once they have answered. An owner that does not live holds up nobody, and one that moves none
//     of its procs does so once, for as long as one of them may take, whatever their number.
//   - HOST-17: what plain NATS clients ask a host, and discovery, comes by its control connection and is answered there: it waits
//     for no data of the host, nor of procs that live in it. A burst that fills its queue is dropped and counted.
//
// The agent keeps AGT-1 … AGT-10; of meshes that have ended it remembers the newest 256.
//
// # Output
//
// What procs print goes to files in the run directory, which hold the newest Options.LogCap bytes
// and more (see package launch), until their mesh is forgotten; and to `log.` subjects: lines that come together in one
// message, with a newline between them. A slow reader of these holds up nobody. Of one proc 2 MiB are published in a
// second, of all 16 MiB; beyond, the stream says `[castnet] 12345 lines left out` and goes on with the
// end of what was left out, 16 KiB and more. A disk that is full or may only be read costs output,
// which the stream and the host's log say, and never a proc.
//
// The points at which tests kill a host (see internal/failpoint), besides those of package launch:
//
//   - host-state-reserved: a file has room for the proc, nothing is launched
//   - host-launched: the proc runs, and is not written down
//   - host-state-written: it is, under a name where nobody looks
//   - host-recorded: it is written down, and nobody knows
//   - host-adopted: one proc of an earlier host is adopted
//   - host-census: what nobody wrote down has ended, the agent is not there
//   - host-readopted: an adopted proc has answered
//   - host-ended: a proc has ended, and is written down
package host
