package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cmd/client/internal/doctor"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// doctor runs the command, and returns its findings by check.
func (c *cluster) doctor(t *testing.T, code int, args ...string) map[string]doctor.Finding {
	t.Helper()
	r := c.client(t, append([]string{"doctor", "-o", "json"}, args...)...)
	require.Equal(t, code, r.code, "%s%s", r.out, r.err)
	by := map[string]doctor.Finding{}
	for _, f := range decode[[]doctor.Finding](t, r.out) {
		by[f.Check] = f
	}
	return by
}

// doctorUntil runs the command until its findings are the expected ones, and returns them. On a
// busy machine a request of doctor has no answer in time, which is a finding, too.
func (c *cluster) doctorUntil(t *testing.T, code int, good func(map[string]doctor.Finding) bool,
	args ...string) (by map[string]doctor.Finding) {
	t.Helper()
	c.eventually(t, func(r result) bool {
		if r.code != code {
			return false
		}
		by = map[string]doctor.Finding{}
		for _, f := range decode[[]doctor.Finding](t, r.out) {
			by[f.Check] = f
		}
		return good(by)
	}, append([]string{"doctor", "-o", "json"}, args...)...)
	return by
}

// guarded is a server with JetStream and two users: one with all rights, the other with few.
func guarded(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	file := filepath.Join(dir, "nats.conf")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
jetstream { store_dir: %q }
authorization { users: [
  { user: full, password: secret }
  { user: short, password: secret, permissions: {
      publish: { deny: ["castnet.v1.default.f.>", "castnet.v1.default.k.>"] }
      subscribe: { deny: ["castnet.v1.default.hb.gone.*.*"] } } }
] }`, dir), 0o600))
	srv, err := embed.Start(t.Context(), embed.Options{ConfigFile: file})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	return &cluster{Cluster: &testmesh.Cluster{Server: srv},
		env: append(baseEnv(dir), "NATS_URL="+srv.URL(), "NATS_USER=full", "NATS_PASSWORD=secret")}
}

func TestDoctor_reportsAHealthySystem(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	c.System(t, "s")
	all := c.doctorUntil(t, cli.ExitOK, func(all map[string]doctor.Finding) bool {
		return !slices.ContainsFunc([]string{"permissions", "clocks", "gateways", "logs"}, func(check string) bool {
			return all[check].Result != doctor.ResultOK
		}) && strings.Contains(all["hosts"].Found, "2 of 2 answer")
	})
	require.Len(t, all, 11)
	for check, want := range map[string]string{
		"connection": c.Server.URL() + ", nats-server 2.", "permissions": "castnet.v1.default",
		"role":   "operator o-",
		"clocks": "on 2 hosts", "gateways": "they answered each of 128 requests",
		"logs": "hosts keep the output of procs",
	} {
		require.Equal(t, doctor.ResultOK, all[check].Result, all[check])
		require.Contains(t, all[check].Found, want)
	}
	// On a busy machine doctor warns of slow hosts: TestSurvey_namesSilentSlow… has both findings.
	require.NotEqual(t, doctor.ResultFail, all["hosts"].Result, all["hosts"])
	require.Contains(t, all["hosts"].Found, "2 of 2 answer")
	require.Contains(t, all["connection"].Found, "no TLS")
	require.Equal(t, doctor.Finding{
		Check: "jetstream", Result: doctor.ResultWarn, Found: "no JetStream: " + doctor.NotDurableText,
		Suggestion: "start hostd with --data DIR, or turn JetStream on in the server and for the account",
	}, all["jetstream"])
	require.Equal(t, doctor.ResultWarn, all["system"].Result, "worlds do not survive")
	require.Contains(t, all["versions"].Found, "hostd test (build ",
		"one build, of another version than the client's")

	require.Equal(t, result{err: "no worlds: `castnet apply -f FILE` declares them\n"}, c.client(t, "worlds"))
	lines := c.shows(t, `(?m)^(ok  |warn)  hosts        2 of 2 answer`, "doctor")
	require.Regexp(t, `(?m)^warn  jetstream    no JetStream: .* — start hostd`, lines)
}

// A wildcard subscriber keeps the server from reporting "no responders"; doctor warns of it.
func TestDoctor_namesClientsThatReceiveForeignSubjects(t *testing.T) {
	t.Parallel()
	c := guarded(t)
	listeners := func(result, found string) doctor.Finding {
		t.Helper()
		return c.doctorUntil(t, cli.ExitFailure, func(all map[string]doctor.Finding) bool {
			f := all["listeners"]
			return f.Result == result && strings.HasPrefix(f.Found, found)
		})["listeners"]
	}
	require.Equal(t, doctor.Finding{
		Check: "listeners", Result: doctor.ResultOK, Found: "no client receives messages for other processes",
	}, listeners(doctor.ResultOK, "no client receives"))
	b, err := bus.Open(t.Context(), bus.Options{URL: c.Server.URL(), User: "full", Password: "secret",
		ConnectTimeout: testkit.Patience})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
	sub, err := b.Data().Subscribe("castnet.v1.*.p.>", func(bus.Msg) {})
	require.NoError(t, err)
	f := listeners(doctor.ResultWarn, "another client subscribes to castnet.v1.default.p.>: ")
	require.Equal(t, "another client subscribes to castnet.v1.default.p.>: the server cannot say that a "+
		"process is gone, "+
		"so its end is known later", f.Found)
	require.Contains(t, f.Suggestion, "end that subscription")
	require.NoError(t, sub.Unsubscribe())
	_, err = b.Control().Request(t.Context(), bus.Msg{
		Subject: "$JS.API.STREAM.CREATE.audit",
		Data:    []byte(`{"name":"audit","subjects":["castnet.v1.>"],"storage":"memory"}`),
	})
	require.NoError(t, err)
	f = listeners(doctor.ResultWarn, "the stream audit records messages between processes, and acknowledges "+
		"requests of plain NATS clients before castnet answers them: ") // and no client subscribes
	require.Contains(t, f.Suggestion, "castnet.v1.default.ev.>")
}

// A stranger that joins the queue group of the gateways gets casts of plain clients.
func TestDoctor_findsAForeignMemberOfTheGatewaysQueueGroup(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	stranger := c.Open(t).Control()
	for reply, want := range map[string]string{
		"":   `^of 128 requests [1-9]\d* had no answer, and 0 the answer of another client`,
		"42": `^of 128 requests 0 had no answer, and [1-9]\d* the answer of another client`,
	} {
		sub, err := stranger.SubscribeGroup(c.Net.Proc().Space().Gateways(), "gateway", func(m bus.Msg) {
			if reply != "" {
				_ = stranger.Publish(m.Reply, []byte(reply))
			}
		})
		require.NoError(t, err)
		c.doctorUntil(t, cli.ExitOK, func(all map[string]doctor.Finding) bool {
			f := all["gateways"]
			return f.Result == doctor.ResultWarn && regexp.MustCompile(want).MatchString(f.Found)
		})
		require.NoError(t, sub.Unsubscribe())
	}
}

func TestDoctor_namesMissingPermissions(t *testing.T) {
	t.Parallel()
	c := guarded(t)
	all := c.doctorUntil(t, cli.ExitFailure, func(all map[string]doctor.Finding) bool {
		return all["permissions"].Result == doctor.ResultFail &&
			strings.HasPrefix(all["hosts"].Found, "no host sends")
	}, "--user", "short", "--password", "secret")
	require.Equal(t, doctor.Finding{
		Check: "permissions", Result: doctor.ResultFail, Suggestion: "allow that in the configuration of the server",
		Found: strings.ReplaceAll("this user may not publish castnet.v1.default.f.*.*.WHO.*, "+
			"castnet.v1.default.k.*.*.*.*.WHO.*; nor subscribe castnet.v1.default.hb.gone.*.*",
			"WHO", mesh.UserPrincipal(subjects.Operator).String()),
	}, all["permissions"])
	require.Contains(t, all["connection"].Found, "user short, account $G")
	require.Equal(t, doctor.ResultOK, all["jetstream"].Result, all["jetstream"])
	require.Equal(t, doctor.Finding{
		Check: "system", Result: doctor.ResultWarn,
		Found: "no system controller answers: worlds cannot be declared", Suggestion: "start a hostd with --system",
	}, all["system"])
	require.Equal(t, doctor.Finding{
		Check: "hosts", Result: doctor.ResultFail, Found: "no host sends heartbeats, and none answers",
		Suggestion: "start a hostd on this bus, and see that --namespace is the same",
	}, all["hosts"])
	c.doctorUntil(t, cli.ExitFailure, func(all map[string]doctor.Finding) bool {
		return all["permissions"].Result == doctor.ResultOK // the other user has them all
	})
}

func TestDoctor_reportsWhyAConnectionFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	all := c.doctor(t, cli.ExitFailure, "-s", "nats://127.0.0.1:1")
	require.Len(t, all, 1, "nothing else can be looked at")
	require.Contains(t, all["connection"].Found, "nats://127.0.0.1:1: nothing is listening there")
	all = c.doctor(t, cli.ExitFailure, "--token", "wrong")
	require.Contains(t, all["connection"].Suggestion, "--creds, --user or --token")
	r := c.client(t, "doctor", "--token", "wrong")
	require.Regexp(t,
		`^FAIL  connection   bus: connect to .* refused the credentials.* — give the credentials`, r.out)
	require.Equal(t, "castnet: doctor: connection has failed\n", r.err)
	require.NotContains(t, r.out+r.err, "wrong")
}
