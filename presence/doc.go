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
//   - PRES-1 (silence): Silence counts only after an unbroken time of listening: connection up, a
//     quick echo after all earlier messages, no dropped heartbeat, no pause longer than
//     supervision.dead-after. Until then a host is unknown.
//   - PRES-2 (probes): Silence makes a host dead only after an unanswered probe.
//   - PRES-3 (hints): One hint, or one probe without a listener, makes a host suspect and triggers
//     a probe. Hints for all its connections, plus missing listeners for supervision.confirm-after,
//     make the host dead.
//   - PRES-4 (goodbye): A host that says goodbye is dead at once, with that reason.
//   - PRES-5 (stale messages): A dead host stays dead until its next heartbeat. Messages older than
//     the last heartbeat or the goodbye are ignored.
//   - PRES-6 (monotonic clock): States follow from intervals of the monotonic clock. Steps of the
//     wall clock have no effect.
//   - PRES-7 (slow heartbeats): A host with a longer heartbeat interval gets proportionally longer
//     timeouts.
//   - PRES-8 (bounded memory): Only watched hosts take memory. At most one change per host waits
//     for delivery, the newest. A state may be reported twice in a row; a brief one may be skipped.
//   - PRES-9 (sender): A heartbeat counts for the sending process's host only. False messages harm
//     only their sender's own host.
//   - PRES-10 (close): After Close, no function is called and no goroutine remains. After a cancel
//     of Watch, its function is not called.
//   - PRES-11 (mode, gateway): A heartbeat carries the mode of the host, which says whether it
//     takes procs, and the gateway in its hostd. A change is reported while the host is alive, else
//     on its return.
//   - PRES-12 (events): An EventReporter starts with the first state other than alive, then reports
//     each change once: failed, stopped, suspect, unknown, alive, or another mode. A previously
//     unwatched host is not reported.
//
// Every process with a Watcher receives the heartbeats of all hosts in its namespace. Discover also
// reports those of unwatched hosts. Type core decides and is pure. Watcher handles messages and
// time. All methods are safe for concurrent use, but a callback must not call cancel or Close.
package presence
