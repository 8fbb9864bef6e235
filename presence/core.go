package presence

import (
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Health score of a watcher, with its effect on timeouts.
const (
	slowEchoThreshold = 250 * time.Millisecond
	maxHealthScore    = 7 // stretches timeouts eight times
)

// timeouts are the configured times.
type timeouts struct{ heartbeat, suspect, dead, confirm time.Duration }

// never precedes all times. Times are on a monotonic clock that starts with the watcher (PRES-1).
const never = time.Duration(-1)

// Events of the core.
type (
	hostAdded         struct{ host subjects.HostID }
	hostRemoved       struct{ host subjects.HostID }
	heartbeatReceived struct{ agent.Heartbeat }
	disconnectHinted  struct{ agent.Connection } // reported by some server
	connectionChanged struct{ up bool }          // the watcher's own connection
	echoReceived      struct{ sent time.Duration }
	messagesDropped   struct{} // the inbox was full
	tick              struct{}
	probeResult       struct {
		host    subjects.HostID
		sent    time.Duration // of the probe
		outcome probeOutcome
	}
)

// probeOutcome is the result of a probe.
type probeOutcome uint8

const (
	answered probeOutcome = iota
	refused               // no listener at the address
	timedOut              // no reply in time
	notSent               // the probe could not be sent
)

// effects are the actions to take after a step.
type effects struct {
	probes []probe
	echo   time.Duration // content of an echo to send; never: none
	ended  []suspicion
	wake   time.Duration // time of the next tick
}

// probe is a ping to send to a host.
type probe struct {
	host    subjects.HostID
	sent    time.Duration
	timeout time.Duration
}

// Verdicts about suspected hosts.
const (
	verdictSilence    = "silence"    // dead: no heartbeat and no answer
	verdictDisconnect = "disconnect" // dead: its connections ended
	verdictGoodbye    = "goodbye"    // dead: it said so
	verdictAlive      = "alive"
)

// suspicion is the time from the suspicion of a host to the verdict. A host that becomes unknown
// has none.
type suspicion struct {
	verdict string
	took    time.Duration
}

// core decides the states of hosts. It is pure.
type core struct {
	timeouts
	connected       bool          // the watcher's connection is up
	unresponsive    bool          // the server answers no echo
	deafSince       time.Duration // canObserve has been false since then; never: it is true
	listeningSince  time.Duration // start of the time in which silence counts (PRES-1)
	receivedUntil   time.Duration // everything that the server had by then has arrived
	echoSent        time.Duration // send time of the pending echo; never: none
	echoSlow        bool          // the last echo took long
	healthScore     int           // Lifeguard's score: 0 is healthy
	nextRegularTick time.Duration // time of the next regular tick
	nextTick        time.Duration // time of the next tick
	hosts           []*host       // ordered by ID

	// State of the present step.
	now     time.Duration
	changes []Change
	effects effects
}

func newCore(l timeouts) *core {
	return &core{timeouts: l, echoSent: never, deafSince: never}
}

// step handles an event. The caller owns the results and sets At of the changes.
func (c *core) step(event any, now time.Duration) ([]Change, effects) {
	c.now = max(now, c.now)
	c.changes = nil
	c.effects = effects{echo: never}
	switch e := event.(type) {
	case tick:
		c.onTick()
	case heartbeatReceived:
		c.onHeartbeat(e.Heartbeat)
	case disconnectHinted:
		c.onDisconnectHint(e.Connection)
	case probeResult:
		c.onProbeResult(e)
	case echoReceived:
		c.onEcho(e.sent)
	case connectionChanged:
		c.onConnectionChange(e.up)
	case messagesDropped:
		c.restartListening()
	case hostAdded:
		c.addHost(e.host)
	case hostRemoved:
		c.removeHost(e.host)
	}
	if c.canObserve() {
		c.deafSince = never
	} else if c.deafSince == never {
		c.deafSince = c.now
	}
	c.effects.wake = c.nextTick
	return c.changes, c.effects
}

// busSilence returns for how long canObserve has been false; 0: it is true.
func (c *core) busSilence(now time.Duration) time.Duration {
	if c.deafSince == never {
		return 0
	}
	return now - c.deafSince
}

// canObserve reports whether silence means that nothing was sent.
func (c *core) canObserve() bool { return c.connected && !c.unresponsive }

func (c *core) onTick() {
	late := c.now - c.nextTick
	if late > c.dead {
		c.markAllUnknown(fmt.Sprintf("this process was paused for %s", roundForDisplay(late)))
		c.restartListening()
	}
	if c.now >= c.nextRegularTick {
		c.nextRegularTick = c.now + c.heartbeat
		c.updateHealth(late)
		if c.unresponsive {
			c.echoSent = never
		}
		c.sendEcho()
	}
	c.nextTick = c.nextRegularTick
	c.evaluateAll()
}

// updateHealth updates the watcher's health score.
func (c *core) updateHealth(late time.Duration) {
	away := c.now - c.echoSent
	waits := c.connected && c.echoSent != never
	if late > c.heartbeat/2 || c.echoSlow || waits && away > slowEchoThreshold {
		c.healthScore = min(c.healthScore+1, maxHealthScore)
	} else {
		c.healthScore = max(c.healthScore-1, 0)
	}
	if waits && away > c.suspect && !c.unresponsive {
		c.markAllUnknown(fmt.Sprintf("the bus has not answered for %s", roundForDisplay(away)))
		c.unresponsive = true
	}
}

// onConnectionChange handles the loss or return of the watcher's connection.
func (c *core) onConnectionChange(up bool) {
	c.markAllUnknown("the connection to the bus is lost")
	c.connected, c.unresponsive = up, false
	if up {
		c.restartListening()
		c.sendEcho()
	}
}

// markAllUnknown makes live and suspect hosts unknown, because the watcher cannot hear (PRES-1).
// Dead hosts stay dead (PRES-4).
func (c *core) markAllUnknown(why string) {
	for _, h := range c.hosts {
		if h.state != Dead {
			h.resetProbes()
			c.setState(h, Unknown, why)
		}
	}
}

// restartListening starts a new listening period. The first probes follow once heartbeats had time
// to arrive.
func (c *core) restartListening() {
	c.listeningSince = c.now
	c.receivedUntil = c.now
	c.echoSent = never
	c.echoSlow = false
	for _, h := range c.hosts {
		h.nextProbe = c.now + c.heartbeat
	}
}

// sendEcho requests an echo, to find out whether older messages are still on their way.
func (c *core) sendEcho() {
	if c.connected && c.echoSent == never {
		c.echoSent, c.effects.echo = c.now, c.now
	}
}

// onEcho handles the watcher's own echo. Everything that the server had before the echo has
// arrived.
func (c *core) onEcho(sent time.Duration) {
	if !c.connected || sent < c.listeningSince {
		return
	}
	away := c.now - sent
	c.echoSlow = away > slowEchoThreshold
	if sent >= c.echoSent {
		c.echoSent = never
	}
	if c.unresponsive || away > c.suspect { // the echo is too old as evidence, and later messages follow it
		c.unresponsive = false
		c.restartListening()
	}
	c.receivedUntil = max(c.receivedUntil, sent)
	c.evaluateAll()
}

func (c *core) evaluateAll() {
	for _, h := range c.hosts {
		c.evaluate(h)
	}
}

// evaluate derives the state of a host from its silence, and may probe the host.
func (c *core) evaluate(h *host) {
	if h.state == Dead || !c.canObserve() {
		return
	}
	times := c.timeoutFactor(h)
	since := max(h.lastHeard, c.listeningSince)
	quiet := c.receivedUntil - since
	switch {
	case h.hasLeft(times * c.confirm):
		c.decide(h, verdictDisconnect)
		c.setState(h, Dead,
			fmt.Sprintf("its connections have ended, and no process has listened there for %s%s",
				roundForDisplay(h.refusedFor()), h.closeReasonSuffix()))
		return
	case quiet >= times*c.dead && h.unanswered > 0: // PRES-1
		c.decide(h, verdictSilence)
		c.setState(h, Dead,
			fmt.Sprintf("no heartbeat for %s, and no answer%s", roundForDisplay(quiet), h.closeReasonSuffix()))
		return
	case quiet >= times*c.suspect && h.state != Suspect:
		h.nextProbe = c.now
		c.setState(h, Suspect, fmt.Sprintf("no heartbeat for %s", roundForDisplay(quiet)))
	}
	due := since + times*c.suspect
	if h.state == Suspect {
		due = since + times*c.dead
	}
	if due > c.now {
		c.scheduleTick(due)
	} else if c.receivedUntil < due {
		c.sendEcho()
	}
	c.maybeProbe(h, times)
}

// maybeProbe probes a host that is not known to be alive, one probe at a time.
func (c *core) maybeProbe(h *host, times time.Duration) {
	switch {
	case h.state == Alive || h.state == Dead || h.probeSent != never:
	case h.nextProbe > c.now:
		c.scheduleTick(h.nextProbe)
	default:
		h.probeSent, h.nextProbe = c.now, c.now+c.heartbeat
		c.effects.probes = append(c.effects.probes, probe{h.id, c.now, times * c.suspect})
	}
}

// timeoutFactor returns the stretch of a host's timeouts: the larger one of host and watcher.
func (c *core) timeoutFactor(h *host) time.Duration {
	return time.Duration(max(c.healthScore+1, h.lagFactor) * h.intervalFactor)
}

func (c *core) scheduleTick(t time.Duration) { c.nextTick = min(c.nextTick, t) }

// decide records the verdict about a host, if it is suspect.
func (c *core) decide(h *host, verdict string) {
	if h.state == Suspect {
		c.effects.ended = append(c.effects.ended, suspicion{verdict, c.now - h.suspectSince})
	}
}

// setState records and reports a new state.
func (c *core) setState(h *host, s State, why string) {
	if h.state == s {
		return
	}
	if s == Suspect {
		h.suspectSince = c.now
	}
	if s == Alive || s == Dead {
		h.resetProbes()
	}
	h.state = s
	c.emitChange(h, why)
}

// emitChange reports the state of a host.
func (c *core) emitChange(h *host, why string) {
	h.lastChange = Change{
		Host: h.id, State: h.state, Reason: why, Silence: c.now - h.lastHeard, NeverHeard: h.neverHeard,
		Graceful: h.state == Dead && h.goodbye, Mode: h.mode, Gateway: h.gateway,
		Incarnation: h.incarnation,
	}
	h.lastChangeAt = c.now
	c.changes = append(c.changes, h.lastChange)
}

func (c *core) find(id subjects.HostID) (int, *host) {
	i, ok := slices.BinarySearchFunc(c.hosts, id,
		func(h *host, id subjects.HostID) int { return h.id.Compare(id) })
	if !ok {
		return i, nil
	}
	return i, c.hosts[i]
}

// roundForDisplay rounds a time for people.
func roundForDisplay(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
