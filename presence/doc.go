// Package presence detects failed hosts, as one process sees them. A host is alive, suspect, dead,
// or unknown. Unknown means that this process itself cannot hear. A Watcher receives heartbeats,
// probes silent hosts, and accepts hints. Controllers act on the deaths.
//
// # Use
//
//	w, err := presence.New(proc)                             // one is enough for a process
//	defer w.Close()
//	cancel := w.Watch(hosts, func(c presence.Change) { … })  // now what is not alive, then each change
//
// # Failure detection
//
// A host sends a heartbeat every supervision.heartbeat-interval. After supervision.suspect-after of
// silence the host is suspect, and the watcher pings its agent. After supervision.dead-after
// without an answer the host is dead.
//
// Both times stretch, up to eight times, if the host or the watcher is slow. The watcher computes
// Lifeguard's health score from late ticks and slow echoes. A heartbeat states its own delay.
//
// Server advisories shorten the detection (see RelayDisconnects). A hint that one connection of the
// host ended makes the host suspect at once. If all its connections ended, and no process listens
// in its place for supervision.confirm-after, the host is dead.
//
// # Invariants
//
//   - PRES-1 (silence): Silence makes a host dead only after an unanswered probe. It counts only
//     after unbroken listening: connection up, a quick echo, no dropped heartbeat, no pause longer
//     than supervision.dead-after. Until then a host is unknown.
//   - PRES-3 (hints): One hint, or one probe without a listener, makes a host suspect and triggers
//     a probe. Hints for all its connections, plus missing listeners for supervision.confirm-after,
//     make the host dead.
//   - PRES-4 (goodbye): A host that says goodbye is dead at once, with that reason. A dead host
//     stays dead until its next heartbeat; messages older than the last heartbeat or the goodbye
//     are ignored.
//   - PRES-8 (delivery): Only watched hosts take memory, at most one waiting change each, the
//     newest. A state may be repeated; a brief one may be skipped. After Close or the cancel of a
//     Watch its function is not called.
//   - PRES-9 (sender): A heartbeat counts for the sending process's host only. False messages harm
//     only their sender's own host.
//   - PRES-11 (changes): A new mode, gateway or incarnation of a host is reported while it is
//     alive, else on its return. An EventReporter starts with the first state other than alive,
//     then reports each change of state or mode once.
//
// # Details
//
// The echo follows all earlier messages. States follow from intervals of the monotonic clock;
// steps of the wall clock have no effect. A host with a longer heartbeat interval gets
// proportionally longer timeouts.
//
// A heartbeat carries the mode of the host, which says whether it takes procs, and the gateway in
// its hostd. The changes of an EventReporter are failed, stopped, suspect, unknown, alive, or
// another mode. It does not report a host that was not watched before. No goroutine remains after
// Close.
//
// Every process with a Watcher receives the heartbeats of all hosts in its namespace. Discover also
// reports those of unwatched hosts. Type core decides and is pure. Watcher handles messages and
// time. All methods are safe for concurrent use, but a callback must not call cancel or Close.
package presence
