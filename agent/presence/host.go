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
	// maxTimes is how often a host's own lag stretches its times.
	maxTimes = maxScore + 1
	// maxPace is how much more rarely than expected a host may beat (PRES-7): the bounds of supervision.heartbeat.
	maxPace = 6000
	// refusals is how often nobody listens, at least, where a host has left.
	refusals = 3
	// confirmations is how often it is asked in supervision.confirm.
	confirmations = 6
)

// host is what is known of one.
type host struct {
	id    subjects.HostID
	state State
	last  Change        // as it was told
	at    time.Duration // when
	heard time.Duration // the last sign of life; before there was one: when it was first watched

	life, seq uint64
	goodbye   bool   // of that life
	closing   string // why it stops; "": it does not, or does not say
	mode      agent.HostMode
	unheard   bool // there was no sign of life
	slow      int  // how often its own lag stretches its times
	pace      int  // how much more rarely than expected it beats
	conns     []connection

	probe      time.Duration // when the one under way was sent; none: there is none
	ask        time.Duration // when the next one may be
	unanswered int           // since it was heard, or could have been

	refused                   int // in a row
	firstRefused, lastRefused time.Duration
}

// connection is one that a heartbeat has named.
type connection struct {
	agent.Connection
	ended bool // as a hint says
}

// rest forgets what was asked.
func (h *host) rest() { h.probe, h.unanswered, h.refused = none, 0, 0 }

// cut reports whether all connections that the host named have ended, as hints say.
func (h *host) cut() bool {
	return len(h.conns) > 0 && !slices.ContainsFunc(h.conns, func(c connection) bool { return !c.ended })
}

// trust forgets what hints have said.
func (h *host) trust() {
	for i := range h.conns {
		h.conns[i].ended = false
	}
}

// left reports whether the host's process has ended, by all that is known (PRES-3).
func (h *host) left(confirm time.Duration) bool {
	return h.cut() && h.refused >= refusals && h.refusedFor() >= confirm
}

// refusedFor is how long nobody has listened there: from question to question.
func (h *host) refusedFor() time.Duration { return h.lastRefused - h.firstRefused }

// parting is what the host has said of its end.
func (h *host) parting() string {
	if h.closing == "" {
		return ""
	}
	return "; it was stopping: " + h.closing
}

func (c *core) watched(id subjects.HostID) {
	i, known := c.find(id)
	if known != nil {
		return
	}
	h := &host{id: id, heard: c.now, probe: none, ask: c.now, slow: 1, pace: 1, mode: agent.Open, unheard: true}
	c.hosts = slices.Insert(c.hosts, i, h)
	c.to(h, Unknown, "not heard of yet")
	c.judge(h)
}

func (c *core) dropped(id subjects.HostID) {
	if i, h := c.find(id); h != nil {
		c.hosts = slices.Delete(c.hosts, i, i+1)
	}
}

// beat takes a sign of life.
func (c *core) beat(b agent.Heartbeat) {
	_, h := c.find(b.Host)
	if h == nil || b.Life == h.life && (h.goodbye || b.Seq <= h.seq) { // PRES-5
		return
	}
	silence := c.now - h.heard
	h.life, h.seq, h.goodbye, h.closing = b.Life, b.Seq, b.Goodbye, ""
	h.heard, h.unheard = c.now, false
	mode := cmp.Or(b.Mode, agent.Open)
	news := mode != h.mode && h.state == Alive
	h.mode = mode
	h.slow = max(1, h.slow-1, min(maxTimes, 1+int(min(maxScore, b.Lag/max(1, b.Interval/2)))))
	h.pace = int(max(1, min(maxPace, (min(b.Interval, time.Minute)+c.heartbeat-1)/c.heartbeat)))
	h.named(b.Conns)
	if b.Closing {
		h.closing = b.Why
	}
	switch {
	case b.Goodbye: // PRES-4
		c.to(h, Dead, "it has stopped: "+b.Why)
	case !c.sees():
	case h.cut(): // it was sent before the end, or the hints are wrong: an answer decides
		if h.state == Dead {
			c.to(h, Suspect, "a heartbeat over connections that are said to have ended")
			h.ask = c.now
			c.judge(h)
		}
	case news:
		h.rest()
		c.tell(h, cmp.Or(b.Why, "it takes procs"))
	default:
		h.rest()
		c.to(h, Alive, fmt.Sprintf("a heartbeat, after %s", round(silence)))
	}
}

// named takes the connections that a host has now. That one has ended stays known.
func (h *host) named(conns []agent.Connection) {
	var now []connection
	for _, id := range conns {
		now = append(now, connection{id, slices.Contains(h.conns, connection{id, true})})
	}
	h.conns = now
}

// gone takes a hint (PRES-3). The same one from others says nothing new.
func (c *core) gone(id agent.Connection) {
	for _, h := range c.hosts {
		i := slices.Index(h.conns, connection{id, false})
		if i < 0 {
			continue
		}
		h.conns[i].ended = true
		if h.state == Dead || !c.sees() {
			continue
		}
		c.to(h, Suspect, "a connection of it has ended")
		h.probe, h.ask = none, c.now // an answer to what was asked before would say nothing
		c.judge(h)
	}
}

// answer takes what came of a probe.
func (c *core) answer(a answer) {
	_, h := c.find(a.host)
	if h == nil || h.state == Dead || !c.sees() {
		return
	}
	if a.how == answered {
		silence := c.now - h.heard
		h.heard, h.unheard = c.now, false
		if h.cut() && a.sent != h.probe { // it was asked before the hints
			return
		}
		h.rest()
		if h.cut() { // those hints were wrong, or it has others by now
			h.trust()
		}
		c.to(h, Alive, fmt.Sprintf("it answers, after %s", round(silence)))
		return
	}
	if a.sent != h.probe {
		return
	}
	h.probe = none
	switch a.how {
	case silent:
		h.unanswered, h.refused = h.unanswered+1, 0
	case refused:
		if h.refused == 0 {
			h.firstRefused = a.sent
		}
		h.unanswered, h.refused, h.lastRefused = h.unanswered+1, h.refused+1, a.sent
		c.to(h, Suspect, "nobody listens there")
		if h.cut() { // in step with the first one, so that what is late does not add up
			step := c.times(h) * c.confirm / confirmations
			h.ask = h.firstRefused + (h.refusedFor()/step+1)*step
		}
	}
	c.judge(h)
}
