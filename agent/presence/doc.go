// Package presence says who of the hosts is there, as one process sees it: alive, suspect, dead, or unknown,
// because this process itself cannot tell. It hears the heartbeats of hosts, asks those that are silent, and
// takes hints; what follows from a death is for controllers.
//
// # Use
//
//	w, err := presence.New(proc)                             // one is enough for a process
//	defer w.Close()
//	cancel := w.Watch(hosts, func(c presence.Change) { … })  // now what is not alive, then each change
//
// # How it tells
//
// A host beats every supervision.heartbeat. One that is silent for supervision.suspect is suspect, which means that
// its agent is asked (ping); one that answers nothing for supervision.dead is dead. Both times are
// stretched, up to eight times, by what slows things down: the watcher's own health (its ticks are late, what
// it sends to itself is long on its way: Lifeguard's score), or the host's (a heartbeat says how late it is).
//
// The end of a process is told sooner where somebody sees the server's advisories (see Relay): a hint that a
// connection which the host's heartbeat named has ended makes it suspect at once. When all of them have, and
// for supervision.confirm nobody listens where it did, it is dead.
//
// # Invariants
//
//   - PRES-1: silence counts only while this process could have heard: its own connection was there all the
//     time, what the server had by the end of it has arrived (it came before the watcher's own echo, which was quick), no heartbeat was dropped,
//     and the watcher was not paused for longer than supervision.dead. Until then a host is unknown.
//   - PRES-2: nobody is dead on silence who was not asked, and did not leave that unanswered.
//   - PRES-3: a hint proves nothing, and neither does one answer that nobody listens: each makes a host suspect,
//     and has it asked. Together, all hints and such answers for all of supervision.confirm, they do.
//   - PRES-4: who says goodbye is dead at once, with that reason.
//   - PRES-5: who is dead stays dead until it beats again; what was sent before it was heard of last, or
//     before its goodbye, is no sign of life.
//   - PRES-6: a state follows from intervals of the monotonic clock: steps of the wall clock change nothing.
//   - PRES-7: a host that beats more rarely than this process expects has so much more time.
//   - PRES-8: only hosts that are watched take room. Of changes that wait to be told there is one for a host, the
//     newest: a state may be told twice in a row, and one that was short not at all.
//   - PRES-9: what others send harms their own host at most: a heartbeat counts for the host whose process sent it.
//   - PRES-10: when Close has returned, nothing is told and no goroutine is left; when a cancel of Watch has,
//     its function is not called any more.
//   - PRES-11: whether a host takes procs it says with its heartbeat; a change of that is told, with the mode, while it is
//     alive, and else with its return.
//   - PRES-12: what is told of a host as an event (Teller) begins with the first that is not well, and is told once until
//     it changes: that it is dead (failed) or has left (stopped), suspect, unknown, alive again, or in another mode. That nobody
//     had watched it before is not told.
//
// Every process that has a Watcher receives the heartbeats of all hosts of its namespace. core, which decides, is
// pure; Watcher moves bytes and time. All methods may be called on any goroutine, but cancel and Close not
// from a function that is being told.
package presence
