package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

// verbsOfRoles are the roles that a real host and a real proc serve, by the letters of their
// principals. A stranger owns nothing there.
const verbsOfRoles = `
host attach    u o . . . p . s
host config    u o w . h p g s
host cordon    . o . . . . . .
host create    u o . . . p . s
host drain     . o . . . . . .
host exec      . o . . . . . .
host get       u o w . h p g s
host info      u o w . h p g s
host keepalive u o . . . p . s
host logs      u o w . h p g s
host metrics   u o w . h p g s
host ping      u o w . h p g s
host ready     . . . . . p . .
host renew     u o . . . p . s
host stop      u o . . . p . s
host stop-all  . o . . . . . .
host take      . o . . . . . .
host types     u o w . h p g s
host wait      u o w . h p g s
proc config    u o w . h p g s
proc create    u o . . . p . s
proc get       u o w . h p g s
proc keepalive u o . . . p . s
proc logs      u o w . h p g s
proc metrics   u o w . h p g s
proc observed  . . . . . . . .
proc ping      u o w . h p g s
proc profile   . o . . . . . .
proc readopt   . . . . h . . .
proc stop      u o . . . p . s
proc stop-all  . o . . . . . s
proc wait      u o w . h p g s
`

func TestAgents_serveEachVerbToItsRoles_AGT13(t *testing.T) {
	t.Parallel()
	r := newRig(t, local(t))
	m := r.mesh(t, 1)
	r.create(t, m)
	at := map[string]subjects.ProcID{"host": r.host.ID().Proc(), "proc": m.ProcID(0, 0)}
	clients := map[subjects.Role]*actor.Proc{}
	for _, role := range subjects.AllRoles() {
		clients[role], _ = testproc.Start(t, r.Server, testproc.Options{Options: actor.Options{
			Principal: role.Principal("stranger"), Bus: r.Open(t),
		}})
	}
	var got strings.Builder
	granted, denied := 0, 0
	ask := func(on, verb string, role subjects.Role) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ref := actor.RefOf[any](at[on].Actor(agent.Name)).Via(clients[role])
		_, err := actor.NewEndpoint[any, any, any](verb).Call(ctx, ref, nil)
		if errors.Is(err, actor.ErrDenied) {
			denied++
			return false
		}
		require.NotErrorIs(t, err, context.DeadlineExceeded, "%s %s by %s", on, verb, role)
		require.NotErrorIs(t, err, actor.ErrNoEndpoint, "%s %s by %s", on, verb, role)
		granted++
		return true
	}
	ending := map[string]bool{} // orders that end the agent, or its procs
	for line := range strings.Lines(strings.TrimSpace(verbsOfRoles)) {
		on, verb := strings.Fields(line)[0], strings.Fields(line)[1]
		fmt.Fprintf(&got, "%-4s %-9s", on, verb)
		for i, role := range subjects.AllRoles() {
			letter := strings.Fields(line)[2+i]
			if letter != "." && (verb == "stop-all" || verb == "drain") {
				ending[on+" "+verb] = true // the last ones
			} else if ask(on, verb, role) {
				letter = role.Principal("x").String()[:1]
			} else {
				letter = "."
			}
			got.WriteString(" " + letter)
		}
		got.WriteString("\n")
	}
	require.Equal(t, strings.TrimSpace(verbsOfRoles), strings.TrimSpace(got.String()))
	require.True(t, ask("proc", "stop-all", subjects.System))
	require.True(t, ask("host", "drain", subjects.Operator))
	require.True(t, ask("host", "stop-all", subjects.Operator))
	require.Len(t, ending, 3)
	t.Logf("%d verbs of %d roles: %d granted, %d denied", strings.Count(got.String(), "\n"), len(clients), granted,
		denied)
}

func TestVerbKind_isThatOfReadingIfObserversMay(t *testing.T) {
	for _, p := range agent.Permissions() {
		for _, on := range p.Agents {
			if on != agent.OnHost {
				continue
			}
			want := subjects.KindHostWrite
			if subjects.Observer.IsOneOf(p.Roles...) {
				want = subjects.KindHostRead
			}
			require.Equal(t, want, agent.VerbKind(p.Verb), p.Verb)
		}
	}
}

// A program acts on what it owns: its host, and meshes of its user.
func TestAgents_obeyOwners_AGT13(t *testing.T) {
	t.Parallel()
	as := func(r *rig, principal subjects.Principal) *actor.Proc {
		p, _ := testproc.Start(t, r.Server, testproc.Options{Options: actor.Options{Principal: principal, Bus: r.Open(t)}})
		return p
	}
	r := newRig(t)
	alice, other, bob := as(r, subjects.Program.Principal("alice")), as(r, subjects.Program.Principal("alice")),
		as(r, subjects.Program.Principal("bob"))
	proc := as(r, subjects.Proc.Principal("a"))
	m := r.mesh(t, 1, roleVar+"=hangs")
	m.Owner = alice.ID().Actor("controller")
	claim := agent.Claim{Epoch: 1, Owner: m.Owner}
	order := func(p *actor.Proc, c agent.Claim) error {
		_, err := agent.Keepalive.Call(t.Context(), r.agent().Via(p), agent.Lease{ID: m.ID.String(), TTL: time.Minute, Claim: c})
		return err
	}
	_, err := agent.Create.Call(t.Context(), r.agent().Via(alice), agent.CreateRequest{Procs: &m, Claim: claim})
	require.NoError(t, err)
	later := func(p *actor.Proc) agent.Claim { return agent.Claim{Epoch: 2, Owner: p.ID().Actor("thief")} }
	for name, row := range map[string]struct {
		by    *actor.Proc
		claim agent.Claim
		ok    bool
	}{
		"its owner":                         {alice, claim, true},
		"its owner, without a claim":        {alice, agent.Claim{}, true},
		"another program of its user":       {other, agent.Claim{}, true},
		"a stranger":                        {bob, agent.Claim{}, false},
		"a stranger with the owner's claim": {bob, claim, false},
		"a stranger that takes it over":     {bob, later(bob), false},
		"a proc":                            {proc, agent.Claim{}, false},
		"a proc that takes it over":         {proc, later(proc), false},
		"an operator":                       {r.client, agent.Claim{}, true},
	} {
		if err := order(row.by, row.claim); row.ok {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, actor.ErrDenied, name)
			require.ErrorContains(t, err, "want its owner, or the role operator (castnet auth mint --role operator)", name)
			require.True(t, err.(*actor.Error).Refused(), name)
		}
	}
	require.NoError(t, order(other, later(other)), "its user's program takes it over")
	for _, p := range []*actor.Proc{bob, proc} {
		_, err = agent.Stop.Call(t.Context(), r.agent().Via(p), agent.StopRequest{ID: m.ID.String()})
		require.ErrorIs(t, err, actor.ErrDenied)
		_, err = agent.StopAll.CallUrgent(t.Context(), r.agent().Via(p), agent.StopAllRequest{})
		require.ErrorIs(t, err, actor.ErrDenied)
		require.ErrorContains(t, err, "host a belongs to no program")
	}
}
