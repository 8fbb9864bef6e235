package subjects_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/subjects"
)

func TestGrants_matchTheDocumentedTable(t *testing.T) {
	page, err := os.ReadFile("../docs/external-nats.md")
	require.NoError(t, err)
	space := subjects.Space{}
	written := func(all []string) string {
		var b strings.Builder
		for _, s := range all {
			b.WriteString(" `" + strings.TrimPrefix(s, space.String()+".") + "`")
		}
		return b.String()
	}
	for _, role := range []subjects.Role{subjects.RoleProgram, subjects.RoleCaller, subjects.RoleHost} {
		row := regexp.MustCompile(`(?m)^\| ` + string(role) + `: [^|]* \|([^|]*) \|([^|]*) \|$`).
			FindStringSubmatch(string(page))
		require.NotNil(t, row, role)
		grants := space.Grants(role, "_INBOX")
		require.Equal(t, written(grants.Publish), row[1], role)
		require.Equal(t, written(grants.Subscribe), row[2], role)
	}
}

func TestGrants_matchTheDocumentedConfiguration(t *testing.T) {
	page, err := os.ReadFile("../docs/external-nats.md")
	require.NoError(t, err)
	for _, role := range []subjects.Role{subjects.RoleProgram, subjects.RoleCaller} {
		block := regexp.MustCompile(`(?s)\n  ` + string(role) +
			` = \{\n    publish: \[(.*?)\]\n    subscribe: \[(.*?)\]\n`).FindStringSubmatch(string(page))
		require.NotNil(t, block, role)
		quoted := func(text string) (all []string) {
			for _, m := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(text, -1) {
				all = append(all, m[1])
			}
			return all
		}
		require.Equal(t, subjects.Space{}.Grants(role, "_INBOX"),
			subjects.Grants{Publish: quoted(block[1]), Subscribe: quoted(block[2])}, role)
	}
}

func TestGrants_stayInTheirSpaceAndInbox(t *testing.T) {
	space, err := subjects.NewSpace("a.b", "lab")
	require.NoError(t, err)
	require.Equal(t, subjects.Grants{Publish: []string{"a.b.v1.lab.cast.>"}, Subscribe: []string{"_MINE.>"}},
		space.Grants(subjects.RoleCaller, "_MINE"))
	require.Equal(t, []string{"a.b.v1.lab.>", "$SRV.>", "_MINE.>", "$SYS.REQ.ACCOUNT.PING.*"},
		space.Grants(subjects.RoleHost, "_MINE").Publish)
	require.Contains(t, space.Grants(subjects.RoleProgram, "_MINE").Publish, "a.b.v1.lab.hb.echo.*.*")
	require.Zero(t, space.Grants("stranger", "_MINE"))
}

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

func TestProcGrants_holdForOneProcWhateverItsName_SUB7(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := subjects.Space{}
		self, id := drawProc(t, "own")
		other, away := drawProc(t, "other")
		grants, inbox := space.ProcGrants(self)
		if !self.IsValid() {
			require.Zero(t, grants)
			return
		}
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

func TestProcGrants_haveNoneForOtherRoles_SUB7(t *testing.T) {
	mesh, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	process := subjects.ProcID{Mesh: mesh}.Process()
	for _, principal := range []subjects.Principal{subjects.Host.Principal("a"), subjects.UserPrincipal(subjects.Program, "a"),
		subjects.System.Principal("a"), subjects.Gateway.Principal("a"), {}} {
		grants, inbox := subjects.Space{}.ProcGrants(subjects.NewSender(principal, process))
		require.Zero(t, grants)
		require.Empty(t, inbox)
	}
	grants, _ := subjects.Space{}.ProcGrants(subjects.Anon())
	require.Zero(t, grants)
	label, err := subjects.ParseSender("p-a.x")
	require.NoError(t, err)
	grants, _ = subjects.Space{}.ProcGrants(label)
	require.Zero(t, grants)
}

func TestProcGrants_ownSubjectsAreShorterThanThoseOfCastnet_SUB7(t *testing.T) {
	mesh, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	self := subjects.NewSender(subjects.Proc.Principal("a"), subjects.ProcID{Mesh: mesh}.Process())
	grants, _ := subjects.Space{}.ProcGrants(self)
	for kind := subjects.KindPort; kind <= subjects.KindReply; kind++ {
		shortest := subjects.Space{}.String() + "." + kind.Pattern()
		own := slices.DeleteFunc(slices.Clone(grants.Publish), func(s string) bool { return s[0] != '*' })
		require.NotEmpty(t, own)
		require.False(t, permits(own, shortest), shortest)
	}
}
