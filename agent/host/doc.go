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
// `h.<host>.<verb>.<from>`, so that `nats req castnet.v1.default.h.any.info.anon ”` introduces
// every host. It is the micro service castnet-host.
//
// # Contract
//
//   - HOST-1: a label belongs to one live host; Start refuses one that is taken.
//   - HOST-2: only programs that the policy allows are run (Options.Allow), without a shell.
//   - HOST-3: each launch ends in exactly one terminal status, with exit code or signal and the
//     last lines of stderr, and one event on `ev.`, published as soon as the exit is seen.
//   - HOST-4: a proc that is not ready in time or has another build is killed, and the status says
//     which. Who says another nonce than the one a proc was launched with is refused.
//   - HOST-5: stopping a proc is TERM, grace, KILL, always reached; Close stops all of them and
//     returns when none is left.
//   - HOST-6: when the host process dies, its procs die (lifeline, parent-death signal).
//   - HOST-7: procs whose lease ran out are stopped, and the log and their status say so.
//
// The agent keeps AGT-1 … AGT-5; of meshes that have ended it remembers the newest 256. Output of procs goes to files in the run directory and, line by
// line, to `log.` subjects; a slow reader of these holds up nobody.
package host
