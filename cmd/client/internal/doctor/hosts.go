package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// hostTimeout bounds the answer of a host. An answer slower than slowAnswer is a warning.
	hostTimeout = 3 * time.Second
	slowAnswer  = 500 * time.Millisecond
	// maxClockSkew is the tolerated clock difference.
	maxClockSkew = time.Second
	// maxConcurrentHosts bounds the hosts asked at a time.
	maxConcurrentHosts = 64
)

// hostCheck is the answer of one host with its time.
type hostCheck struct {
	id   subjects.HostID
	info agent.HostInfo
	err  error
	took time.Duration
	skew time.Duration // of its clock, within half of took; zero without the host's time
	lag  time.Duration // delay of its last heartbeat

	gatewayView agent.KnownHost // state in a gateway's view; zero without one
}

// heartbeatListener collects heartbeats during the other checks.
type heartbeatListener struct {
	d         *doctor
	startedAt time.Time
	stop      func()
	mu        sync.Mutex
	lags      map[subjects.HostID]time.Duration // with the delay of the last heartbeat
}

// listenHeartbeats subscribes until stop. Without permission no heartbeat arrives, as the findings
// show.
func (d *doctor) listenHeartbeats() *heartbeatListener {
	c := &heartbeatListener{d: d, startedAt: time.Now(), stop: func() {

	}, lags: map[subjects.HostID]time.Duration{}}
	sub, err := d.bus.Control().Lossy(agent.HeartbeatInbox).Subscribe(
		d.space.Heartbeats(agent.KindHostHeartbeat), c.onHeartbeat,
	)
	if err == nil {
		c.stop = func() { _ = sub.Unsubscribe() } // an error means that the bus is gone
	}
	return c
}

func (c *heartbeatListener) close() { c.stop() }

// onHeartbeat records a heartbeat. A goodbye removes the host.
func (c *heartbeatListener) onHeartbeat(m bus.Msg) {
	at, err := c.d.space.Parse(m.Subject)
	var beat agent.Heartbeat
	if err != nil || wire.Unmarshal(m.Data, &beat) != nil || beat.Check(at.Sender) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if beat.Goodbye {
		delete(c.lags, beat.Host)
		return
	}
	c.lags[beat.Host] = beat.Lag
}

// collect waits until every host could send two heartbeats, then asks each known host.
func (c *heartbeatListener) collect(ctx context.Context) hostSurvey {
	select {
	case <-time.After(time.Until(c.startedAt.Add(
		2 * config.SupervisionHeartbeatInterval.Get(c.d.options.Config)))):
	case <-ctx.Done():
	}
	c.close()
	hosts, _, err := agent.DiscoverListedHosts(
		ctx, c.d.bus, c.d.space, config.DiscoveryQuietPeriod.Get(c.d.options.Config),
	)
	c.mu.Lock()
	known := maps.Clone(c.lags)
	c.mu.Unlock()
	for _, h := range hosts {
		if _, is := known[h.ID]; !is {
			known[h.ID] = 0
		}
	}
	expected, unlisted := c.d.knownHosts(ctx)
	for id := range expected {
		if _, is := known[id]; !is {
			known[id] = 0
		}
	}
	s := hostSurvey{
		discoveryErr: err, answers: make([]hostCheck, len(known)), beating: len(c.lags), unlisted: unlisted,
	}
	ids := slices.SortedFunc(maps.Keys(known), subjects.HostID.Compare)
	fanout.Each(maxConcurrentHosts, ids, func(i int, id subjects.HostID) {
		s.answers[i] = c.d.askHost(ctx, id)
		s.answers[i].lag = known[id]
		s.answers[i].gatewayView = expected[id]
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	s.answers = slices.DeleteFunc(s.answers, func(a hostCheck) bool {
		_, beats := c.lags[a.id]
		_, listed := expected[a.id]
		unknown := !beats && !listed && errors.Is(a.err, bus.ErrNoResponders)
		if unknown {
			s.strangers++
		}
		return unknown
	})
	return s
}

// askHost asks one host for its HostInfo.
func (d *doctor) askHost(ctx context.Context, id subjects.HostID) hostCheck {
	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	out := hostCheck{id: id}
	begun := time.Now()
	request := bus.Msg{Subject: d.space.HostRead(id.String(), agent.Info.Name(), subjects.Anon())}
	m, err := d.bus.Control().Request(ctx, request, actor.IsAnswer)
	out.took = time.Since(begun)
	if err == nil {
		err = json.Unmarshal(m.Data, &out.info)
	}
	out.err = err
	if err == nil {
		out.skew = out.info.Now.Sub(begun.Add(out.took / 2))
	}
	return out
}

// knownHosts returns the hosts of the gateways, or without gateway all hosts that sent or answered.
// unlisted reports that no gateway answered in time.
func (d *doctor) knownHosts(ctx context.Context) (known map[subjects.HostID]agent.KnownHost, unlisted bool) {
	l, err := agent.ListKnownHosts(ctx, d.bus, d.space)
	if err != nil {
		return nil, errors.Is(err, context.DeadlineExceeded)
	}
	known = map[subjects.HostID]agent.KnownHost{}
	for _, h := range l.Hosts {
		known[h.ID] = h
	}
	return known, false
}

// describeSilence names a host without an answer, with its state in the gateway's view.
func (a hostCheck) describeSilence() string {
	if k := a.gatewayView; k.Silence > 0 {
		return fmt.Sprintf("%s (%s, last heard %s ago)", a.id.Label(), k.State, text.Age(k.Silence))
	}
	return a.id.Label()
}

// hostSurvey is the collected state of the hosts. Its checks are pure.
type hostSurvey struct {
	answers      []hostCheck // by host
	beating      int         // hosts with heartbeats
	discoveryErr error       // host discovery failed
	unlisted     bool        // no gateway listed its hosts in time
	strangers    int         // hosts in whose name the search was answered, without an agent
}

// answered returns the hosts with an answer.
func (s hostSurvey) answered() []hostCheck {
	return slices.DeleteFunc(slices.Clone(s.answers), func(a hostCheck) bool { return a.err != nil })
}

// hosts reports the hosts that answer.
func (s hostSurvey) hosts() Finding {
	f := Finding{Check: "hosts", Result: ResultFail}
	here := s.answered()
	if s.discoveryErr != nil && len(s.answers) == 0 {
		f.Found, f.Suggestion = "cannot query the hosts: "+firstLine(s.discoveryErr), "see the permissions"
		return f
	}
	if len(s.answers) == 0 {
		f.Found, f.Suggestion = "no host sends heartbeats, and none answers",
			"start a hostd on this bus, and see that --namespace is the same"
		return f
	}
	f.Found = fmt.Sprintf("%d of %d answer", len(here), len(s.answers))
	var silent, slow []string
	for _, a := range s.answers {
		late := max(a.took, a.lag)
		if a.err != nil {
			silent = append(silent, a.describeSilence())
		} else if late > slowAnswer {
			slow = append(slow, fmt.Sprintf("%s (%s)", a.id.Label(), late.Round(time.Millisecond)))
		}
	}
	if s.strangers > 0 {
		f.Found += fmt.Sprintf("; %d others answered the search, and have no agent", s.strangers)
	}
	switch {
	case len(silent) > 0:
		f.Found += "; silent: " + text.Names(silent)
		f.partial = len(here) > 0
		f.Suggestion = "see those machines and their hostd"
	case s.unlisted:
		f.Found += "; no gateway listed the hosts, so a silent host may be missing here"
		f.partial = true
		f.Suggestion = "see whether a hostd hangs"
	case len(slow) > 0:
		f.Result, f.Found = ResultWarn, f.Found+"; slow: "+text.Names(slow)
		f.Suggestion = "see how busy those machines are, and how far"
	case s.beating < len(s.answers):
		f.Result, f.Found = ResultWarn, f.Found+fmt.Sprintf("; heartbeats from %d of them", s.beating)
		f.Suggestion = "allow this user to subscribe to hb.host.*, or wait for hosts that have just started"
	case s.strangers > 0:
		f.Result = ResultWarn
		f.Suggestion = "see who may subscribe to hr.any.>: docs/external-nats.md has the permissions"
	default:
		f.Result = ResultOK
	}
	return f
}

// versions reports whether all hosts run one build. Different builds work together, but can have
// different defects.
func (s hostSurvey) versions() Finding {
	f := Finding{Check: "versions", Result: ResultOK}
	by := map[string][]string{}
	behind := false
	for _, a := range s.answered() {
		key := fmt.Sprintf(
			"%s (build %s)", cmp.Or(a.info.Version, "unknown"), cmp.Or(text.Shorten(a.info.Build, 13), "unknown"),
		)
		by[key] = append(by[key], a.id.Label())
		behind = behind || a.info.Version != cli.Version()
	}
	f.Found = "castnet " + cli.Version()
	var parts []string
	for _, key := range slices.SortedFunc(maps.Keys(by), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(by[y]), len(by[x])), cmp.Compare(x, y))
	}) {
		parts = append(parts, fmt.Sprintf("%s %s on %s", "hostd", key, text.Names(by[key])))
	}
	switch {
	case len(parts) == 0:
		f.Found += "; no host to compare it with"
		return f
	case len(parts) > 1:
		f.Result, f.Suggestion = ResultWarn, "run the same hostd everywhere"
	case behind:
		f.Result, f.Suggestion = ResultWarn, "use the client of the same version"
	}
	f.Found += "; " + strings.Join(parts, "; ")
	return f
}

// clocks reports clock differences, less the time of the round trip.
func (s hostSurvey) clocks() Finding {
	f := Finding{Check: "clocks", Result: ResultOK}
	var far []string
	var most time.Duration
	for _, a := range s.answered() {
		most = max(most, a.skew.Abs())
		if a.skew.Abs()-a.took/2 > maxClockSkew {
			far = append(far, fmt.Sprintf("%s (%s)", a.id.Label(), formatSkew(a.skew)))
		}
	}
	switch {
	case len(s.answered()) == 0:
		f.Found = "no host to compare this one with"
	case len(far) > 0:
		f.Result = ResultWarn
		f.Found = "clock differs from this machine: " + text.Names(far)
		f.Suggestion = "have these machines keep time (NTP)"
	default:
		f.Found = fmt.Sprintf(
			"within %s of this machine, on %s", most.Round(time.Millisecond),
			text.Pluralize(len(s.answered()), "host"),
		)
	}
	return f
}

// logs reports hosts that may lose output of procs.
func (s hostSurvey) logs() Finding {
	f := Finding{Check: "logs", Result: ResultOK, Found: "hosts keep the output of procs"}
	var infos []agent.HostInfo
	for _, a := range s.answered() {
		infos = append(infos, a.info)
	}
	if lost := target.LogTrouble(infos); lost != "" {
		f.Result = ResultWarn
		f.Found = lost
		f.Suggestion = "make room there, or give hostd another --log-dir"
	}
	return f
}

// formatSkew formats a duration with sign: the clock is ahead or behind.
func formatSkew(d time.Duration) string {
	d = d.Round(100 * time.Millisecond)
	if d > 0 {
		return "+" + d.String()
	}
	return d.String()
}
