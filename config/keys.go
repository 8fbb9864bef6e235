package config

import "time"

// The bounds that many keys share.
const (
	instant = time.Millisecond
	long    = 24 * time.Hour
	large   = 64 << 30
)

// Waiting for procs and actors. The limits called idle begin anew with each piece of news; the
// deadlines of meshes are for the whole, where the caller's context has none.
var (
	ProcSpawnIdle = newDuration("proc.spawn-idle", 30*time.Second, instant, long,
		note{seed: "30s", used: "mesh", doc: "a spawn of procs has failed when nothing becomes of any of them in a period of so long"})
	ProcStopIdle = newDuration("proc.stop-idle", 30*time.Second, instant, long,
		note{seed: "30s", used: "mesh", doc: "a stop of procs has failed when nothing becomes of any of them in a period of so long"})
	ProcStateIdle = newDuration("proc.state-idle", time.Minute, instant, long,
		note{seed: "1m", used: "mesh", doc: "how long a host may take to say how its procs are, where the context has no deadline"})
	ActorSpawnIdle = newDuration("actor.spawn-idle", 30*time.Second, instant, long,
		note{seed: "30s", used: "controller", doc: "a spawn of actors has failed when there is no news of any of them for so long"})
	ActorStateIdle = newDuration("actor.state-idle", 30*time.Second, instant, long,
		note{seed: "30s", used: "mesh", doc: "how long procs may take to say how their actors are, where the context has no deadline"})
	MeshSpawnDeadline = newDuration("mesh.spawn-deadline", 45*time.Second, instant, long,
		note{used: "mesh, controller", doc: "how long a spawn may take as a whole, where the context has no deadline"})
	MeshStopDeadline = newDuration("mesh.stop-deadline", 30*time.Second, instant, long,
		note{used: "mesh, controller", doc: "how long a stop may take as a whole, where the context has no deadline"})
	MeshCleanupDeadline = newDuration("mesh.cleanup-deadline", 15*time.Second, instant, long,
		note{used: "mesh", doc: "how long stopping what a failed spawn has started may take"})
	AttachTimeout = newDuration("attach.timeout", time.Minute, instant, long,
		note{seed: "1m", used: "mesh", doc: "how long hosts may take to be allocated, and to answer who attaches to them, where the context has no deadline"})
	DiscoveryQuiet = newDuration("discovery.quiet", 200*time.Millisecond, instant, time.Minute,
		note{used: "mesh, cast/gateway", doc: "looking for hosts ends when no other one has answered for so long; a tenth of it once those have that a gateway knows"})
	DiscoveryRemember = newDuration("discovery.remember", time.Hour, time.Second, long,
		note{used: "mesh, cast/gateway", doc: "how long a host that died without a goodbye stays in the lists of hosts"})
)

// Starting processes.
var (
	HostReady = newDuration("host.ready", 30*time.Second, instant, long,
		note{seed: "30s", zero: "none", used: "agent/host", doc: "how long a launched proc may take until it is ready; then it is killed"})
	HostExec = newBool("host.exec", false,
		note{local: true, used: "agent/host", doc: "whether a host runs any command that a client asks for, as its own user"})
	SpawnConcurrency = newInt("spawn.concurrency", 64, 1, 4096,
		note{local: true, used: "agent/host", doc: "procs that a host launches at a time"})
	ProcReadyAnswer = newDuration("proc.ready-answer", 10*time.Second, instant, long,
		note{used: "agent/proc", doc: "how long a host may take to answer a proc that says it is ready; then the proc ends"})
	ProcDeathSignal = newBool("proc.death-signal", true,
		note{seed: "true", used: "internal/launch", doc: "whether the kernel kills a proc when its host dies (Linux)"})
	ProcLogLevel = newChoice("proc.log-level", "warn", []string{"trace", "debug", "info", "warn", "error"},
		note{used: "agent/host", doc: "the least level of castnet's own log lines in procs"})
)

// Stopping processes.
var (
	TerminateGrace = newDuration("terminate.grace", 10*time.Second, instant, time.Hour,
		note{seed: "10s", used: "agent/host, controller", doc: "from SIGTERM to SIGKILL when a mesh stops"})
	TerminateConcurrency = newInt("terminate.concurrency", 16, 1, 256,
		note{seed: "16", used: "agent/host", doc: "procs that a host stops at a time when it drains or shuts down"})
	TerminateSingle = newDuration("terminate.single", 10*time.Second, instant, time.Hour,
		note{seed: "10s", used: "agent/host, controller", doc: "the same when what is stopped is one proc"})
	TerminateKillWait = newDuration("terminate.kill-wait", 5*time.Second, instant, time.Hour,
		note{local: true, seed: "5s", used: "internal/launch", doc: "how long a process may survive SIGKILL before that is reported"})
	ProcDrain = newDuration("proc.drain", 30*time.Second, instant, time.Hour,
		note{used: "agent/proc", doc: "how long the actors of a proc may take to stop after SIGTERM; its host may kill it before"})
	ProcOrphanGrace = newDuration("proc.orphan-grace", 2*time.Second, instant, time.Hour,
		note{used: "agent/proc", doc: "how long the actors of a proc may take to stop when its host is gone"})
	ProcAdoption = newDuration("proc.adoption", time.Minute, time.Second, long,
		note{used: "agent/host, agent/proc", doc: "how long a proc that is kept goes on without a host; then it ends"})
	ActorCleanup = newDuration("actor.cleanup", 10*time.Second, instant, time.Hour,
		note{seed: "3s", used: "actor", doc: "how long each of these may take when an actor ends: its children, its Cleanup, its tasks"})
	HostdDrain = newDuration("hostd.drain", 30*time.Second, instant, long,
		note{local: true, used: "cmd/hostd", doc: "how long hostd may take to end after SIGTERM"})
)

// Knowing who lives.
var (
	SupervisionPoll = newDuration("supervision.poll", 10*time.Second, 10*time.Millisecond, long,
		note{seed: "10s", used: "controller", doc: "pause between two rounds of a controller that renew leases and compare states; deaths are told at once"})
	SupervisionOrphan = newDuration("supervision.orphan", time.Minute, time.Second, long,
		note{seed: "1m", zero: "off", used: "controller, agent/host", doc: "the lease: what hears nothing from its controller for so long is stopped"})
	SupervisionWatchdog = newDuration("supervision.watchdog", 2*time.Minute, instant, long,
		note{seed: "2m", used: "mesh", doc: "a controller that says nothing for so long is taken for dead"})
	SupervisionHeld = newDuration("supervision.held", 30*time.Second, instant, long,
		note{used: "controller", doc: "an actor that is to be started again waits so long for its proc to come back"})
	SupervisionHeartbeat = newDuration("supervision.heartbeat", 500*time.Millisecond, 10*time.Millisecond, time.Minute,
		note{used: "agent/host, agent/presence", doc: "pause between two signs of life of a host"})
	SupervisionSuspect = newDuration("supervision.suspect", 1500*time.Millisecond, 30*time.Millisecond, time.Hour,
		note{used: "agent/presence", doc: "a host that is silent for so long is suspected, and asked"})
	SupervisionDead = newDuration("supervision.dead", 4500*time.Millisecond, 50*time.Millisecond, long,
		note{used: "agent/presence", doc: "a host that is silent for so long, and does not answer, is dead; longer when it, or whoever watches, is starved"})
	SupervisionConfirm = newDuration("supervision.confirm", 600*time.Millisecond, 10*time.Millisecond, time.Hour,
		note{used: "agent/presence", doc: "how long nobody may listen where a host did whose connections have ended; then it is dead"})
	HostEndedKept = newInt("host.ended-kept", 256, 1, 65536,
		note{local: true, used: "agent/host", doc: "meshes whose procs have all ended that a host remembers, with their logs"})
	ProcEndedKept = newInt("proc.ended-kept", 1024, 1, 65536,
		note{seed: "100", used: "agent/proc", doc: "actors that have ended that a proc remembers"})
)

// Worlds.
var (
	WorldSilence = newDuration("world.silence", 4*time.Second, 10*time.Millisecond, long,
		note{local: true, used: "controller/worlds", doc: "a proc that joined a world of itself is unhealthy when nothing was heard of it for so long"})
	WorldEviction = newDuration("world.eviction", 30*time.Second, 10*time.Millisecond, 30*long,
		note{local: true, used: "controller/worlds", doc: "a world is stopped and removed when one of its procs has been unhealthy for so long"})
	WorldStop = newDuration("world.stop", 8*time.Second, 10*time.Millisecond, time.Hour,
		note{local: true, seed: "8s", used: "controller/worlds", doc: "how long a stop of worlds may take, where nobody says"})
)

// The output of procs.
var (
	LogsForward = newBool("logs.forward", true,
		note{seed: "false", used: "agent/host", doc: "whether hosts publish the lines that procs write, for whoever asks for them"})
	LogsTailLines = newInt("logs.tail-lines", 100, 0, 1000,
		note{seed: "0", used: "internal/launch", doc: "how many last lines of stderr the end of a proc is reported with"})
	LogsFileCap = newSize("logs.file-cap", 64<<20, 64<<10, large,
		note{local: true, used: "internal/launch", doc: "size at which a file with the output of a proc is rotated"})
)

// Messages.
var (
	DeliveryDeadline = newDuration("delivery.deadline", 30*time.Second, instant, long,
		note{seed: "30s", used: "actor, internal/link", doc: "when the fate of a message, or the answer to a call, is due where the context has no deadline"})
	DeliverySilence = newDuration("delivery.silence", time.Minute, 100*time.Millisecond, long,
		note{seed: "1m", used: "internal/link", doc: "how long a process may owe an acknowledgement before its link breaks"})
	DeliveryNobody = newDuration("delivery.nobody", 500*time.Millisecond, 10*time.Millisecond, time.Hour,
		note{used: "internal/link", doc: "how long the bus may say that nobody listens there before a message gets ErrNoProc"})
	DeliveryAway = newDuration("delivery.away", 5*time.Second, 10*time.Millisecond, time.Hour,
		note{used: "internal/link", doc: "the same where a process was heard of before; longer than a reconnect takes"})
	DeliveryMessage = newSize("delivery.message", 64<<20, 64<<10, 1<<30,
		note{seed: "10GiB", used: "internal/link", doc: "size of one message, encoded; what is larger is neither sent nor taken"})
	DeliveryOutbox = newSize("delivery.outbox", 8<<20, 64<<10, large,
		note{used: "internal/link", doc: "bytes that may wait to leave for one process before a send gets ErrBacklog"})
	DeliveryOutboxAll = newSize("delivery.outbox-all", 256<<20, 64<<10, large,
		note{used: "internal/link", doc: "bytes that may wait to leave for all processes together"})
	DeliveryWindow = newSize("delivery.window", 8<<20, 64<<10, large,
		note{used: "internal/link", doc: "bytes that one process may have on their way to us"})
	DeliveryWindowAll = newSize("delivery.window-all", 32<<20, 64<<10, large,
		note{used: "internal/link", doc: "bytes that all processes together may have on their way to us; less than the server keeps for a client"})
	ActorMailbox = newInt("actor.mailbox", 1024, 1, 1<<30,
		note{used: "actor", doc: "messages that may wait for one of your actors before ErrMailboxFull, where its spawn says no number"})
	RelayUpdates = newInt("relay.updates", 5, 1, 1<<20,
		note{seed: "5", used: "actor", doc: "updates of an accumulator that a relay folds into one, where its options say no number"})
	RelayAge = newDuration("relay.age", 50*time.Millisecond, instant, time.Hour,
		note{seed: "50ms", used: "actor", doc: "how long a relay keeps an update of an accumulator, where its options say no time"})
)

// The way to the bus, and gateways.
var (
	BusConnect = newDuration("bus.connect", 2*time.Second, 10*time.Millisecond, time.Hour,
		note{local: true, used: "bus", doc: "how long connecting to one server may take"})
	BusPing = newDuration("bus.ping", 5*time.Second, 100*time.Millisecond, time.Hour,
		note{local: true, used: "bus", doc: "pause between two pings of the server; when two go unanswered the connection is lost"})
	BusReconnect = newDuration("bus.reconnect", 2*time.Second, 10*time.Millisecond, time.Hour,
		note{local: true, used: "bus", doc: "the longest pause between two tries to reconnect"})
	GatewayDeadline = newDuration("gateway.deadline", 10*time.Minute, time.Second, long,
		note{local: true, used: "cast/gateway", doc: "the longest deadline that a plain NATS client can ask a gateway for"})
)

// all are the keys, in the order of the documentation.
var all = numbered([]*def{
	ProcSpawnIdle.def, ProcStopIdle.def, ProcStateIdle.def, ActorSpawnIdle.def, ActorStateIdle.def,
	MeshSpawnDeadline.def, MeshStopDeadline.def, MeshCleanupDeadline.def, AttachTimeout.def, DiscoveryQuiet.def, DiscoveryRemember.def,

	HostReady.def, HostExec.def, SpawnConcurrency.def, ProcReadyAnswer.def, ProcDeathSignal.def, ProcLogLevel.def,

	TerminateGrace.def, TerminateConcurrency.def, TerminateSingle.def, TerminateKillWait.def,
	ProcDrain.def, ProcOrphanGrace.def, ProcAdoption.def, ActorCleanup.def, HostdDrain.def,

	SupervisionPoll.def, SupervisionOrphan.def, SupervisionWatchdog.def, SupervisionHeld.def,
	SupervisionHeartbeat.def, SupervisionSuspect.def, SupervisionDead.def, SupervisionConfirm.def, HostEndedKept.def, ProcEndedKept.def,

	WorldSilence.def, WorldEviction.def, WorldStop.def,

	LogsForward.def, LogsTailLines.def, LogsFileCap.def,

	DeliveryDeadline.def, DeliverySilence.def, DeliveryNobody.def, DeliveryAway.def, DeliveryMessage.def,
	DeliveryOutbox.def, DeliveryOutboxAll.def, DeliveryWindow.def, DeliveryWindowAll.def,
	ActorMailbox.def, RelayUpdates.def, RelayAge.def,

	BusConnect.def, BusPing.def, BusReconnect.def, GatewayDeadline.def,
})

// numbered gives each key its place, while the package is initialized; from then on a key is immutable.
func numbered(defs []*def) []*def {
	for i, d := range defs {
		d.index = i
	}
	return defs
}
