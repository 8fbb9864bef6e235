package agent_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// invitationTo returns a new invitation of a host.
func invitationTo(t testing.TB, host string) agent.Invitation {
	t.Helper()
	space, err := subjects.NewSpace("plant.castnet", "line-1")
	require.NoError(t, err)
	i, err := agent.NewInvitation(space, read[subjects.MeshID]("workers-000000000000m"), host,
		read[subjects.ActorID]("client-000000000000c/0.0/controller-000000000000d"))
	require.NoError(t, err)
	return i
}

func TestInvitation_itsTextAloneHasTheSecret(t *testing.T) {
	i := invitationTo(t, "c")
	text := i.Text()
	require.Regexp(t, `^castnet-invite-1:plant\.castnet:line-1:workers-000000000000m:c:`+
		`client-000000000000c/0\.0/controller-000000000000d:[\w-]{43}$`, text)
	again, err := agent.ParseInvitation(text)
	require.NoError(t, err)
	require.Equal(t, i, again)
	secret := text[strings.LastIndex(text, ":")+1:]
	require.Equal(t, "invite of host c to mesh workers-000000000000m", i.String())
	require.NotContains(t, fmt.Sprintf("%v %+v", i, i.Request(read[subjects.HostID]("c-000000000000a"))), secret)
	require.NotEqual(t, text, invitationTo(t, "c").Text())
	for _, bad := range []string{
		"", secret, text + ":", text[:len(text)-1], text + "A", " " + text, strings.Replace(text, "-1:", "-2:", 1),
		strings.Replace(text, ":c:", "::", 1), strings.Replace(text, ":c:", ":a.b:", 1),
		strings.Replace(text, "workers-", "workers", 1), strings.Replace(text, "/0.0/", "/", 1),
		strings.Replace(text, "plant.castnet", "", 1), strings.Replace(text, "line-1", "", 1),
		strings.Replace(text, "line-1", strings.Repeat("x", agent.MaxInvitationText), 1),
	} {
		_, err := agent.ParseInvitation(bad)
		require.ErrorContains(t, err, "malformed invite: want a line of castnet grow --invite: castnet-invite-1:<root>")
		require.NotContains(t, err.Error(), secret)
	}
}

func TestJoinRequest_provesOneHostOfOneMesh(t *testing.T) {
	i := invitationTo(t, "c")
	host := read[subjects.HostID]("c-000000000000a")
	r := i.Request(host)
	require.True(t, r.IsProved())
	require.Equal(t, i.Key(), r.Key)
	for name, change := range map[string]func(*agent.JoinRequest){
		"host":    func(r *agent.JoinRequest) { r.Host = read[subjects.HostID]("c-000000000000b") },
		"mesh":    func(r *agent.JoinRequest) { r.ID = "workers-000000000000n" },
		"key":     func(r *agent.JoinRequest) { r.Key = invitationTo(t, "c").Key() },
		"no key":  func(r *agent.JoinRequest) { r.Key = nil },
		"proof":   func(r *agent.JoinRequest) { r.Proof = invitationTo(t, "c").Request(host).Proof },
		"nothing": func(r *agent.JoinRequest) { r.Proof = nil },
	} {
		other := r
		change(&other)
		require.False(t, other.IsProved(), name)
	}
}

func FuzzParseInvitation(f *testing.F) {
	f.Add(invitationTo(f, "c").Text())
	f.Add("castnet-invite-1::::::" + base64.RawURLEncoding.EncodeToString(make([]byte, ed25519.SeedSize)))
	f.Fuzz(func(t *testing.T, text string) {
		if i, err := agent.ParseInvitation(text); err == nil {
			require.Equal(t, text, i.Text())
		}
	})
}
