package controller

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

var update = flag.Bool("update", false, "write the traces of testdata/*.txt anew")

// Each file of testdata is a script: a line is something that the controller hears, and the lines
// below it that start with a tab are what it tells the streams, then all statuses.
func TestStep_scenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			require.NoError(t, err)
			var got strings.Builder
			s := &scenario{t: t}
			for line := range strings.Lines(string(script)) {
				if strings.HasPrefix(line, "\t") {
					continue
				}
				got.WriteString(line)
				if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
					got.WriteString(s.hear(f[0], f[1:]))
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o600))
			}
			require.Equal(t, string(script), got.String())
		})
	}
}

// scenario is a state that hears what a script says.
type scenario struct {
	t  *testing.T
	st *state
}

// at is when everything in a scenario happens.
func at() time.Time { return time.Unix(1, 0) }

// hear does one line of a script and returns its trace.
func (s *scenario) hear(verb string, args []string) string {
	var ends []actor.Event
	switch verb {
	case "procs": // hosts per-host
		s.st = s.start(args, nil, "*")
	case "actors": // hosts per-host region
		s.st = s.start(args, &agent.ActorSpec{Name: "counters", Type: "counter"}, args[2])
	case "overlay": // first+count phase [reason]
		ends = s.st.step(agent.Overlay{s.run(args)}, at())
	case "proc", "actor", "other": // rank status [reason]: an event of that kind, or of another mesh
		ends = s.st.step(s.event(verb, args), at())
	case "refused": // host: an agent said no
		ends = s.st.step(failure{s.number(args[0]), &actor.Error{Code: actor.CodeHandler, Text: "not allowed"}}, at())
	case "silent": // host: an agent said nothing
		ends = s.st.step(failure{s.number(args[0]), &actor.Error{Code: actor.CodeDeadline, Text: "no answer"}}, at())
	default:
		s.t.Fatalf("unknown verb %q", verb)
	}
	var out strings.Builder
	for _, e := range ends {
		fmt.Fprintf(&out, "\tends: %s %d %s %s on %s: %s\n", e.Kind, e.Rank, e.Actor, e.Status, e.Host[:1], e.Reason)
		require.Equal(s.t, at(), e.At)
	}
	for _, r := range s.st.table.Overlay(s.st.spec.id()) {
		fmt.Fprintf(&out, "\t%d+%d %s\n", r.First, r.Count, r.Status)
	}
	if s.st.over() {
		out.WriteString("\tover\n")
	}
	return out.String()
}

func (s *scenario) start(args []string, actors *agent.ActorSpec, region string) *state {
	hosts, perHost := s.number(args[0]), s.number(args[1])
	extent := shape.Of("host", hosts).With("gpu", perHost)
	r, err := shape.Select(extent, region)
	require.NoError(s.t, err)
	st, err := newState(Spec{Procs: meshOf(s.t, extent, perHost), Actors: actors, Region: r})
	require.NoError(s.t, err)
	return st
}

// meshOf is a mesh on hosts a, b, c …
func meshOf(t *testing.T, extent shape.Extent, perHost int) agent.Mesh {
	t.Helper()
	id, err := subjects.NewMeshID("mesh")
	require.NoError(t, err)
	m := agent.Mesh{ID: id, Extent: extent, PerHost: perHost}
	for i := range extent.NumRanks() / perHost {
		h, err := subjects.NewHostID(string(rune('a' + i)))
		require.NoError(t, err)
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
		Kind: kind, Status: args[1], Mesh: s.st.spec.Procs.ID.String(), Rank: s.number(args[0]),
		Reason: strings.Join(args[2:], " "), At: at(),
	}
	switch kind {
	case "actor":
		e.Actor, _, _ = strings.Cut(e.Reason, " ")
	case "other":
		e.Kind, e.Mesh = actor.KindProc, "other-000000000000m"
	}
	return e
}

func TestSpec_refusesWhatCannotBeStarted(t *testing.T) {
	extent := shape.Of("host", 2).With("gpu", 2)
	good := Spec{Procs: meshOf(t, extent, 2), Region: extent.Region()}
	require.NoError(t, good.check())
	for want, change := range map[string]func(*Spec){
		"has no ID":                         func(s *Spec) { s.Procs.ID = subjects.MeshID{} },
		"has no hosts":                      func(s *Spec) { s.Procs.Hosts = nil },
		"2 hosts × 3 procs are not the 4":   func(s *Spec) { s.Procs.PerHost = 3 },
		"the region has no ranks":           func(s *Spec) { s.Region = shape.Of("x", 0).Region() },
		"region host=5/1 leaves the extent": func(s *Spec) { s.Region = shape.Of("host", 5).Region() },
		"lease 1ms, want at least 1s":       func(s *Spec) { s.Lease = time.Millisecond },
	} {
		bad := good
		change(&bad)
		err := bad.check()
		require.ErrorContains(t, err, want)
	}
}

func TestKnown_onlySilenceIsNoAnswer(t *testing.T) {
	require.True(t, known(errors.New("refused before it was sent")))
	require.True(t, known(&actor.Error{Code: actor.CodeNoProc}))
	for _, code := range []actor.Code{actor.CodeDeadline, actor.CodeCanceled, actor.CodeLinkBroken} {
		require.False(t, known(fmt.Errorf("create: %w", &actor.Error{Code: code})))
	}
}
