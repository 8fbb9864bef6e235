package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// As TestStep_scenarios, of hosts.
func TestHostStep_scenarios_CTL17(t *testing.T) {
	play(t, "testdata/hosts/*.txt", func(t *testing.T) script { return &hostScenario{t: t, now: began()} })
}

// hostScenario is the controller of a mesh of hosts, driven by a script.
type hostScenario struct {
	t   *testing.T
	st  *hostState
	now time.Time
}

// hostsOf is the Spec of a controller of some hosts: a, b, c …
func hostsOf(t *testing.T, n int) Spec {
	t.Helper()
	extent := shape.Of("host", n)
	return Spec{Procs: meshOf(t, extent, 1), Region: extent.Region(), Name: "mine", Hosts: true}
}

func (s *hostScenario) applyLine(verb string, args []string) string {
	var x hostEffects
	why := strings.Join(args, " ")
	switch verb {
	case "hosts": // how many
		var n int
		_, err := fmt.Sscan(why, &n)
		require.NoError(s.t, err)
		spec := hostsOf(s.t, n)
		require.NoError(s.t, spec.check())
		s.st, err = newHostState(spec)
		require.NoError(s.t, err)
	case "hold": // they are there
		x = s.st.step(allocated{slices.Clone(s.st.spec.Procs.Hosts)}, s.now)
	case "stop": // reason
		x = s.st.step(release{reason: why}, s.now)
	case "given": // [error]
		var err error
		if why != "" {
			err = errors.New(why)
		}
		x = s.st.step(released{err}, s.now)
	case "subscribe": // what one is told who comes now
		x.events = s.st.changes.after(0)
	default: // host state reason
		x = s.st.step(s.change(verb, args[0], strings.Join(args[1:], " ")), s.now)
	}
	return s.trace(x)
}

func (s *hostScenario) change(label, is, why string) hostChange {
	hosts := s.st.spec.Procs.Hosts
	i := slices.IndexFunc(hosts, func(h subjects.HostID) bool { return h.Label() == label })
	require.GreaterOrEqual(s.t, i, 0, label)
	c := presence.Change{Host: hosts[i], Mode: agent.ModeOpen, Reason: why, At: s.now}
	switch is {
	case "suspect":
		c.State = presence.Suspect
	case "unknown":
		c.State = presence.Unknown
	case "dead", "left":
		c.State, c.Graceful = presence.Dead, is == "left"
	case "cordoned":
		c.Mode = agent.ModeCordoned
	default:
		require.Contains(s.t, []string{"alive", "open"}, is)
	}
	return hostChange(c)
}

func (s *hostScenario) trace(x hostEffects) string {
	var out strings.Builder
	for _, e := range x.events {
		fmt.Fprintf(&out, "\ttells: %s %d.%d %s: %s (%s)\n", e.Host[:1], e.Rank, e.Gen, e.Status, e.Reason, e.Step)
		require.Equal(s.t, actor.KindHost, e.Kind)
		require.Equal(s.t, "mine", e.Name)
		require.Equal(s.t, s.now, e.At)
	}
	if x.release {
		out.WriteString("\tgives them back\n")
	}
	for _, r := range s.st.table.Overlay(s.st.spec.id()) {
		fmt.Fprintf(&out, "\t%d+%d %s\n", r.First, r.Count, r.Status)
	}
	if s.st.released {
		fmt.Fprintf(&out, "\tover: %s\n", s.st.phase())
	}
	return out.String()
}
