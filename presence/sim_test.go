package presence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// defaults are the configured defaults.
func defaults() timeouts {
	return timeouts{heartbeat: 500 * time.Millisecond, suspect: 1500 * time.Millisecond,
		dead: 4500 * time.Millisecond, confirm: 600 * time.Millisecond}
}

const way = time.Millisecond // of a message, from end to end

// sim is a core with its bus and hosts, in virtual time.
type sim struct {
	core  *core
	now   time.Duration
	later []planned
	tick  time.Duration // when it is due; none: not
	hosts map[string]*simHost
	told  func(Change)

	judged func(suspicion) // nil: verdicts are ignored

	down    bool          // the own connection is lost
	stalled bool          // it is there, and nothing comes
	paused  bool          // the own process does nothing
	busy    time.Duration // how late everything is
	last    time.Duration // when the last message comes
	backlog []any         // what is to be heard once that is over
	ticking bool          // a tick was due meanwhile
}

type planned struct {
	at time.Duration
	do func()
}

// simHost is a hostd.
type simHost struct {
	id        subjects.HostID
	seq, life uint64
	conns     []agent.Connection
	dead      bool // there is no process
	frozen    bool // it does nothing
	away      bool // the bus has nothing of it, and nobody who listens
	mute      bool // it beats no more, and answers
	lag       time.Duration
	interval  time.Duration
	mode      agent.HostMode
	gateway   subjects.ProcessID
	lastBeat  time.Duration            // when the last one reached the watcher
	lastSent  time.Duration            // when that one was sent
	sent      map[uint64]time.Duration // when beats of this life were, by their number
}

func newSim(told func(Change)) *sim {
	s := &sim{core: newCore(defaults()), tick: never, hosts: map[string]*simHost{}, told: told}
	s.step(connectionChanged{true})
	return s
}

// host is the host of a label. Its heartbeats begin with the first use of the label.
func (s *sim) host(label string) *simHost {
	h := s.hosts[label]
	if h == nil {
		id, err := subjects.ParseHostID(label + "-" + strings.Repeat(label, subjects.UIDLen))
		if err != nil {
			panic(err)
		}
		h = &simHost{id: id, life: 1, interval: 500 * time.Millisecond}
		s.hosts[label] = h
		s.addConnections(h)
		s.beats(h)
	}
	return h
}

// addConnections gives a host two new connections.
func (s *sim) addConnections(h *simHost) {
	n := uint64(1)
	for _, other := range s.hosts {
		for _, c := range other.conns {
			n = max(n, c.Client+1)
		}
	}
	h.conns = []agent.Connection{{Server: "s", Client: n}, {Server: "s", Client: n + 1}}
}

func (s *sim) beats(h *simHost) {
	s.plan(h.interval+h.lag, func() {
		s.beat(h, false)
		s.beats(h)
	})
}

func (s *sim) beat(h *simHost, goodbye bool) {
	if h.dead || h.frozen || h.away || h.mute {
		return
	}
	h.seq++
	if h.seq == 1 {
		h.sent = map[uint64]time.Duration{}
	}
	h.sent[h.seq] = s.now
	b := agent.Heartbeat{Host: h.id, Incarnation: h.life, Seq: h.seq, Interval: h.interval, Lag: h.lag,
		Conns: slices.Clone(h.conns), Goodbye: goodbye, Mode: h.mode, Gateway: h.gateway}
	if goodbye || h.mode != "" && h.mode != agent.ModeOpen {
		b.Reason = "asked to"
	}
	s.send(heartbeatReceived{b})
}

// disconnect publishes a server's advisory of ended connections.
func (s *sim) disconnect(conns []agent.Connection) {
	for _, c := range conns {
		s.send(disconnectHinted{c})
	}
}

func (s *sim) plan(after time.Duration, do func()) {
	p := planned{s.now + after, do}
	i, _ := slices.BinarySearchFunc(s.later, p,
		func(a, b planned) int { return cmp.Or(cmp.Compare(a.at, b.at), -1) })
	s.later = slices.Insert(s.later, i, p)
}

// send is a message of the server to the watcher.
func (s *sim) send(event any) {
	if s.down {
		return
	}
	s.last = max(s.last, s.now+way+s.busy) // a connection keeps its order
	s.plan(s.last-s.now, func() { s.feed(event) })
}

func (s *sim) feed(event any) {
	if s.stalled || s.paused {
		s.backlog = append(s.backlog, event)
		return
	}
	s.step(event)
}

func (s *sim) step(event any) {
	if b, ok := event.(heartbeatReceived); ok {
		h := s.hosts[b.Host.Label()]
		h.lastBeat = s.now
		if b.Incarnation == h.life {
			h.lastSent = h.sent[b.Seq]
		}
	}
	changes, do := s.core.step(event, s.now)
	for _, c := range changes {
		s.told(c)
	}
	if s.judged != nil {
		for _, v := range do.ended {
			s.judged(v)
		}
	}
	if do.echo != never {
		s.send(echoReceived{do.echo})
	}
	for _, p := range do.probes {
		s.probe(p)
	}
	if s.tick == never || do.wake < s.tick {
		at := do.wake
		s.tick = at
		s.plan(max(0, at-s.now)+s.busy, func() {
			if s.tick != at {
				return
			}
			if s.tick = never; s.paused {
				s.ticking = true
				return
			}
			s.step(tick{})
		})
	}
}

func (s *sim) probe(p probe) {
	ended := false
	end := func(v probeOutcome) {
		if !ended {
			ended = true
			s.feed(probeResult{p.host, p.sent, v})
		}
	}
	s.plan(p.timeout, func() { end(timedOut) })
	if s.down {
		s.plan(0, func() { end(notSent) })
		return
	}
	for _, h := range s.hosts {
		switch {
		case h.id != p.host:
		case h.dead || h.away:
			s.plan(way+s.busy, func() { end(refused) })
		case !h.frozen:
			s.plan(way+s.busy+h.lag, func() { end(answered) })
		}
	}
}

// run advances the time.
func (s *sim) run(until time.Duration) {
	for len(s.later) > 0 && s.later[0].at <= until {
		p := s.later[0]
		s.later = s.later[1:]
		s.now = p.at
		p.do()
	}
	s.now = until
}

// lose cuts the watcher's own connection.
func (s *sim) lose() {
	if !s.down {
		s.down, s.stalled, s.backlog = true, false, nil
		s.feed(connectionChanged{false})
	}
}

// heal restores it, and ends a stall and a pause.
func (s *sim) heal() {
	if s.down {
		s.down = false
		s.feed(connectionChanged{true})
	}
	s.stalled, s.paused = false, false
	if s.ticking { // timers fire before the queue is read, or after: both happen
		s.ticking = false
		s.step(tick{})
	}
	backlog := s.backlog
	s.backlog = nil
	for _, e := range backlog {
		s.step(e)
	}
}

func (c Change) line() string {
	state := c.State.String()
	if c.State == Alive && c.Mode != agent.ModeOpen {
		state += " and " + string(c.Mode)
	}
	if c.Gateway.IsValid() {
		state += " with " + c.Gateway.Proc().Mesh.Label()
	}
	if c.State == Alive && c.Incarnation > 1 {
		state += fmt.Sprintf(" in life %d", c.Incarnation)
	}
	return fmt.Sprintf("%s %s: %s", c.Host.Label(), state, c.Reason)
}
