package config

import "time"

// Bounds shared by several keys.
const (
	minDuration = time.Millisecond
	maxDuration = 24 * time.Hour
	maxSize     = 64 << 30
)

// Timeouts for procs and actors. Each report of progress restarts a progress timeout. The timeouts
// of meshes bound a whole operation, if the caller's context has no deadline.
var (
	ProcSpawnProgressTimeout = newDuration("proc.spawn-progress-timeout",
		30*time.Second, minDuration, maxDuration,
		keyMeta{monarchDefault: "30s", usedBy: "mesh",
			doc: "fails a spawn of procs if none of them makes progress for this long"})
	ProcStopProgressTimeout = newDuration("proc.stop-progress-timeout",
		30*time.Second, minDuration, maxDuration,
		keyMeta{monarchDefault: "30s", usedBy: "mesh",
			doc: "fails a stop of procs if none of them makes progress for this long"})
	ProcQueryTimeout = newDuration("proc.query-timeout", time.Minute, minDuration, maxDuration,
		keyMeta{monarchDefault: "1m", usedBy: "mesh",
			doc: "time for a host to report its procs, if the context has no deadline"})
	ActorSpawnProgressTimeout = newDuration("actor.spawn-progress-timeout",
		30*time.Second, minDuration, maxDuration,
		keyMeta{monarchDefault: "30s", usedBy: "controller",
			doc: "fails a spawn of actors if none of them makes progress for this long"})
	ActorQueryTimeout = newDuration("actor.query-timeout", 30*time.Second, minDuration, maxDuration,
		keyMeta{monarchDefault: "30s", usedBy: "mesh",
			doc: "time for procs to report their actors, if the context has no deadline"})
	MeshSpawnTimeout = newDuration("mesh.spawn-timeout", 45*time.Second, minDuration, maxDuration,
		keyMeta{usedBy: "mesh, controller", doc: "time for a whole spawn, if the context has no deadline"})
	MeshStopTimeout = newDuration("mesh.stop-timeout", 30*time.Second, minDuration, maxDuration,
		keyMeta{usedBy: "mesh, controller", doc: "time for a whole stop, if the context has no deadline"})
	MeshCleanupTimeout = newDuration("mesh.cleanup-timeout", 15*time.Second, minDuration, maxDuration,
		keyMeta{usedBy: "mesh", doc: "time to stop the started part of a failed spawn"})
	AttachTimeout = newDuration("attach.timeout", time.Minute, minDuration, maxDuration,
		keyMeta{monarchDefault: "1m", usedBy: "mesh",
			doc: "time to allocate hosts or to attach to them, if the context has no deadline"})
	DiscoveryQuietPeriod = newDuration("discovery.quiet-period", 200*time.Millisecond, minDuration, time.Minute,
		keyMeta{usedBy: "mesh, gateway",
			doc: "ends a search for hosts after this long without a new answer; after a tenth of " +
				"it once all hosts known to the gateway have answered"})
	DiscoveryDeadHostRetention = newDuration("discovery.dead-host-retention",
		time.Hour, time.Second, maxDuration,
		keyMeta{usedBy: "mesh, gateway", doc: "time that a host which died without a goodbye stays listed"})
)

// Starting processes.
var (
	ProcReadyTimeout = newDuration("proc.ready-timeout", 30*time.Second, minDuration, maxDuration,
		keyMeta{monarchDefault: "30s", zeroMeaning: "none", usedBy: "agent/host",
			doc: "kills a launched proc that is not ready after this long"})
	HostAllowExec = newBool("host.allow-exec", false,
		keyMeta{local: true, usedBy: "agent/host",
			doc: "allows clients to run any command on the host, as the host's user"})
	SpawnConcurrency = newInt("spawn.concurrency", 64, 1, 4096,
		keyMeta{local: true, usedBy: "agent/host", doc: "procs that a host launches at a time"})
	ProcReadyAckTimeout = newDuration("proc.ready-ack-timeout", 10*time.Second, minDuration, maxDuration,
		keyMeta{usedBy: "agent/proc", doc: "ends a proc whose host does not answer its ready report for this long"})
	ProcDeathSignal = newBool("proc.death-signal", true,
		keyMeta{monarchDefault: "true", usedBy: "internal/launch",
			doc: "lets the kernel kill a proc when its host dies (Linux)"})
	ProcLogLevel = newChoice("proc.log-level", "warn", []string{"trace", "debug", "info", "warn", "error"},
		keyMeta{usedBy: "agent/host", doc: "minimum level of the log lines of castnet and of Context.Log in procs"})
)

// Stopping processes.
var (
	TerminateGrace = newDuration("terminate.grace", 10*time.Second, minDuration, time.Hour,
		keyMeta{monarchDefault: "10s", usedBy: "agent/host, controller",
			doc: "time from SIGTERM to SIGKILL when a mesh or its host stops"})
	TerminateConcurrency = newInt("terminate.concurrency", 16, 1, 256,
		keyMeta{monarchDefault: "16", usedBy: "agent/host",
			doc: "procs that a host stops at a time in a drain or shutdown"})
	TerminateGraceSingle = newDuration("terminate.grace-single", 10*time.Second, minDuration, time.Hour,
		keyMeta{monarchDefault: "10s", usedBy: "agent/host, controller",
			doc: "time from SIGTERM to SIGKILL when a single proc stops"})
	TerminateKillWait = newDuration("terminate.kill-wait", 5*time.Second, minDuration, time.Hour,
		keyMeta{local: true, monarchDefault: "5s", usedBy: "internal/launch",
			doc: "reports a process that survives SIGKILL for this long"})
	ProcDrainTimeout = newDuration("proc.drain-timeout", 30*time.Second, minDuration, time.Hour,
		keyMeta{usedBy: "agent/proc",
			doc: "time for the actors of a proc to stop after SIGTERM; the host may kill the proc earlier"})
	ProcOrphanGrace = newDuration("proc.orphan-grace", 2*time.Second, minDuration, time.Hour,
		keyMeta{usedBy: "agent/proc", doc: "time for the actors of a proc to stop when its host is gone"})
	ProcAdoptionTimeout = newDuration("proc.adoption-timeout", time.Minute, time.Second, maxDuration,
		keyMeta{usedBy: "agent/host, agent/proc", doc: "ends a kept proc that has had no host for this long"})
	ActorCleanupTimeout = newDuration("actor.cleanup-timeout", 10*time.Second, minDuration, time.Hour,
		keyMeta{monarchDefault: "3s", usedBy: "actor",
			doc: "time for each step of an actor's end: its children, its Cleanup, its tasks"})
	HostdDrainTimeout = newDuration("hostd.drain-timeout", 30*time.Second, minDuration, maxDuration,
		keyMeta{local: true, usedBy: "cmd/hostd", doc: "time for hostd to end after SIGTERM"})
)

// Failure detection.
var (
	SupervisionPollInterval = newDuration("supervision.poll-interval",
		10*time.Second, 10*time.Millisecond, maxDuration,
		keyMeta{monarchDefault: "10s", usedBy: "controller",
			doc: "pause between two rounds of a controller, which renew leases and compare " +
				"states; deaths do not wait for it"})
	SupervisionLeaseTTL = newDuration("supervision.lease-ttl", time.Minute, time.Second, maxDuration,
		keyMeta{monarchDefault: "1m", zeroMeaning: "off", usedBy: "controller, agent/host",
			doc: "the lease: stops a mesh whose controller is silent for this long"})
	SupervisionControllerTimeout = newDuration("supervision.controller-timeout",
		2*time.Minute, minDuration, maxDuration,
		keyMeta{monarchDefault: "2m", usedBy: "mesh",
			doc: "declares a controller dead after this long without a message"})
	SupervisionRestartWait = newDuration("supervision.restart-wait", 30*time.Second, minDuration, maxDuration,
		keyMeta{usedBy: "controller", doc: "time that an actor to be restarted waits for its proc to come back"})
	SupervisionHeartbeatInterval = newDuration("supervision.heartbeat-interval",
		500*time.Millisecond, 10*time.Millisecond, time.Minute,
		keyMeta{usedBy: "agent/host, presence", doc: "pause between two heartbeats of a host"})
	SupervisionSuspectAfter = newDuration("supervision.suspect-after",
		1500*time.Millisecond, 30*time.Millisecond, time.Hour,
		keyMeta{usedBy: "presence", doc: "suspects and probes a host after this long without a heartbeat"})
	SupervisionDeadAfter = newDuration("supervision.dead-after",
		4500*time.Millisecond, 50*time.Millisecond, maxDuration,
		keyMeta{usedBy: "presence",
			doc: "declares a host dead after this long without a heartbeat or an answer; later if " +
				"the host or the watcher is starved"})
	SupervisionConfirmAfter = newDuration("supervision.confirm-after",
		600*time.Millisecond, 10*time.Millisecond, time.Hour,
		keyMeta{usedBy: "presence",
			doc: "declares a host dead if its connections have ended and no process listens in " +
				"its place for this long"})
	HostEndedHistory = newInt("host.ended-history", 256, 1, 65536,
		keyMeta{local: true, usedBy: "agent/host", doc: "ended meshes that a host remembers, with their logs"})
	ProcEndedHistory = newInt("proc.ended-history", 1024, 1, 65536,
		keyMeta{monarchDefault: "100", usedBy: "agent/proc", doc: "ended actors that a proc remembers"})
)

// Worlds.
var (
	WorldProcTimeout = newDuration("world.proc-timeout", 4*time.Second, 10*time.Millisecond, maxDuration,
		keyMeta{local: true, usedBy: "system",
			doc: "marks a self-joined proc of a world unhealthy after this long without a message"})
	WorldEvictionTimeout = newDuration("world.eviction-timeout",
		30*time.Second, 10*time.Millisecond, 30*maxDuration,
		keyMeta{local: true, usedBy: "system",
			doc: "stops and removes a world that has had an unhealthy proc for this long"})
	WorldStopTimeout = newDuration("world.stop-timeout", 8*time.Second, 10*time.Millisecond, time.Hour,
		keyMeta{local: true, monarchDefault: "8s", usedBy: "system",
			doc: "time for a stop of worlds, if the request has none"})
)

// The output of procs.
var (
	LogsForward = newBool("logs.forward", true,
		keyMeta{monarchDefault: "false", usedBy: "agent/host",
			doc: "lets hosts publish the output of procs on the bus"})
	LogsMirror = newBool("logs.mirror", false,
		keyMeta{usedBy: "agent/host", doc: "lets hosts print the output of procs to their own stdout and stderr"})
	LogsTailLines = newInt("logs.tail-lines", 100, 0, 1000,
		keyMeta{monarchDefault: "0", usedBy: "internal/launch",
			doc: "last lines of stderr in the report of a proc's end"})
	LogsMaxFileSize = newSize("logs.max-file-size", 64<<20, 64<<10, maxSize,
		keyMeta{local: true, usedBy: "internal/logfile",
			doc: "newest bytes kept of each output of a proc; older ones become a hole in the file"})
)

// Messages.
var (
	DeliveryTimeout = newDuration("delivery.timeout", 30*time.Second, minDuration, maxDuration,
		keyMeta{monarchDefault: "30s", usedBy: "actor, internal/link",
			doc: "deadline of a message or call whose context has none"})
	DeliveryAckTimeout = newDuration("delivery.ack-timeout", time.Minute, 100*time.Millisecond, maxDuration,
		keyMeta{monarchDefault: "1m", usedBy: "internal/link",
			doc: "breaks a link whose peer owes an acknowledgement for this long"})
	DeliveryNoResponderTimeout = newDuration("delivery.no-responder-timeout",
		500*time.Millisecond, 10*time.Millisecond, time.Hour,
		keyMeta{usedBy: "internal/link",
			doc: "fails a message with ErrNoProc if the bus reports no listener for this long"})
	DeliveryReconnectTimeout = newDuration("delivery.reconnect-timeout",
		5*time.Second, 10*time.Millisecond, time.Hour,
		keyMeta{usedBy: "internal/link",
			doc: "fails a message to a process heard of before if the bus reports no listener for " +
				"this long; longer than a reconnect"})
	DeliveryMaxMessage = newSize("delivery.max-message", 64<<20, 64<<10, 1<<30,
		keyMeta{monarchDefault: "10GiB", usedBy: "internal/link",
			doc: "maximum size of one encoded message, sent or received"})
	DeliverySendBuffer = newSize("delivery.send-buffer", 8<<20, 64<<10, maxSize,
		keyMeta{usedBy: "internal/link", doc: "bytes queued for one process before a send fails with ErrBacklog"})
	DeliverySendBufferTotal = newSize("delivery.send-buffer-total", 256<<20, 64<<10, maxSize,
		keyMeta{usedBy: "internal/link", doc: "bytes queued for all processes together"})
	DeliveryReceiveWindow = newSize("delivery.receive-window", 8<<20, 64<<10, maxSize,
		keyMeta{usedBy: "internal/link", doc: "bytes that one process may have in flight to this one"})
	DeliveryReceiveWindowTotal = newSize("delivery.receive-window-total", 32<<20, 64<<10, maxSize,
		keyMeta{usedBy: "internal/link",
			doc: "bytes that all processes together may have in flight to this one; less than the " +
				"server buffers for a client"})
	ActorMailboxSize = newInt("actor.mailbox-size", 1024, 1, 1<<30,
		keyMeta{usedBy: "actor",
			doc: "messages queued for an actor before ErrMailboxFull, if its spawn sets no size"})
	RelayMaxUpdates = newInt("relay.max-updates", 5, 1, 1<<20,
		keyMeta{monarchDefault: "5", usedBy: "actor",
			doc: "updates of an accumulator that a relay folds into one, if its options set no number"})
	RelayMaxDelay = newDuration("relay.max-delay", 50*time.Millisecond, minDuration, time.Hour,
		keyMeta{monarchDefault: "50ms", usedBy: "actor",
			doc: "time that a relay holds an update of an accumulator, if its options set none"})
)

// Bus connections and gateways.
var (
	BusConnectTimeout = newDuration("bus.connect-timeout", 2*time.Second, 10*time.Millisecond, time.Hour,
		keyMeta{local: true, usedBy: "bus", doc: "time to connect to one server of another process"})
	BusPingInterval = newDuration("bus.ping-interval", 5*time.Second, 100*time.Millisecond, time.Hour,
		keyMeta{local: true, usedBy: "bus",
			doc: "pause between two pings of the server; the connection is lost after two without an answer"})
	BusMaxReconnectWait = newDuration("bus.max-reconnect-wait", 2*time.Second, 10*time.Millisecond, time.Hour,
		keyMeta{local: true, usedBy: "bus", doc: "longest pause between two attempts to reconnect"})
	GatewayMaxTimeout = newDuration("gateway.max-timeout", 10*time.Minute, time.Second, maxDuration,
		keyMeta{local: true, usedBy: "gateway",
			doc: "longest deadline that a plain NATS client can request of a gateway"})
)

// allKeys are all keys in the order of the documentation.
var allKeys = withIndexes([]*keyDef{
	ProcSpawnProgressTimeout.keyDef, ProcStopProgressTimeout.keyDef, ProcQueryTimeout.keyDef,
	ActorSpawnProgressTimeout.keyDef,
	ActorQueryTimeout.keyDef,
	MeshSpawnTimeout.keyDef, MeshStopTimeout.keyDef, MeshCleanupTimeout.keyDef, AttachTimeout.keyDef,
	DiscoveryQuietPeriod.keyDef, DiscoveryDeadHostRetention.keyDef,

	ProcReadyTimeout.keyDef, HostAllowExec.keyDef, SpawnConcurrency.keyDef, ProcReadyAckTimeout.keyDef,
	ProcDeathSignal.keyDef, ProcLogLevel.keyDef,

	TerminateGrace.keyDef, TerminateConcurrency.keyDef, TerminateGraceSingle.keyDef, TerminateKillWait.keyDef,
	ProcDrainTimeout.keyDef, ProcOrphanGrace.keyDef, ProcAdoptionTimeout.keyDef, ActorCleanupTimeout.keyDef,
	HostdDrainTimeout.keyDef,

	SupervisionPollInterval.keyDef, SupervisionLeaseTTL.keyDef, SupervisionControllerTimeout.keyDef,
	SupervisionRestartWait.keyDef,
	SupervisionHeartbeatInterval.keyDef, SupervisionSuspectAfter.keyDef, SupervisionDeadAfter.keyDef,
	SupervisionConfirmAfter.keyDef, HostEndedHistory.keyDef, ProcEndedHistory.keyDef,

	WorldProcTimeout.keyDef, WorldEvictionTimeout.keyDef, WorldStopTimeout.keyDef,

	LogsForward.keyDef, LogsMirror.keyDef, LogsTailLines.keyDef, LogsMaxFileSize.keyDef,

	DeliveryTimeout.keyDef, DeliveryAckTimeout.keyDef, DeliveryNoResponderTimeout.keyDef,
	DeliveryReconnectTimeout.keyDef, DeliveryMaxMessage.keyDef,
	DeliverySendBuffer.keyDef, DeliverySendBufferTotal.keyDef, DeliveryReceiveWindow.keyDef,
	DeliveryReceiveWindowTotal.keyDef,
	ActorMailboxSize.keyDef, RelayMaxUpdates.keyDef, RelayMaxDelay.keyDef,

	BusConnectTimeout.keyDef, BusPingInterval.keyDef, BusMaxReconnectWait.keyDef, GatewayMaxTimeout.keyDef,
})

// withIndexes numbers the keys at package initialization. Keys are immutable afterwards.
func withIndexes(defs []*keyDef) []*keyDef {
	for i, d := range defs {
		d.index = i
	}
	return defs
}
