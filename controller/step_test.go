package controller

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var update = flag.Bool("update", false, "write the traces of testdata/*.txt anew")

// Each file of testdata is a script. A line is an event for the controller. The indented lines
// below it are its published events, then all statuses.
func TestStep_scenarios(t *testing.T) { // CTL-6, CTL-8
	play(t, "testdata/*.txt", func(t *testing.T) script { return &scenario{t: t} })
}

// script is a scenario that applies lines.
type script interface {
	// applyLine applies one line and returns its trace.
	applyLine(verb string, args []string) string
}

// play plays the files of a pattern, each from its beginning.
func play(t *testing.T, pattern string, begin func(*testing.T) script) {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var got strings.Builder
			s := begin(t)
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "\t") {
					continue
				}
				got.WriteString(line)
				if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
					got.WriteString(s.applyLine(f[0], f[1:]))
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o600))
			}
			require.Equal(t, string(text), got.String())
		})
	}
}

// scenario is a state that a script drives.
type scenario struct {
	t   *testing.T
	st  *state
	now time.Time

	asked agentRequest

	invitations map[string]agent.Invitation
	joiners     map[string]subjects.HostID
}

// began is the time at which a scenario begins.
func began() time.Time { return time.Unix(1, 0) }

func (s *scenario) applyLine(verb string, args []string) string {
	var x effects
	switch verb {
	case "procs": // hosts per-host [policy spares…]
		s.start(args, nil, "*", args[2:])
	case "actors": // hosts per-host region [policy]
		s.start(args, &agent.ActorSpec{Name: "counters", Type: "counter"}, args[2], args[3:])
	case "after": // so much time passes
		d, err := time.ParseDuration(args[0])
		require.NoError(s.t, err)
		s.now = s.now.Add(d)
	case "due":
		x = s.st.step(timerFired{}, s.now)
	case "stop":
		s.st.stopMesh(&x, strings.Join(args, " "), s.now)
	case "part": // rank reason: a partial stop
		_, base := s.st.hostIndex(s.number(args[0]))
		part, err := s.st.spec.Procs.Extent.Region().Single(base)
		require.NoError(s.t, err)
		s.st.stopRegion(&x, part, strings.Join(args[1:], " "), s.now)
	case "overlay": // first+count phase [reason]
		x = s.st.step(agent.Overlay{s.run(args)}, s.now)
	case "ask": // host, or its index and one that is being emptied: its ranks are asked for
		at := location{host: slices.Index(s.st.spec.Procs.Hosts, s.hostOf(args[0]))}
		if len(args) > 1 {
			at = location{host: s.number(args[0]), evacuating: s.hostOf(args[1])}
		}
		s.asked = s.st.newRequest(at)
	case "reply": // [first+count phase [reason]] to the last ask; empty: the host has none
		var o agent.Overlay
		if len(args) > 0 {
			o = agent.Overlay{s.run(args)}
		}
		x = s.st.step(s.asked.answered(o, nil), s.now)
	case "error": // in place of the reply
		x = s.st.step(s.asked.answered(nil, errors.New("no answer")), s.now)
	case "renewal":
		x = s.st.step(renewalDue{}, s.now)
	case "cleaned": // host [error]: the result of the stop of its former ranks
		h := staleStopped{host: s.hostOf(args[0])}
		if len(args) > 1 {
			h.err = errors.New(strings.Join(args[1:], " "))
		}
		x = s.st.step(h, s.now)
	case "life": // host n: it is alive in its nth life
		x = s.st.step(hostChange{Host: s.hostOf(args[0]), State: presence.Alive,
			Incarnation: uint64(s.number(args[1])), At: s.now}, s.now)
	case "late": // first+count phase [reason]: an answer to what was asked at the very beginning
		x = s.st.step(agentAnswer{overlay: agent.Overlay{s.run(args)}}, s.now)
	case "started": // rank gen phase [reason], where refused is an error
		st := startResult{starts: []rankStart{{s.number(args[0]), s.number(args[1])}}}
		if args[2] == "refused" {
			st.err = errors.New(strings.Join(args[3:], " "))
		} else {
			st.overlay = agent.Overlay{s.run(append([]string{args[0] + "+1"}, args[2:]...))}
		}
		x = s.st.step(st, s.now)
	case "vacate": // host at-once reason
		x = s.st.step(evacuate{s.hostOf(args[0]), s.number(args[1]), 0, strings.Join(args[2:], " ")}, s.now)
	case "roll": // ranks reason
		r := restartOrder{reason: strings.Join(args[1:], " ")}
		for rank := range strings.SplitSeq(args[0], ",") {
			r.ranks = append(r.ranks, s.number(rank))
		}
		x = s.st.step(r, s.now)
	case "followed": // rank.gen: its actors run
		rank, gen, _ := strings.Cut(args[0], ".")
		x = s.st.step(actorsUp{s.number(rank), s.number(gen)}, s.now)
	case "spare": // host [why it cannot be used]
		h := spareInfo{host: s.hostOf(args[0])}
		if len(args) > 1 {
			h.unusable = errors.New(strings.Join(args[1:], " "))
		}
		if h.unusable != nil && h.unusable.Error() == "silent" {
			h.unusable = context.DeadlineExceeded
		}
		x = s.st.step(h, s.now)
	case "holds": // host procs: a spare one that is well says how many it has
		x = s.st.step(spareInfo{host: s.hostOf(args[0]), procs: s.number(args[1])}, s.now)
	case "left": // rank.gen [error, with: it had actors, or silent: it did not list them]
		rank, gen, _ := strings.Cut(args[0], ".")
		l := departed{departure: departure{rank: s.number(rank), gen: s.number(gen)}}
		switch {
		case len(args) > 1 && args[1] == "with": // it had actors
			l.owners = []subjects.ActorID{s.st.spec.Procs.Owner}
		case len(args) > 1 && args[1] == "silent":
			l.silent = errors.New("no answer")
		case len(args) > 1:
			l.err = errors.New(strings.Join(args[1:], " "))
		}
		x = s.st.step(l, s.now)
	case "behind": // host first+count phase: the answer of a host that is being emptied
		x = s.st.step(agentAnswer{agentRequest{serial: s.st.nextSerial(), evacuating: s.hostOf(args[0])},
			agent.Overlay{s.run(args[1:])}}, s.now)
	case "leaves": // rank.gen type: an actor ends because its proc stops
		e, proc := s.event("actor", []string{args[0], "stopped", args[1]}),
			s.event("proc", []string{args[0], "stopping"})
		e.Cause = &proc
		x = s.st.step(e, s.now)
	case "moves": // rank.gen reason: the proc of a rank goes elsewhere
		e := s.event("proc", append([]string{args[0], "stopping"}, args[1:]...))
		e.Step = agent.StepMoveAttempt
		x = s.st.step(e, s.now)
	case "host": // name state reason
		id := s.hostOf(args[0])
		states := map[string]presence.State{"alive": presence.Alive, "suspect": presence.Suspect,
			"unknown": presence.Unknown, "dead": presence.Dead}
		x = s.st.step(hostChange{Host: id, State: states[args[1]], Reason: strings.Join(args[2:], " "),
			At: s.now}, s.now)
	case "proc", "actor", "other": // rank[.gen[.nth]] status [reason]: an event of that kind, or of another mesh; proc … running [host]
		x = s.st.step(s.event(verb, args), s.now)
	case "take": // hosts per-host epoch [policy spares…]: a mesh that is there
		s.start(args, nil, "*", args[3:],
			func(spec *Spec) { spec.Epoch, spec.TakeOver = uint64(s.number(args[2])), true })
	case "taken": // host [rank[.gen] phase]…: what a host has of it
		h := takenShare{host: s.number(args[0])}
		for i := 1; i < len(args); i += 2 {
			rank, gen, _ := strings.Cut(args[i], ".")
			st := agent.State{Rank: s.number(rank)}
			if gen != "" {
				st.Gen = s.number(gen)
			}
			require.NoError(s.t, st.Status.Phase.UnmarshalText([]byte(args[i+1])))
			h.states = append(h.states, st)
		}
		x = s.st.step(h, s.now)
	case "fenced": // epoch: an agent has refused an order
		by := s.st.spec.claim()
		by.Epoch = uint64(s.number(args[0]))
		x = s.st.step(fenced{&agent.FencedError{ID: s.st.spec.id(), Agent: "a", Requested: s.st.spec.claim(),
			Current: by}}, s.now)
	case "refused": // host: an agent said no
		x = s.st.step(createFailure{host: s.number(args[0]),
			err: &actor.Error{Code: actor.CodeHandler, Text: "not allowed"}}, s.now)
	case "silent": // host: an agent said nothing
		x = s.st.step(createFailure{host: s.number(args[0]),
			err: &actor.Error{Code: actor.CodeDeadline, Text: "no answer"}}, s.now)
	case "broken": // host: the link to its hostd broke
		x = s.st.step(createFailure{host: s.number(args[0]), err: &actor.Error{Code: actor.CodeLinkBroken, Text: "link broken"}},
			s.now)
	case "invite", "join", "replay", "joins", "fails":
		return s.applyInvite(verb, args)
	default:
		s.t.Fatalf("unknown verb %q", verb)
	}
	return s.trace(x)
}

func (s *scenario) trace(x effects) string {
	var out strings.Builder
	for _, e := range x.procEnds {
		fmt.Fprintf(&out, "\tlost: %s %d.%d+%d on %s\n", e.Kind, e.Rank, e.Gen, e.Count, e.Host[:1])
	}
	for _, e := range x.events {
		kind := "ends"
		if e.Host == "" {
			fmt.Fprintf(&out, "\ttells: epoch %d has it%s\n", agent.FencedFromEvent(e).Current.Epoch, step(e))
			continue
		}
		if !e.Terminal() {
			kind = "tells"
		}
		fmt.Fprintf(&out, "\t%s: %s %d %s %s on %s: %s%s\n", kind, e.Kind, e.Rank, e.Actor, e.Status, e.Host[:1],
			e.Reason, step(e))
		require.Equal(s.t, s.now, e.At)
	}
	for _, b := range x.starts {
		fmt.Fprintf(&out, "\tstarts: %d.%d on %s\n", b.rank, b.gen, s.st.hostOf(b.rank).Label())
	}
	for _, l := range x.departures {
		fmt.Fprintf(&out, "\tstops: %d.%d on %s\n", l.rank, l.gen, l.host.Label())
	}
	for _, f := range x.actorWaits {
		fmt.Fprintf(&out, "\twaits for the actors of %d.%d\n", f.rank, f.gen)
	}
	for _, rank := range x.restarted {
		fmt.Fprintf(&out, "\tanswers: %d\n", rank)
	}
	for _, v := range x.evacuated {
		fmt.Fprintf(&out, "\tvacated: %s, %d moved\n", v.host.Label(), v.moved)
	}
	for _, h := range x.staleHosts {
		fmt.Fprintf(&out, "\tstops what is left on %s\n", h.Label())
	}
	for _, rank := range x.lateStarts {
		fmt.Fprintf(&out, "\tstops again: %d\n", rank)
	}
	for _, h := range x.newHostds {
		fmt.Fprintf(&out, "\tasks: %s\n", h.Label())
	}
	if !x.wake.IsZero() {
		fmt.Fprintf(&out, "\tdue in %s\n", x.wake.Sub(s.now))
	}
	for _, r := range s.st.table.Overlay(s.st.spec.id()) {
		fmt.Fprintf(&out, "\t%d+%d %s\n", r.First, r.Count, r.Status)
	}
	if s.st.isOver() {
		fmt.Fprintf(&out, "\tover: %s\n", s.st.phase())
	}
	return out.String()
}

// hostOf is the host of a label, if the mesh has or had one.
func (s *scenario) hostOf(label string) subjects.HostID {
	id, err := subjects.NewHostID(label)
	require.NoError(s.t, err)
	known := slices.Concat(s.st.spec.Procs.Hosts, s.st.spec.RestartPolicy.Spares, s.st.spares.hosts,
		slices.Collect(maps.Keys(s.st.diedHosts)), s.st.evacuatingHosts())
	if i := slices.IndexFunc(known, func(h subjects.HostID) bool { return h.Label() == label }); i >= 0 {
		return known[i]
	}
	return id
}

// step is the name of a rank's change, if it has one.
func step(e actor.Event) string {
	if e.Step == "" || strings.HasPrefix(e.Step, "proc.") {
		return ""
	}
	return " (" + e.Step + ")"
}

func (s *scenario) start(args []string, actors *agent.ActorSpec, region string, policy []string,
	change ...func(*Spec)) {
	hosts, perHost := s.number(args[0]), s.number(args[1])
	extent := shape.Of("host", hosts).With("gpu", perHost)
	r, err := shape.Select(extent, region)
	require.NoError(s.t, err)
	spec := Spec{Procs: meshOf(s.t, extent, perHost), Actors: actors, Region: r}
	if len(policy) > 0 {
		require.NoError(s.t, spec.RestartPolicy.Restart.UnmarshalText([]byte(policy[0])))
		for _, name := range policy[1:] {
			h, err := subjects.NewHostID(name)
			require.NoError(s.t, err)
			spec.RestartPolicy.Spares = append(spec.RestartPolicy.Spares, h)
		}
	}
	for _, f := range change {
		f(&spec)
	}
	require.NoError(s.t, spec.check())
	s.now = began()
	s.st, err = newState(spec)
	require.NoError(s.t, err)
}

// meshOf is a mesh on hosts a, b, c …
func meshOf(t *testing.T, extent shape.Extent, perHost int) agent.Mesh {
	t.Helper()
	id := testproc.MeshID(t, "mesh")
	owner, err := subjects.ParseActorID("client-000000000000c/0.0/controller-000000000000d")
	require.NoError(t, err)
	m := agent.Mesh{ID: id, Extent: extent, PerHost: perHost, Owner: owner}
	for i := range extent.NumRanks() / perHost {
		h := testproc.HostID(t, string(rune('a'+i)))
		m.Hosts = append(m.Hosts, h)
	}
	return m
}

func (s *scenario) number(text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(s.t, err)
	return n
}

func (s *scenario) run(args []string) agent.Run {
	first, count, _ := strings.Cut(args[0], "+")
	r := agent.Run{First: s.number(first), Count: s.number(count)}
	require.NoError(s.t, r.Status.Phase.UnmarshalText([]byte(args[1])))
	r.Status.Reason = strings.Join(args[2:], " ")
	return r
}

func (s *scenario) event(kind string, args []string) actor.Event {
	e := actor.Event{
		Kind: kind, Status: args[1], Mesh: s.st.spec.Procs.ID.String(),
		Reason: strings.Join(args[2:], " "), At: s.now,
	}
	for i, part := range strings.Split(args[0], ".") {
		*[]*int{&e.Rank, &e.Gen, &e.Nth}[i] = s.number(part)
	}
	switch {
	case kind == "proc" && e.Status == "running" && e.Reason != "":
		e.Host, e.Reason = s.hostOf(e.Reason).String(), ""
	case kind == "actor":
		e.Actor, _, _ = strings.Cut(e.Reason, " ")
	case kind == "other":
		e.Kind, e.Mesh = actor.KindProc, "other-000000000000m"
	}
	return e
}

func TestSpec_refusesInvalidSpecs(t *testing.T) {
	extent := shape.Of("host", 2).With("gpu", 2)
	good := Spec{Procs: meshOf(t, extent, 2), Region: extent.Region()}
	require.NoError(t, good.check())
	for want, change := range map[string]func(*Spec){
		"has no ID":                         func(s *Spec) { s.Procs.ID = subjects.MeshID{} },
		"has no hosts":                      func(s *Spec) { s.Procs.Hosts = nil },
		"2 hosts × 3 procs are not the 4":   func(s *Spec) { s.Procs.PerHost = 3 },
		"the region has no ranks":           func(s *Spec) { s.Region = shape.Of("x", 0).Region() },
		"region host=5/1 is outside extent": func(s *Spec) { s.Region = shape.Of("host", 5).Region() },
		"lease 1ms: want at least 1s":       func(s *Spec) { s.Lease = time.Millisecond },
		"takeover in epoch 1: want an epo":  func(s *Spec) { s.Epoch, s.TakeOver = 1, true },
	} {
		bad := good
		change(&bad)
		err := bad.check()
		require.ErrorContains(t, err, want)
	}
}

func TestIsDefinite_onlySilenceIsIndefinite(t *testing.T) {
	require.True(t, isDefinite(errors.New("refused before it was sent")))
	require.True(t, isDefinite(&actor.Error{Code: actor.CodeNoProc}))
	for _, code := range []actor.Code{actor.CodeDeadline, actor.CodeCanceled, actor.CodeLinkBroken} {
		require.False(t, isDefinite(fmt.Errorf("create: %w", &actor.Error{Code: code})))
	}
}
