package presence

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// maxLagFactor bounds the stretch by a host's own lag.
	maxLagFactor = maxHealthScore + 1
	// maxIntervalFactor bounds the stretch by a host's longer interval (PRES-1): the bounds of
	// supervision.heartbeat-interval.
	maxIntervalFactor = 6000
	// minRefusals is the minimum of probes without listener before a host counts as gone.
	minRefusals = 3
	// probesPerConfirm is the number of probes in supervision.confirm-after.
	probesPerConfirm = 6
)

// host is the record of one host.
type host struct {
	id           subjects.HostID
	state        State
	lastChange   Change        // last reported change
	lastChangeAt time.Duration // its time
	lastHeard    time.Duration // last sign of life; at first, the start of the watch
	suspectSince time.Duration // of a suspect host

	incarnation, seq uint64 // of the last heartbeat; 0: none so far
	goodbye          bool   // of that incarnation
	closeReason      string // why it stops; "": not stopping or not given
	mode             agent.HostMode
	gateway          subjects.ProcessID
	neverHeard       bool // no heartbeat so far
	lagFactor        int  // stretch by its own lag
	intervalFactor   int  // its interval relative to the expected one
	conns            []connection

	probeSent  time.Duration // send time of the pending probe; never: none
	nextProbe  time.Duration // earliest time of the next probe
	unanswered int           // probes since the last sign of life

	refused                   int // consecutive probes without listener
	firstRefused, lastRefused time.Duration
}

// connection is a connection listed in a heartbeat.
type connection struct {
	agent.Connection
	ended bool // according to a hint
}

// resetProbes clears the results of probes.
func (h *host) resetProbes() {
	h.probeSent = never
	h.unanswered = 0
	h.refused = 0
}

// allConnsEnded reports whether hints cover all connections of the host.
func (h *host) allConnsEnded() bool {
	return len(h.conns) > 0 && !slices.ContainsFunc(h.conns, func(c connection) bool { return !c.ended })
}

// discardHints clears all hints.
func (h *host) discardHints() {
	for i := range h.conns {
		h.conns[i].ended = false
	}
}

// hasLeft reports whether hints and probes show the end of the host's process (PRES-3).
func (h *host) hasLeft(confirm time.Duration) bool {
	return h.allConnsEnded() && h.refused >= minRefusals && h.refusedFor() >= confirm
}

// refusedFor returns the time from the first to the last probe without listener.
func (h *host) refusedFor() time.Duration { return h.lastRefused - h.firstRefused }

// closeReasonSuffix returns the host's closing reason for a message.
func (h *host) closeReasonSuffix() string {
	if h.closeReason == "" {
		return ""
	}
	return "; it was stopping: " + h.closeReason
}

func (c *core) addHost(id subjects.HostID) {
	i, known := c.find(id)
	if known != nil {
		return
	}
	h := &host{
		id: id, lastHeard: c.now, probeSent: never, nextProbe: c.now, lagFactor: 1, intervalFactor: 1,
		mode: agent.ModeOpen, neverHeard: true,
	}
	c.hosts = slices.Insert(c.hosts, i, h)
	c.setState(h, Unknown, "no heartbeat yet")
	c.evaluate(h)
}

func (c *core) removeHost(id subjects.HostID) {
	if i, h := c.find(id); h != nil {
		c.hosts = slices.Delete(c.hosts, i, i+1)
	}
}

// onHeartbeat handles a heartbeat.
func (c *core) onHeartbeat(b agent.Heartbeat) {
	_, h := c.find(b.Host)
	if h == nil || b.Incarnation == h.incarnation && (h.goodbye || b.Seq <= h.seq) { // PRES-4
		return
	}
	silence := c.now - h.lastHeard
	why := "it takes procs"
	if h.incarnation != 0 && b.Incarnation != h.incarnation {
		why = "it has started again"
	}
	news := b.Incarnation != h.incarnation
	h.incarnation = b.Incarnation
	h.seq = b.Seq
	h.goodbye = b.Goodbye
	h.closeReason = ""
	h.lastHeard, h.neverHeard = c.now, false
	mode := cmp.Or(b.Mode, agent.ModeOpen)
	news = (news || mode != h.mode || b.Gateway != h.gateway) && h.state == Alive
	h.mode = mode
	h.gateway = b.Gateway
	h.lagFactor = max(1, h.lagFactor-1,
		min(maxLagFactor, 1+int(min(maxHealthScore, b.Lag/max(1, b.Interval/2)))))
	h.intervalFactor = int(max(1, min(maxIntervalFactor,
		(min(b.Interval, time.Minute)+c.heartbeat-1)/c.heartbeat)))
	h.updateConns(b.Conns)
	if b.Closing {
		h.closeReason = b.Reason
	}
	switch {
	case b.Goodbye: // PRES-4
		c.decide(h, verdictGoodbye)
		c.setState(h, Dead, "it has stopped: "+b.Reason)
	case !c.canObserve():
	case h.allConnsEnded(): // the heartbeat may be older, or the hints wrong: a probe decides
		if h.state == Dead {
			c.setState(h, Suspect, "a heartbeat over connections that were reported as ended")
			h.nextProbe = c.now
			c.evaluate(h)
		}
	case news:
		h.resetProbes()
		c.emitChange(h, cmp.Or(b.Reason, why))
	default:
		h.resetProbes()
		c.decide(h, verdictAlive)
		c.setState(h, Alive, fmt.Sprintf("a heartbeat, after %s", roundForDisplay(silence)))
	}
}

// updateConns records the host's present connections and keeps their hints.
func (h *host) updateConns(conns []agent.Connection) {
	var now []connection
	for _, id := range conns {
		now = append(now, connection{id, slices.Contains(h.conns, connection{id, true})})
	}
	h.conns = now
}

// onDisconnectHint handles a hint (PRES-3). A repeated hint has no effect.
func (c *core) onDisconnectHint(id agent.Connection) {
	for _, h := range c.hosts {
		i := slices.Index(h.conns, connection{id, false})
		if i < 0 {
			continue
		}
		h.conns[i].ended = true
		if h.state == Dead || !c.canObserve() {
			continue
		}
		c.setState(h, Suspect, "one of its connections has ended")
		h.probeSent, h.nextProbe = never, c.now // an answer to an earlier probe is no evidence
		c.evaluate(h)
	}
}

// onProbeResult handles the outcome of a probe.
func (c *core) onProbeResult(a probeResult) {
	_, h := c.find(a.host)
	if h == nil || h.state == Dead || !c.canObserve() {
		return
	}
	if a.outcome == answered {
		silence := c.now - h.lastHeard
		h.lastHeard, h.neverHeard = c.now, false
		if h.allConnsEnded() && a.sent != h.probeSent { // sent before the hints
			return
		}
		h.resetProbes()
		if h.allConnsEnded() { // the hints were wrong, or the host has reconnected
			h.discardHints()
		}
		c.decide(h, verdictAlive)
		c.setState(h, Alive, fmt.Sprintf("it answers, after %s", roundForDisplay(silence)))
		return
	}
	if a.sent != h.probeSent {
		return
	}
	h.probeSent = never
	switch a.outcome {
	case timedOut:
		h.unanswered, h.refused = h.unanswered+1, 0
	case refused:
		if h.refused == 0 {
			h.firstRefused = a.sent
		}
		h.unanswered++
		h.refused++
		h.lastRefused = a.sent
		c.setState(h, Suspect, "no process listens there")
		if h.allConnsEnded() { // relative to the first probe, so that delays do not add up
			step := c.timeoutFactor(h) * c.confirm / probesPerConfirm
			h.nextProbe = h.firstRefused + (h.refusedFor()/step+1)*step
		}
	}
	c.evaluate(h)
}
