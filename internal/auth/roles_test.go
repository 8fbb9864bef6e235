package auth_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// matches reports whether a subject, or a narrower filter, is within a filter.
func matches(filter, subject string) bool {
	of, tokens := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, f := range of {
		switch {
		case i >= len(tokens):
			return false
		case f == ">":
			return true
		case tokens[i] == ">", f != "*" && f != tokens[i]:
			return false
		}
	}
	return len(of) == len(tokens)
}

// permits is the verdict that a server has to give.
func permits(allow, deny []string, subject string) bool {
	within := func(f string) bool { return matches(f, subject) }
	return slices.ContainsFunc(allow, within) && !slices.ContainsFunc(deny, within)
}

// identities are the own one of a principal, and that of another, of a kind.
func identities(p subjects.Principal) map[string]subjects.Sender {
	mesh := func(label string) subjects.MeshID {
		id, err := subjects.ParseMeshID(label + "-0123456789abc")
		if err != nil {
			panic(err)
		}
		return id
	}
	process := subjects.ProcID{Mesh: mesh("m")}.Process()
	return map[string]subjects.Sender{
		"own": subjects.NewSender(p, process), "other's": subjects.NewSender(p.Role().Principal("other"), process),
		"a host's":      subjects.NewSender(subjects.Host.Principal("other"), process),
		"an operator's": subjects.NewSender(subjects.Operator.Principal("root"), process),
		"nobody's":      subjects.Anon(),
	}
}

// said are subjects of every builder, from a sender.
func said(space subjects.Space, from subjects.Sender) []string {
	mesh, _ := subjects.ParseMeshID("target-0123456789abc")
	host, _ := subjects.ParseHostID("target-0123456789abc")
	proc := subjects.ProcID{Mesh: mesh, Rank: 3}
	all := []string{
		space.Port(proc.Actor("a").Port("p"), from), space.Cast(mesh, "a", "p", "_", from),
		space.Frame(proc.Process(), from), space.Control(proc.Process(), from),
		space.HostRead(host.String(), "info", from), space.HostRead(subjects.Any, "info", from),
		space.HostWrite(host, "drain", from), space.HostEvent(proc, from), space.Gateway("m", "a", "e", from),
		space.Event("proc", proc.Scope(), from), space.Event("mesh", proc.Scope(), from), space.Log(proc, "stdout", from),
	}
	for _, kind := range []string{"host", "gone", "hosts", "echo", "gateway", "claim", "ticket"} {
		all = append(all, space.Heartbeat(kind, from))
	}
	return all
}

// foreign are subjects outside of castnet.
func foreign() []string {
	return []string{"$JS.API.INFO", "$JS.API.STREAM.DELETE.KV_castnet-castnet-default", "$KV.castnet-castnet-default.x",
		"$KV.other.x", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SRV.PING", "_INBOX.u-other.x", "work.3"}
}

// heard are filters of every builder, for a principal.
func heard(space subjects.Space, p subjects.Principal) []string {
	mesh, _ := subjects.ParseMeshID("target-0123456789abc")
	host, _ := subjects.ParseHostID("target-0123456789abc")
	proc := subjects.ProcID{Mesh: mesh, Rank: 3}
	own, other := identities(p)["own"], identities(p)["other's"]
	return []string{">", space.String() + ".>", "*.>", "$SYS.>", "$JS.>", "$KV.>", "_INBOX.>",
		subjects.User{Principal: own.Principal()}.Inbox() + ".x.*", subjects.User{Principal: other.Principal()}.Inbox() + ".x.*",
		space.PortsOf(proc), space.FramesOf(proc.Process()), space.ControlsOf(proc.Process()), space.HintsOf(proc.Process()),
		space.CastsOf(mesh, "_"), space.HostWrites(host, ""), space.HostReads(host.String(), ""), space.Gateways(),
		space.Logs(mesh), space.Replies(own), space.Replies(other), space.Heartbeats("host"), space.Heartbeats("ticket"),
		space.Heartbeat("echo", own), space.Heartbeat("echo", other), "$SRV.PING.castnet-host", "$SRV.PING.castnet-system",
		"$SRV.PING.castnet-proc", "$SRV.PING.castnet-gateway", "work.>"}
}

// verdicts are the subjects that a server denies to a user.
func verdicts(t *testing.T, b *bus.Bus, publish, subscribe []string) (denied map[bus.PermissionError]bool) {
	t.Helper()
	var mu sync.Mutex
	denied = map[bus.PermissionError]bool{}
	defer b.Watch(func(s bus.State) {
		if e, ok := s.Err.(*bus.PermissionError); ok && s.Kind == bus.Denied {
			mu.Lock()
			defer mu.Unlock()
			denied[*e] = true
		}
	})()
	for _, subject := range publish {
		require.NoError(t, b.Control().Publish(subject, nil))
	}
	for _, filter := range subscribe {
		if sub, err := b.Control().Subscribe(filter, func(bus.Msg) {}); err == nil {
			require.NoError(t, sub.Unsubscribe())
		} else {
			require.ErrorAs(t, err, new(*bus.PermissionError))
		}
	}
	_, _ = b.Control().Subscribe("$SYS.sentinel", func(bus.Msg) {}) // denied last, after all others
	mu.Lock()
	defer mu.Unlock()
	return denied
}

// requireGrants compares each verdict of a server with the grants of a principal.
func requireGrants(t *testing.T, b *bus.Bus, p subjects.Principal) (allowed, refused int) {
	t.Helper()
	space := subjects.Space{}
	grants := space.Grants(subjects.User{Principal: p})
	publish := foreign()
	for _, from := range identities(p) {
		publish = append(publish, said(space, from)...)
	}
	subscribe := heard(space, p)
	denied := verdicts(t, b, publish, subscribe)
	check := func(op bus.Op, subject string, want bool) {
		got := !denied[bus.PermissionError{Op: op, Subject: subject}]
		require.Equal(t, want, got, "%s may %s %s", p, op, subject)
		if got {
			allowed++
		} else {
			refused++
		}
	}
	for _, subject := range publish {
		check(bus.OpPublish, subject, permits(grants.Publish, grants.DenyPublish, subject))
	}
	for _, filter := range subscribe {
		check(bus.OpSubscribe, filter, permits(grants.Subscribe, grants.DenySubscribe, filter))
	}
	for who, from := range identities(p) { // whatever the grants are
		if who == "own" || who == "nobody's" {
			continue
		}
		for _, subject := range said(space, from) {
			require.True(t, denied[bus.PermissionError{Op: bus.OpPublish, Subject: subject}], "%s says %s", p, subject)
		}
	}
	return allowed, refused
}

// principals are one of each role that has connections.
func principals() (all []subjects.Principal) {
	for _, role := range subjects.AllRoles() {
		if role != subjects.Gateway {
			all = append(all, role.Principal("n07"))
		}
	}
	return all
}

// credentialsOf are the options with which a principal connects.
func credentialsOf(t *testing.T, s *site, hosts map[bool]auth.HostKey, p subjects.Principal) bus.Options {
	t.Helper()
	switch role := p.Role(); role {
	case subjects.Host, subjects.System:
		return bus.Options{UserJWT: func() (string, string, error) { return hosts[role == subjects.System].MintHost(time.Hour) }}
	case subjects.Proc:
		creds, err := hosts[false].MintProc(time.Hour)
		require.NoError(t, err)
		return bus.Options{Creds: s.write("proc.creds", creds)}
	default:
		return bus.Options{Creds: s.mint(role, p.Label(), time.Hour)}
	}
}

func TestScopedKeys_grantEachRoleWhatItsPrincipalMay_AUTH1(t *testing.T) {
	t.Parallel()
	hosts := map[bool]auth.HostKey{}
	s := newSite(t, func(a *auth.Authority) {
		for system, label := range map[bool]string{false: "n07", true: "n08"} {
			key, err := a.AddHost(label, system)
			require.NoError(t, err)
			hosts[system] = key
		}
		for _, role := range subjects.UserRoles() {
			_, _, err := a.Mint(role, "n07", time.Hour)
			require.NoError(t, err)
		}
	})
	var allowed, refused int
	for _, p := range principals() {
		if p.Role() == subjects.System {
			p = p.Role().Principal("n08")
		}
		o := credentialsOf(t, s, hosts, p)
		o.InboxPrefix = subjects.User{Principal: p}.Inbox()
		b := s.open(o)
		require.Equal(t, p.String(), o.UserName())
		yes, no := requireGrants(t, b, p)
		allowed, refused = allowed+yes, refused+no
	}
	t.Logf("%d allowed, %d refused", allowed, refused)
}

func TestFixedUsers_grantEachRoleWhatItsPrincipalMay_AUTH4(t *testing.T) {
	t.Parallel()
	names := []string{"h-n07", "s-n08", "u-n07", "o-n07", "w-n07", "c-n07"}
	fixed, err := auth.NewFixedUsers(subjects.Space{}, auth.Server{Listen: "127.0.0.1:-1", Data: t.TempDir()}, names)
	require.NoError(t, err)
	server := serve(t, fixed.Conf)
	require.Len(t, fixed.Hosts, 2)
	var allowed, refused int
	for name, password := range fixed.Passwords {
		require.NotContains(t, fixed.Conf, password)
		p, err := subjects.ParsePrincipal(name)
		require.NoError(t, err)
		b, err := bus.Open(testkit.Soon(t), bus.Options{URL: server.URL(), User: name, Password: password,
			InboxPrefix: subjects.User{Principal: p}.Inbox(), ConnectTimeout: testkit.Patience})
		require.NoError(t, err)
		yes, no := requireGrants(t, b, p)
		allowed, refused = allowed+yes, refused+no
		require.NoError(t, b.Close(testkit.Soon(t)))
	}
	t.Logf("%d allowed, %d refused", allowed, refused)
	for _, name := range []string{"p-n07", "g-n07", "x-n07", "u-*", "u->", "u-a.b", "alice", ""} {
		_, err := auth.NewFixedUsers(subjects.Space{}, auth.Server{}, []string{name})
		require.Error(t, err, name)
	}
	_, err = auth.NewFixedUsers(subjects.Space{}, auth.Server{}, []string{"u-a", "u-a"})
	require.EqualError(t, err, "user u-a is named twice")
}
