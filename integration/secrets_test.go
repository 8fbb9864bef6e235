package integration

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// secret begins each planted secret.
const secret = "canary-Ae6ohXie-"

// secrecy is a system with planted secrets, and what it has printed so far.
type secrecy struct {
	*testing.T
	dir     string
	env     []string
	printed testkit.Notes[[2]string] // where, and what
}

func newSecrecy(t *testing.T) *secrecy {
	t.Helper()
	s := &secrecy{T: t, dir: t.TempDir()}
	for _, name := range []string{"run", "config", "tmp", "private"} {
		require.NoError(t, os.Mkdir(filepath.Join(s.dir, name), 0o700))
	}
	s.env = testkit.Environment(s.path("run"), s.path("config"), s.path("tmp"))
	require.NoError(t, os.WriteFile(s.path("private/token"), []byte(secret+"token"), 0o600))
	return s
}

func (s *secrecy) path(name string) string { return filepath.Join(s.dir, name) }

func (s *secrecy) getenv(key string) string {
	for _, e := range s.env {
		if v, ok := strings.CutPrefix(e, key+"="); ok {
			return v
		}
	}
	return ""
}

func (s *secrecy) start(name string, args ...string) *testkit.Process {
	s.Helper()
	cmd := exec.Command(program(name), args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	return testkit.Start(s.T, cmd)
}

// startHostd starts a hostd that reports everything.
func (s *secrecy) startHostd(label string, args ...string) *testkit.Process {
	s.Helper()
	d := s.start("hostd", append([]string{"--label", label, "--token-file", s.path("private/token"),
		"--allow", "/bin/sh", "--log-level", "debug", "--log-dir", s.path("logs-" + label)}, args...)...)
	d.Err.Find(s.T, `"message":"hostd is ready`)
	return d
}

// run notes what a command prints.
func (s *secrecy) run(name string, args ...string) {
	s.Helper()
	p := s.start(name, args...)
	p.Exit(s.T)
	s.note(strings.Join(append([]string{name}, args...), " "), p.Said())
}

func (s *secrecy) note(where, what string) { s.printed.Add([2]string{where, what}) }

// noteError notes an error, which there must be.
func (s *secrecy) noteError(where string, err error) {
	s.Helper()
	require.Error(s, err, where)
	s.note(where, err.Error())
}

// scanFiles notes the files outside the private directory, except the one that has the token.
func (s *secrecy) scanFiles() (n int) {
	s.Helper()
	require.NoError(s, filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // it has ended
			return nil
		case path == s.path("private"):
			return fs.SkipDir
		case !d.Type().IsRegular() || path == s.path("run/castnet/local.json"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			s.note(path, string(text))
			n++
		}
		return nil
	}))
	return n
}

// scanProcesses notes arguments and environments of all processes of the system, without what the
// spawn gave to the procs themselves.
func (s *secrecy) scanProcesses() (n int) {
	s.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(s, err)
	for _, file := range all {
		environ, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(environ), "TMPDIR="+s.path("tmp")+"\x00") {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // it may have ended
		words := slices.DeleteFunc(strings.Split(string(environ)+"\x00"+string(cmdline), "\x00"),
			func(word string) bool { return word == "SECRET="+secret+"env" || word == secret+"arg" })
		s.note(file, strings.Join(words, "\n"))
		n++
	}
	return n
}

func TestSecrets_appearNowhereElse(t *testing.T) {
	t.Parallel()
	s := newSecrecy(t)
	a := s.startHostd("a", "--tls", "--listen", "127.0.0.1:0")
	local, err := bus.ReadLocal(s.path("run/castnet/local.json"))
	require.NoError(t, err)
	require.Equal(t, secret+"token", local.Token)
	b := s.startHostd("b", "--nats", local.URL)
	o := bus.FromEnv(s.getenv)
	o.ConnectTimeout = testkit.Patience
	conn, err := mesh.Connect(t.Context(), mesh.Options{Bus: &o})
	require.NoError(t, err)
	watching, err := bus.Open(t.Context(), o)
	require.NoError(t, err)
	id, err := subjects.NewMeshID("observer")
	require.NoError(t, err)
	observer, err := actor.NewProc(t.Context(), actor.Options{
		ID: subjects.ProcID{Mesh: id}, Principal: subjects.Observer.Principal("o"), Bus: watching,
	})
	require.NoError(t, err)
	_, err = conn.Bus().Data().Subscribe("castnet.v1.default.ev.>", func(m bus.Msg) {
		s.note("event", m.Subject+string(m.Data))
	})
	require.NoError(t, err)

	s.spawnAndFail(conn, observer)
	for _, args := range [][]string{
		{"hosts"}, {"procs"}, {"procs", "secret"}, {"mesh", "show", "secret"}, {"explain", "secret"}, {"doctor"},
		{"logs", "secret"}, {"events"}, {"call", "secret[host=0,gpu=0]", "plain", "request", `"` + secret + `body"`},
	} {
		s.run("castnet", append(args, "--timeout", "2s")...)
		s.run("castnet", append(args, "--timeout", "2s", "-o", "json")...)
	}
	require.NoError(t, os.WriteFile(s.path("private/wrong"), []byte(secret+"wrong"), 0o600))
	refused := []string{"--token-file", s.path("private/wrong"), "--tls-fingerprint", local.Fingerprint}
	s.run("castnet", append(refused, "--server", local.URL, "hosts")...)
	s.run("hostd", append(refused, "--nats", local.URL, "--label", "c")...)
	for _, url := range []string{"nats://user:" + secret + "password@127.0.0.1:1", "nats://" + secret + "user@\x7f"} {
		s.note("castnet", outputOf(s.start("castnet", "--server", url, "hosts")))
		s.note("hostd", outputOf(s.start("hostd", "--nats", url, "--label", "c")))
	}
	require.GreaterOrEqual(t, s.scanProcesses(), 4)
	require.NoError(t, observer.Close(t.Context()))
	require.NoError(t, watching.Close(t.Context()))
	require.NoError(t, conn.Close(t.Context()))
	a.Stop(t)
	b.Stop(t)
	s.note("hostd a", a.Said())
	s.note("hostd b", b.Said())
	require.Positive(t, s.scanFiles())
	for _, n := range s.printed.All(nil) {
		at := strings.Index(n[1], secret)
		if at >= 0 {
			t.Errorf("%s shows a secret: %q", n[0], n[1][max(0, at-200):min(len(n[1]), at+50)])
		}
	}
	require.Greater(t, len(s.printed.All(nil)), 40)
}

func outputOf(p *testkit.Process) string {
	<-p.Ended()
	return p.Said()
}

// spawnAndFail uses secrets in all places for them, with success and without. An observer asks.
func (s *secrecy) spawnAndFail(conn *mesh.Net, observer *actor.Proc) {
	s.Helper()
	ctx := testkit.Soon(s)
	hosts, err := conn.AwaitHosts(ctx, 2)
	require.NoError(s, err)
	spec := mesh.SpawnSpec{Name: "secret", PerHost: shape.Of("gpu", 1), Command: mesh.Command{
		Path: agent.Builtin, Args: []string{secret + "arg"}, Env: []string{"SECRET=" + secret + "env"},
	}}
	procs, err := hosts.SpawnProcs(ctx, spec)
	require.NoError(s, err)
	_, err = mesh.Spawn(ctx, procs, actor.NewType[any, map[string]string]("plain"), "plain",
		map[string]string{"subject": "work.1"})
	require.NoError(s, err)
	echoes, err := mesh.Spawn(ctx, procs, actor.NewType[any, actor.None]("echo"), "echo", actor.None{})
	require.NoError(s, err)
	_, err = actor.NewEndpoint[any, any, any]("echo").Call(ctx, echoes.At("host", 1), secret+"body")
	require.NoError(s, err)
	_, err = actor.NewEndpoint[any, any, any]("no-such").Call(ctx, echoes.At("host", 1), secret+"body")
	s.noteError("no such endpoint", err)
	_, err = mesh.Spawn(ctx, procs, actor.NewType[any, string]("counter"), "bad", secret+"params")
	s.noteError("params of another type", err)

	answer, err := conn.Bus().Control().Request(ctx, bus.Msg{
		Subject: "castnet.v1.default.hr.any.info.u-anon.x", Header: bus.Header{"Authorization": {secret + "header"}},
	})
	require.NoError(s, err)
	s.note("info", string(answer.Data))
	for _, h := range hosts.Hosts() {
		states, err := agent.Get.Call(ctx, agent.Of(h.Proc()).Via(observer),
			agent.GetRequest{ID: procs.ID().String()})
		require.NoError(s, err)
		text, err := json.Marshal(states)
		require.NoError(s, err)
		require.Contains(s, string(text), agent.Builtin)
		s.note("get of a host by an observer", string(text))
		answer, err := conn.Bus().Control().Request(ctx, bus.Msg{
			Subject: "castnet.v1.default.hr." + h.String() + ".get.u-anon.x", Data: []byte("{}"),
		})
		require.NoError(s, err)
		require.Contains(s, string(answer.Data), agent.Builtin)
		s.note("get of a host by a plain client", string(answer.Data))
	}

	spec.Name = "refused"
	spec.Command.Path = "/bin/false"
	_, err = hosts.SpawnProcs(ctx, spec)
	s.noteError("program that is not allowed", err)
	spec.Command.Path = "/bin/sh"
	spec.Command.Args = []string{"-c", "exit 3", secret + "arg"}
	_, err = hosts.SpawnProcs(ctx, spec)
	s.noteError("program that ends", err)
	spec.Command.Args = []string{"-c", ":", secret + "arg\x00"}
	_, err = hosts.SpawnProcs(ctx, spec)
	s.noteError("NUL in an argument", err)
	spec.Command.Args = []string{"-c", ":", secret + strings.Repeat("a", 200_000)}
	_, err = hosts.SpawnProcs(ctx, spec)
	s.noteError("argument too long", err)
	spec.Command.Args = nil
	for _, env := range []string{"LD_PRELOAD=" + secret, "A=" + secret + "\x00", "=" + secret, secret} {
		spec.Command.Env = []string{env}
		_, err = hosts.SpawnProcs(ctx, spec)
		s.noteError("environment", err)
	}
}
