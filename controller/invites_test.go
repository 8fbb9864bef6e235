package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// applyInvite applies a line about an invite of a scenario.
func (s *scenario) applyInvite(verb string, args []string) string {
	if s.joiners == nil {
		s.joiners = map[string]subjects.HostID{}
		s.invitations = map[string]agent.Invitation{}
	}
	name := args[0]
	var err error
	said := "joins"
	switch verb {
	case "invite": // name label ttl
		ttl, parsing := time.ParseDuration(args[2])
		require.NoError(s.t, parsing)
		s.invitations[name] = s.invitation(args[1])
		err = s.st.addInvite(invite{key: s.invitations[name].Key(), host: args[1], expires: s.now.Add(ttl)}, s.now)
		said = "invites"
	case "join": // name host[.instance] [sender]: a host presents an invite, or an unknown one
		i, known := s.invitations[name]
		if !known {
			i = s.invitation(label(args[1]))
		}
		said, err = s.admit(i.Request(s.joiner(args[1])), args[len(args)-1])
	case "replay": // name host other: another host presents what a host has sent
		r := s.invitations[name].Request(s.joiner(args[1]))
		r.Host = s.joiner(args[2])
		said, err = s.admit(r, args[2])
	case "joins": // name host: the mesh has grown
		m := s.st.spec.Procs
		grown, resizing := m.Resize(append(m.Hosts, s.joiner(args[1])))
		require.NoError(s.t, resizing)
		s.st.step(growth{grown}, s.now)
		first := m.Extent.NumRanks()
		run := agent.Run{First: first, Count: m.PerHost, Status: agent.Status{Phase: agent.Running}}
		s.st.step(agent.Overlay{run}, s.now)
		s.st.step(resized{}, s.now)
		s.st.endJoin(s.invitations[name].Key(), true)
		said = fmt.Sprintf("has %d hosts", len(s.st.description().Hosts))
	case "fails": // name: the mesh has not grown
		s.st.endJoin(s.invitations[name].Key(), false)
		said = "holds"
	}
	if err != nil {
		said = "refuses: " + err.Error()
	}
	for name, host := range s.joiners {
		said = strings.ReplaceAll(said, host.Proc().Process().String(), name)
		said = strings.ReplaceAll(said, host.String(), name)
	}
	return "\t" + said + "\n"
}

// admit presents a request in the name of a host, or of an invented sender.
func (s *scenario) admit(r agent.JoinRequest, from string) (said string, err error) {
	by, invented := subjects.ParseSender(from)
	if invented != nil {
		h := s.joiner(from)
		by = subjects.NewSender(subjects.Host.Principal(h.Label()), h.Proc().Process())
	}
	present, err := s.st.admit(by, r, s.now)
	if present {
		return "has it already", err
	}
	return "admits", err
}

func (s *scenario) invitation(label string) agent.Invitation {
	i, err := agent.NewInvitation(subjects.Space{}, s.st.spec.Procs.ID, label, s.st.spec.Procs.Owner)
	require.NoError(s.t, err)
	return i
}

// joiner is the host of a name, as c or c.2: two of one label have different IDs.
func (s *scenario) joiner(name string) subjects.HostID {
	h, known := s.joiners[name]
	if !known {
		h = testproc.HostID(s.t, label(name))
		s.joiners[name] = h
	}
	return h
}

func label(name string) string {
	label, _, _ := strings.Cut(name, ".")
	return label
}

func TestStep_invitesHaveABound_CTL21(t *testing.T) {
	m := meshOf(t, shape.Of("host", 1), 1)
	st, err := newState(Spec{Procs: m, Region: m.Extent.Region()})
	require.NoError(t, err)
	now := began()
	add := func(i int, host string, ttl time.Duration) error {
		return st.addInvite(invite{key: fmt.Append(nil, i), host: host, expires: now.Add(ttl)}, now)
	}
	for i := range maxInvites {
		require.NoError(t, add(i, "c", time.Minute))
	}
	require.ErrorContains(t, add(64, "d", time.Minute), "64 invites are open: want at most 64")
	st.endJoin(fmt.Append(nil, 7), true)
	require.NoError(t, add(64, "d", time.Minute), "a used one is forgotten")
	require.Nil(t, st.inviteOf(fmt.Append(nil, 7)))
	require.ErrorContains(t, add(65, "e", time.Minute), "want at most 64")
	st.inviteOf(fmt.Append(nil, 0)).user = testproc.HostID(t, "c")
	now = now.Add(time.Hour)
	require.NoError(t, add(65, "e", time.Minute), "an expired one is forgotten")
	require.NotNil(t, st.inviteOf(fmt.Append(nil, 0)), "but not while a host joins with it")
	require.Nil(t, st.inviteOf(fmt.Append(nil, 1)))
	require.Len(t, st.invites, maxInvites)
}
