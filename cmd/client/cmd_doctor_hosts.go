package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// askedWithin is how long a host may take to answer, and slowAnswer what is worth a word.
	askedWithin = 3 * time.Second
	slowAnswer  = 500 * time.Millisecond
	// apart is how far clocks may be from each other.
	apart = time.Second
	// askedAtOnce bounds the hosts that are asked at a time, namedAtMost those that a finding names.
	askedAtOnce = 64
	namedAtMost = 5
)

// answer is what one host said of itself, and when.
type answer struct {
	id   subjects.HostID
	info agent.HostInfo
	err  error
	took time.Duration
	skew time.Duration // of its clock, give or take half of took; known where it says the time
	lag  time.Duration // how late its last beat was

	known agent.KnownHost // as a gateway sees it; zero: no gateway does
}

// census listens to who beats while the other checks are made.
type census struct {
	d       *doctor
	begun   time.Time
	stop    func()
	mu      sync.Mutex
	beating map[subjects.HostID]time.Duration // with the lag of the last beat
}

// beginCensus begins to listen, until end. Where that is refused nobody is heard, as the findings say.
func (d *doctor) beginCensus() *census {
	c := &census{d: d, begun: time.Now(), stop: func() {}, beating: map[subjects.HostID]time.Duration{}}
	sub, err := d.b.Control().Lossy(agent.HeartbeatInbox).Subscribe(d.space.Heartbeats(agent.HostBeats), c.hear)
	if err == nil {
		c.stop = func() { _ = sub.Unsubscribe() } // where that fails, the bus is gone and nothing is heard
	}
	return c
}

func (c *census) end() { c.stop() }

// hear takes the beat of a host. A host that has said goodbye is none.
func (c *census) hear(m bus.Msg) {
	at, err := c.d.space.Parse(m.Subject)
	var beat agent.Heartbeat
	if err != nil || wire.Unmarshal(m.Data, &beat) != nil || beat.Check(at.From) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if beat.Goodbye {
		delete(c.beating, beat.Host)
		return
	}
	c.beating[beat.Host] = beat.Lag
}

// take ends the listening once every host had the time to beat twice, and asks each host that is known.
func (c *census) take(ctx context.Context) seen {
	select {
	case <-time.After(time.Until(c.begun.Add(2 * config.SupervisionHeartbeat.Get(c.d.o.Config)))):
	case <-ctx.Done():
	}
	c.end()
	hosts, err := agent.ListedHosts(ctx, c.d.b, c.d.space, config.DiscoveryQuiet.Get(c.d.o.Config))
	c.mu.Lock()
	known := maps.Clone(c.beating)
	c.mu.Unlock()
	for _, h := range hosts {
		if _, is := known[h.ID]; !is {
			known[h.ID] = 0
		}
	}
	expected := c.d.expected(ctx)
	for id := range expected {
		if _, is := known[id]; !is {
			known[id] = 0
		}
	}
	s := seen{lost: err, answers: make([]answer, len(known)), beat: len(c.beating)}
	var asked sync.WaitGroup
	room := make(chan struct{}, askedAtOnce)
	for i, id := range slices.SortedFunc(maps.Keys(known), subjects.HostID.Compare) {
		room <- struct{}{}
		asked.Go(func() {
			defer func() { <-room }()
			s.answers[i] = c.d.ask(ctx, id)
			s.answers[i].lag, s.answers[i].known = known[id], expected[id]
		})
	}
	asked.Wait()
	return s
}

// ask has one host introduce itself.
func (d *doctor) ask(ctx context.Context, id subjects.HostID) answer {
	ctx, cancel := context.WithTimeout(ctx, askedWithin)
	defer cancel()
	out := answer{id: id}
	begun := time.Now()
	request := bus.Msg{Subject: d.space.Host(id.String(), agent.Info.Name(), subjects.Anon)}
	m, err := d.b.Control().Request(ctx, request, actor.IsAnswer)
	out.took = time.Since(begun)
	if err == nil {
		err = json.Unmarshal(m.Data, &out.info)
	}
	if out.err = err; err == nil && !out.info.Now.IsZero() {
		out.skew = out.info.Now.Sub(begun.Add(out.took / 2))
	}
	return out
}

// expected are the hosts that the gateways know. Where there is no gateway, those that beat or answer are all.
func (d *doctor) expected(ctx context.Context) map[subjects.HostID]agent.KnownHost {
	l, err := agent.KnownHosts(ctx, d.b, d.space)
	if err != nil {
		return nil
	}
	known := map[subjects.HostID]agent.KnownHost{}
	for _, h := range l.Hosts {
		known[h.ID] = h
	}
	return known
}

// silence names a host that did not answer, and how it is as far as a gateway knows.
func (a answer) silence() string {
	if k := a.known; k.Silence > 0 {
		return fmt.Sprintf("%s (%s, last heard %s ago)", a.id.Label(), k.State, age(k.Silence))
	}
	return a.id.Label()
}

// seen is what is known of the hosts. Its checks are pure.
type seen struct {
	answers []answer // by host
	beat    int      // hosts that were heard
	lost    error    // looking for hosts failed
}

// answered are the hosts that did.
func (s seen) answered() []answer {
	return slices.DeleteFunc(slices.Clone(s.answers), func(a answer) bool { return a.err != nil })
}

// hosts says who answers.
func (s seen) hosts() finding {
	f := finding{Check: "hosts", Result: failResult}
	here := s.answered()
	switch {
	case s.lost != nil && len(s.answers) == 0:
		f.Found, f.Todo = "they cannot be asked: "+firstLine(s.lost), "see the permissions"
		return f
	case len(s.answers) == 0:
		f.Found, f.Todo = "none beats and none answers", "start a hostd on this bus, and see that --namespace is the same"
		return f
	}
	f.Found = fmt.Sprintf("%d of %d answer", len(here), len(s.answers))
	var silent, slow []string
	for _, a := range s.answers {
		switch late := max(a.took, a.lag); {
		case a.err != nil:
			silent = append(silent, a.silence())
		case late > slowAnswer:
			slow = append(slow, fmt.Sprintf("%s (%s)", a.id.Label(), late.Round(time.Millisecond)))
		}
	}
	switch {
	case len(silent) > 0:
		f.Found, f.partial = f.Found+"; silent: "+names(silent), len(here) > 0
		f.Todo = "see those machines and their hostd"
	case len(slow) > 0:
		f.Result, f.Found = warnResult, f.Found+"; slow: "+names(slow)
		f.Todo = "see how busy those machines are, and how far"
	case s.beat < len(s.answers):
		f.Result, f.Found = warnResult, f.Found+fmt.Sprintf("; %d of them beat", s.beat)
		f.Todo = "allow this user to subscribe to hb.host.*, or wait for hosts that have just started"
	default:
		f.Result = wellResult
	}
	return f
}

// versions says whether one program runs everywhere. A host whose build differs refuses nothing, but a fault
// of one program is then not that of another.
func (s seen) versions() finding {
	f := finding{Check: "versions", Result: wellResult}
	by := map[string][]string{}
	behind := false
	for _, a := range s.answered() {
		key := fmt.Sprintf("%s (build %s)", cmp.Or(a.info.Version, "unknown"), cmp.Or(shorten(a.info.Build, 13), "unknown"))
		by[key] = append(by[key], a.id.Label())
		behind = behind || a.info.Version != cli.Version()
	}
	f.Found = "client " + cli.Version()
	var parts []string
	for _, key := range slices.SortedFunc(maps.Keys(by), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(by[y]), len(by[x])), cmp.Compare(x, y))
	}) {
		parts = append(parts, fmt.Sprintf("%s %s on %s", "hostd", key, names(by[key])))
	}
	switch {
	case len(parts) == 0:
		f.Found += "; no host to compare it with"
		return f
	case len(parts) > 1:
		f.Result, f.Todo = warnResult, "run the same hostd everywhere"
	case behind:
		f.Result, f.Todo = warnResult, "use the client of the same version"
	}
	f.Found += "; " + strings.Join(parts, "; ")
	return f
}

// clocks says how far those of the hosts are from here. What the way there and back takes is not held against them.
func (s seen) clocks() finding {
	f := finding{Check: "clocks", Result: wellResult}
	var far []string
	most, told := time.Duration(0), 0
	for _, a := range s.answered() {
		if a.info.Now.IsZero() {
			continue
		}
		told++
		most = max(most, a.skew.Abs())
		if a.skew.Abs()-a.took/2 > apart {
			far = append(far, fmt.Sprintf("%s (%s)", a.id.Label(), signed(a.skew)))
		}
	}
	switch {
	case len(s.answered()) == 0:
		f.Found = "no host to compare this one with"
	case told == 0:
		f.Result, f.Found, f.Todo = warnResult, "no host says the time", "update hostd"
	case len(far) > 0:
		f.Result, f.Found, f.Todo = warnResult, "apart from this one: "+names(far), "have these machines keep time (NTP)"
	default:
		f.Found = fmt.Sprintf("at most %s from this one, on %s", most.Round(time.Millisecond), count(told, "host"))
	}
	return f
}

// signed is a duration with its sign: a clock is ahead or behind.
func signed(d time.Duration) string {
	d = d.Round(100 * time.Millisecond)
	if d > 0 {
		return "+" + d.String()
	}
	return d.String()
}

// names are some hosts by name, and how many more.
func names(all []string) string {
	if more := len(all) - namedAtMost; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:namedAtMost], ", "), more)
	}
	return strings.Join(all, ", ")
}
