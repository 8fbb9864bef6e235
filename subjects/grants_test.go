package subjects_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/subjects"
)

// permits reports whether one of the filters has the subject.
func permits(filters []string, subject string) bool {
	tokens := strings.Split(subject, ".")
	return slices.ContainsFunc(filters, func(filter string) bool {
		of := strings.Split(filter, ".")
		for i, f := range of {
			if f == ">" {
				return len(tokens) > i
			}
			if i >= len(tokens) || f != "*" && f != tokens[i] {
				return false
			}
		}
		return len(of) == len(tokens)
	})
}

// hostileText draws a label, or what a permission must not take as a pattern.
func hostileText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom([]string{"*", ">", "a.b", "a.*", "", "_", "x.>", "{{name()}}"}),
		rapid.String(), rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,31}`))
}

// drawProc draws the sender of a proc; invalid for a hostile name.
func drawProc(t *rapid.T, what string) (subjects.Sender, subjects.ProcID) {
	mesh, err := subjects.NewMeshID(hostileText().Draw(t, what+" mesh"))
	if err != nil {
		return subjects.Sender{}, subjects.ProcID{}
	}
	id := subjects.ProcID{Mesh: mesh, Rank: rapid.Uint32().Draw(t, "rank"), Gen: rapid.Uint32().Draw(t, "gen")}
	return subjects.NewSender(subjects.Proc.Principal(hostileText().Draw(t, what+" host")), id.Process()), id
}

func TestGrants_ofAProcHoldForItWhateverItsName_SUB7(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := subjects.Space{}
		self, id := drawProc(t, "own")
		other, away := drawProc(t, "other")
		if !self.IsValid() {
			return
		}
		user := subjects.User{Principal: self.Principal(), Process: id.Process()}
		grants, inbox := space.Grants(user), user.Inbox()
		require.Equal(t, "_INBOX."+id.Process().String(), inbox)
		for _, filter := range slices.Concat(grants.Publish, grants.Subscribe) {
			require.NotEmpty(t, filter)
			for _, token := range strings.Split(filter, ".") {
				require.True(t, token == "*" || token == ">" || !strings.ContainsAny(token, "*> "), filter)
			}
		}
		if !other.IsValid() || other == self || away.Mesh == id.Mesh {
			return
		}
		port := away.Actor("a").Port("p")
		said := func(from subjects.Sender) []string {
			return []string{
				space.Port(port, from), space.Frame(away.Process(), from), space.Control(away.Process(), from),
				space.Cast(away.Mesh, "a", "p", "_", from), space.Event("actor", away.Scope(), from),
				space.HostRead(subjects.Any, "info", from), space.Heartbeat("echo", from),
			}
		}
		for i, subject := range said(self) {
			require.True(t, permits(grants.Publish, subject), subject)
			require.False(t, permits(grants.Publish, said(other)[i]), "in the name of another proc")
		}
		host := subjects.HostID(away.Mesh)
		for _, from := range []subjects.Sender{self, other} {
			for _, subject := range []string{
				space.HostEvent(away, from), space.HostEvent(id, from), space.Heartbeat("host", from),
				space.Heartbeat("gone", from), space.HostWrite(host, "drain", from), space.Log(id, "stdout", from),
			} {
				require.False(t, permits(grants.Publish, subject), "only a host may: %s", subject)
			}
		}
		for _, subject := range []string{"work", "work.3", "a.b.c.d.e.f", "_INBOX.x.1", "$SRV.PING"} {
			require.True(t, permits(grants.Publish, subject), "of programs: %s", subject)
		}
		for _, subject := range []string{"$JS.API.INFO", "$KV.castnet-castnet-default.a"} {
			require.True(t, permits(grants.DenyPublish, subject), subject)
		}
		heard := grants.Subscribe
		for _, filter := range []string{space.PortsOf(id), space.FramesOf(id.Process()),
			space.CastsOf(id.Mesh, "_"), space.ControlsOf(id.Process()), space.HintsOf(id.Process()), inbox + ".x.1"} {
			require.True(t, permits(heard, filter), filter)
		}
		for _, filter := range []string{space.PortsOf(away), space.FramesOf(away.Process()), "_INBOX.x.1", ">",
			space.ControlsOf(away.Process()), space.CastsOf(away.Mesh, "_"), space.Logs(id.Mesh),
			space.Gateways(), space.HostWrites(host, ""), space.HostReads(subjects.Any, ""),
			space.Replies(other), space.String() + ".>", "$SRV.PING.castnet-system", "$SYS.>", "*.>", "work", "work.>", "*", "_INBOX.>"} {
			require.False(t, permits(heard, filter), filter)
		}
	})
}

// users are one user of each role, with and without a process.
func users(t *testing.T, label string) (all []subjects.User) {
	t.Helper()
	mesh, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	for _, role := range subjects.AllRoles() {
		of := role.Principal(label)
		all = append(all, subjects.User{Principal: of},
			subjects.User{Principal: of, Process: subjects.ProcID{Mesh: mesh}.Process()})
	}
	return all
}

func TestGrants_endWithTheNameOfTheirUser_SUB7(t *testing.T) {
	space, err := subjects.NewSpace("a.b", "lab")
	require.NoError(t, err)
	replies := space.String() + "." + subjects.KindReply.String() + ".>"
	for _, user := range users(t, "n07") {
		grants := space.Grants(user)
		require.NotEmpty(t, grants.Publish, user)
		for _, subject := range grants.Publish {
			if !space.Owns(subject) || subject == replies {
				continue
			}
			tokens := strings.Split(subject, ".")
			principal, process := tokens[len(tokens)-2], tokens[len(tokens)-1]
			if principal == "u-anon" && process == "x" { // searches for hosts
				require.Contains(t, []string{"hr", "hb"}, tokens[4], subject)
				continue
			}
			name, err := subjects.ParsePrincipal(principal)
			require.NoError(t, err, subject)
			require.Equal(t, "n07", name.Label())
			if user.Process.IsValid() {
				require.Equal(t, user.Process.String(), process, subject)
			}
			if !user.Principal.Role().IsOneOf(subjects.Host, subjects.System) {
				require.Equal(t, user.Principal, name, subject)
			}
		}
		for _, subject := range grants.Subscribe {
			require.False(t, subject == ">" || strings.HasPrefix(subject, "_INBOX.>"), "%s hears %s", user, subject)
		}
		require.Contains(t, grants.Subscribe, user.Inbox()+".>")
	}
	require.Zero(t, space.Grants(subjects.User{}))
}

func TestGrants_subjectsOfProgramsAreShorterThanThoseOfCastnet_SUB7(t *testing.T) {
	mesh, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	grants := subjects.Space{}.Grants(subjects.User{Principal: subjects.Proc.Principal("a"),
		Process: subjects.ProcID{Mesh: mesh}.Process()})
	for kind := subjects.KindPort; kind <= subjects.KindReply; kind++ {
		shortest := subjects.Space{}.String() + "." + kind.Pattern()
		own := slices.DeleteFunc(slices.Clone(grants.Publish), func(s string) bool { return s[0] != '*' })
		require.NotEmpty(t, own)
		require.False(t, permits(own, shortest), shortest)
	}
}
