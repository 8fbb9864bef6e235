package presence

import (
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// What starves a watcher, and how far that stretches its patience.
const (
	slowEcho = 250 * time.Millisecond
	maxScore = 7 // so eight times
)

// limits are the keys of the configuration.
type limits struct{ heartbeat, suspect, dead, confirm time.Duration }

// Times are on a clock that begins with the watcher and never steps (PRES-6); none is before all of them.
const none = time.Duration(-1)

// The events.
type (
	watched struct{ host subjects.HostID }
	dropped struct{ host subjects.HostID }
	beat    struct{ agent.Heartbeat }
	gone    struct{ agent.Connection } // as somebody's server says
	link    struct{ up bool }          // the own connection
	echo    struct{ sent time.Duration }
	missed  struct{} // what came found no room
	tick    struct{}
	answer  struct {
		host subjects.HostID
		sent time.Duration // the probe
		how  verdict
	}
)

// verdict is what came of a probe.
type verdict uint8

const (
	answered verdict = iota
	refused          // nobody listens there
	silent           // nothing, within the time it had
	failed           // it was not asked
)

// effects are what is to be done after a step.
type effects struct {
	probes []probe
	echo   time.Duration // send oneself a message, which says this; none: do not
	wake   time.Duration // the next tick
}

// probe asks a host.
type probe struct {
	host   subjects.HostID
	sent   time.Duration
	within time.Duration
}

// core decides who is there.
type core struct {
	limits
	up     bool          // the own connection is there
	deaf   bool          // and does not answer
	clear  time.Duration // since when silence counts (PRES-1)
	proven time.Duration // until when: what the server had by then has arrived
	echoed time.Duration // when the echo under way was sent; none: there is none
	slow   bool          // the last one took long
	score  int           // Lifeguard's: 0 is healthy
	next   time.Duration // the next regular tick
	due    time.Duration // the next tick
	hosts  []*host       // in the order of their IDs

	// Of the step under way.
	now time.Duration
	out []Change
	do  effects
}

func newCore(l limits) *core {
	return &core{limits: l, echoed: none}
}

// step takes an event. What it returns is the caller's; At of the changes is for the caller to set.
func (c *core) step(event any, now time.Duration) ([]Change, effects) {
	c.now, c.out, c.do = max(now, c.now), nil, effects{echo: none}
	switch e := event.(type) {
	case tick:
		c.tick()
	case beat:
		c.beat(e.Heartbeat)
	case gone:
		c.gone(e.Connection)
	case answer:
		c.answer(e)
	case echo:
		c.echo(e.sent)
	case link:
		c.link(e.up)
	case missed:
		c.anew()
	case watched:
		c.watched(e.host)
	case dropped:
		c.dropped(e.host)
	}
	c.do.wake = c.due
	return c.out, c.do
}

// sees reports whether what is not heard has not been said.
func (c *core) sees() bool { return c.up && !c.deaf }

func (c *core) tick() {
	late := c.now - c.due
	if late > c.dead {
		c.blind(fmt.Sprintf("this process was paused for %s", round(late)))
		c.anew()
	}
	if c.now >= c.next {
		c.next = c.now + c.heartbeat
		c.judgeSelf(late)
		if c.deaf {
			c.echoed = none
		}
		c.prove()
	}
	c.due = c.next
	c.judgeAll()
}

// judgeSelf follows the own health.
func (c *core) judgeSelf(late time.Duration) {
	away := c.now - c.echoed
	waits := c.up && c.echoed != none
	if late > c.heartbeat/2 || c.slow || waits && away > slowEcho {
		c.score = min(c.score+1, maxScore)
	} else {
		c.score = max(c.score-1, 0)
	}
	if waits && away > c.suspect && !c.deaf {
		c.blind(fmt.Sprintf("the bus has not answered for %s", round(away)))
		c.deaf = true
	}
}

// link takes the news that the own connection was lost, or is there.
func (c *core) link(up bool) {
	c.blind("the connection to the bus is lost")
	if c.up, c.deaf = up, false; up {
		c.anew()
		c.prove()
	}
}

// blind makes what is known of all hosts unknown: nobody is dead of what could not be heard (PRES-1). The
// dead stay dead (PRES-5).
func (c *core) blind(why string) {
	for _, h := range c.hosts {
		if h.state != Dead {
			h.rest()
			c.to(h, Unknown, why)
		}
	}
}

// anew begins to listen. Nobody is asked before there was time to hear of him.
func (c *core) anew() {
	c.clear, c.proven, c.echoed, c.slow = c.now, c.now, none, false
	for _, h := range c.hosts {
		h.ask = c.now + c.heartbeat
	}
}

// prove finds out whether anything is still to come.
func (c *core) prove() {
	if c.up && c.echoed == none {
		c.echoed, c.do.echo = c.now, c.now
	}
}

// echo takes the watcher's own message: whatever the server had when it was sent has come.
func (c *core) echo(sent time.Duration) {
	if !c.up || sent < c.clear {
		return
	}
	away := c.now - sent
	if c.slow = away > slowEcho; sent >= c.echoed {
		c.echoed = none
	}
	if c.deaf || away > c.suspect { // what it proves is of long ago, and what has come since is behind it
		c.deaf = false
		c.anew()
	}
	c.proven = max(c.proven, sent)
	c.judgeAll()
}

func (c *core) judgeAll() {
	for _, h := range c.hosts {
		c.judge(h)
	}
}

// judge decides what the silence of a host means, and has it asked.
func (c *core) judge(h *host) {
	if h.state == Dead || !c.sees() {
		return
	}
	times := c.times(h)
	since := max(h.heard, c.clear)
	quiet := c.proven - since
	switch {
	case h.left(times * c.confirm):
		c.to(h, Dead, fmt.Sprintf("its connections have ended, and for %s nobody has listened there%s", round(h.refusedFor()), h.parting()))
		return
	case quiet >= times*c.dead && h.unanswered > 0: // PRES-2
		c.to(h, Dead, fmt.Sprintf("no heartbeat for %s, and no answer%s", round(quiet), h.parting()))
		return
	case quiet >= times*c.suspect && h.state != Suspect:
		h.ask = c.now
		c.to(h, Suspect, fmt.Sprintf("no heartbeat for %s", round(quiet)))
	}
	due := since + times*c.suspect
	if h.state == Suspect {
		due = since + times*c.dead
	}
	if due > c.now {
		c.wakeAt(due)
	} else if c.proven < due {
		c.prove()
	}
	c.probe(h, times)
}

// probe asks a host that is not known to be alive, one question at a time.
func (c *core) probe(h *host, times time.Duration) {
	switch {
	case h.state == Alive || h.state == Dead || h.probe != none:
	case h.ask > c.now:
		c.wakeAt(h.ask)
	default:
		h.probe, h.ask = c.now, c.now+c.heartbeat
		c.do.probes = append(c.do.probes, probe{h.id, c.now, times * c.suspect})
	}
}

// times is how often the times of a host are stretched, by the slower of the two.
func (c *core) times(h *host) time.Duration {
	return time.Duration(max(c.score+1, h.slow) * h.pace)
}

func (c *core) wakeAt(t time.Duration) { c.due = min(c.due, t) }

// to tells a new state.
func (c *core) to(h *host, s State, why string) {
	if h.state == s {
		return
	}
	if s == Alive || s == Dead {
		h.rest()
	}
	h.state = s
	c.tell(h, why)
}

// tell tells how a host is.
func (c *core) tell(h *host, why string) {
	h.last = Change{Host: h.id, State: h.state, Reason: why, Silence: c.now - h.heard, Unheard: h.unheard, Left: h.state == Dead && h.goodbye, Mode: h.mode}
	h.at = c.now
	c.out = append(c.out, h.last)
}

func (c *core) find(id subjects.HostID) (int, *host) {
	i, ok := slices.BinarySearchFunc(c.hosts, id, func(h *host, id subjects.HostID) int { return h.id.Compare(id) })
	if !ok {
		return i, nil
	}
	return i, c.hosts[i]
}

// round is a time for people.
func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
