package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// authDir is a site's authDir, with a server that trusts it.
type authDir struct {
	dir, keys, url string
	alice          string // credentials file of a program
}

// newAuthDir makes keys of the hosts a, which may become the system controller, and b.
func newAuthDir(t *testing.T) authDir {
	t.Helper()
	w := authDir{dir: filepath.Join(t.TempDir(), "auth"), keys: t.TempDir()}
	require.NoError(t, auth.Init(w.dir, subjects.Space{}))
	w.alice = filepath.Join(w.keys, "alice.creds")
	require.NoError(t, auth.Update(w.dir, func(a *auth.Authority) error {
		for name, system := range map[string]bool{"a": true, "b": false} {
			key, err := a.AddHost(name, system)
			require.NoError(t, err)
			w.writeKey(t, key)
		}
		return w.mintAlice(a, time.Hour)
	}))
	a, err := auth.Read(w.dir)
	require.NoError(t, err)
	conf, err := a.Conf(auth.Server{Listen: "127.0.0.1:-1", Data: t.TempDir()})
	require.NoError(t, err)
	w.url = serveConf(t, conf)
	return w
}

// mintAlice replaces the credentials of the program.
func (w authDir) mintAlice(a *auth.Authority, life time.Duration) error {
	creds, _, err := a.Mint(subjects.Program, "alice", life)
	if err != nil {
		return err
	}
	return auth.WritePrivate(w.alice, creds)
}

func (w authDir) key(label string) string { return filepath.Join(w.keys, label+".key") }

func (w authDir) writeKey(t *testing.T, key auth.HostKey) {
	t.Helper()
	text, err := key.Text()
	require.NoError(t, err)
	require.NoError(t, auth.WritePrivate(w.key(key.Host.Principal.Label()), text))
}

// serveConf starts a server with a configuration.
func serveConf(t *testing.T, conf string) (url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	server, err := embed.Start(testkit.Soon(t), embed.Options{ConfigFile: file})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	return server.URL()
}

// hostd starts a hostd with its key.
func (w authDir) hostd(t *testing.T, s site, label string, args ...string) *daemon {
	t.Helper()
	return s.start(t, append([]string{"--nats", w.url, "--auth-key", w.key(label), "--label", label}, args...)...)
}

// connect connects a client to the server. The test closes it.
func (w authDir) connect(t *testing.T, o bus.Options) *mesh.Net {
	t.Helper()
	o.URL, o.ConnectTimeout = w.url, testkit.Patience
	conn, err := mesh.Connect(testkit.Soon(t), mesh.Options{Bus: &o})
	require.NoError(t, err)
	return conn
}

func TestHostd_hostsAndProgramsHaveCredentialsOfTheirOwn_HOST20(t *testing.T) {
	t.Parallel()
	w, s := newAuthDir(t), newSite(t)
	a, b := w.hostd(t, s, "a"), w.hostd(t, s, "b")
	conn := w.connect(t, bus.Options{Creds: w.alice})
	m := counters(t, conn, 2, 2)
	sum, err := cast.Reduce(testkit.Soon(t), m, addOne, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 4, sum)
	require.NoError(t, conn.Close(testkit.Soon(t)))
	for _, d := range []*daemon{a, b} {
		d.Stop(t)
		require.NotContains(t, d.Err.String(), "permission denied")
		require.NotContains(t, d.Err.String(), `"level":"error"`)
	}
}

// counters spawns builtin counters on a number of hosts.
func counters(t *testing.T, conn *mesh.Net, onHosts, perHost int) mesh.ActorMesh[any] {
	t.Helper()
	hosts, err := conn.AwaitHosts(testkit.Soon(t), onHosts)
	require.NoError(t, err)
	procs, err := hosts.SpawnProcs(testkit.Soon(t), mesh.SpawnSpec{
		Name: "work", PerHost: shape.Of("gpu", perHost), Command: mesh.Command{Path: agent.Builtin},
	})
	require.NoError(t, err)
	m, err := mesh.Spawn(testkit.Soon(t), procs, actor.NewType[any, int64]("counter"), "counters", 0)
	require.NoError(t, err)
	return m
}

var addOne = actor.NewEndpoint[any, int64, int64]("add")

func TestHostd_expiringCredentialsLoseNoMessage_HOST20(t *testing.T) {
	t.Parallel()
	const life, least, lives = 4 * time.Second, 10_000, 3
	w, s := newAuthDir(t), newSite(t)
	d := w.hostd(t, s, "a", "--auth-ttl", life.String())
	require.NoError(t, auth.Update(w.dir, func(a *auth.Authority) error { return w.mintAlice(a, life) }))
	renewing, stop := context.WithCancel(t.Context())
	renewed := make(chan error, 1)
	go func() {
		tick := time.NewTicker(life / 2)
		defer tick.Stop()
		for {
			select {
			case <-renewing.Done():
				renewed <- nil
				return
			case <-tick.C:
			}
			err := auth.Update(w.dir, func(a *auth.Authority) error { return w.mintAlice(a, life) })
			if err != nil {
				renewed <- err
				return
			}
		}
	}()
	conn := w.connect(t, bus.Options{Creds: w.alice})
	m := counters(t, conn, 1, 1)
	began := time.Now()
	var sent int64
	for ; sent < least || time.Since(began) < lives*life; sent++ {
		_, err := addOne.Call(testkit.Soon(t), m.Ref(0), 1)
		require.NoError(t, err)
	}
	got, err := addOne.Call(testkit.Soon(t), m.Ref(0), 0)
	require.NoError(t, err)
	require.Equal(t, sent, got, "lost or repeated")
	t.Logf("%d calls, reconnects: data %d, control %d", sent, conn.Bus().Data().ConnectionCount(), conn.Bus().Control().ConnectionCount())
	require.GreaterOrEqual(t, conn.Bus().Data().ConnectionCount(), uint64(lives-1))
	require.GreaterOrEqual(t, conn.Bus().Control().ConnectionCount(), uint64(lives-1))
	require.NoError(t, conn.Bus().Err())
	require.NoError(t, conn.Close(testkit.Soon(t)))
	stop()
	require.NoError(t, testkit.Next(t, renewed))
	d.Stop(t)
	require.NotContains(t, d.Err.String(), "permission denied")
	require.NotContains(t, d.Err.String(), "refuse")
	require.NotContains(t, d.Err.String(), "bus disconnected", "a renewal before the end is no loss")
	require.GreaterOrEqual(t, strings.Count(d.Err.String(), "bus reconnects with new credentials"), 2*(lives-1))
}

func TestHostd_refusesAKeyThatIsNotItsOwn_HOSTD16(t *testing.T) {
	t.Parallel()
	w, s := newAuthDir(t), newSite(t)
	open := filepath.Join(t.TempDir(), "open.key")
	text, err := os.ReadFile(w.key("a"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(open, text, 0o644))
	require.NoError(t, os.Chmod(open, 0o644))
	join := []string{"--nats", w.url, "--label", "a"}
	for want, args := range map[string][]string{
		"is of host a: want --label a":                          {"--nats", w.url, "--label", "b", "--auth-key", w.key("a")},
		"want no access for others: chmod 600":                  append(join, "--auth-key", open),
		"no such file":                                          append(join, "--auth-key", open+".none"),
		"want the file that castnet auth host add wrote":        append(join, "--auth-key", w.alice),
		"want it without --creds, --nkey, --user and --token":   append(join, "--auth-key", w.key("a"), "--creds", w.alice),
		"want --namespace default":                              append(join, "--auth-key", w.key("a"), "--namespace", "lab"),
		"--auth-ttl is 2h0m0s, want 1s to 1h":                   append(join, "--auth-key", w.key("a"), "--auth-ttl", "2h"),
		"castnet auth host add b --system":                      {"--nats", w.url, "--label", "b", "--auth-key", w.key("b"), "--system"},
		"want --nats or --nats-config":                          {"--listen", "127.0.0.1:0", "--label", "a", "--auth-key", w.key("a")},
		"the credentials are of u-alice; a hostd makes its own": append(join, "--creds", w.alice),
	} {
		code, why := s.requireFailedStart(t, args...)
		require.Contains(t, why, want)
		require.Equal(t, 2, code, why)
	}
	s.requireClean(t)
}

func TestHostd_fixedUsersSpeakAsHostsProcsAndPrograms_HOSTD16(t *testing.T) {
	t.Parallel()
	fixed, err := auth.NewFixedUsers(subjects.Space{}, auth.Server{Listen: "127.0.0.1:-1", Data: t.TempDir()},
		[]string{"s-a", "h-b", "u-alice"})
	require.NoError(t, err)
	w, s := authDir{keys: t.TempDir(), url: serveConf(t, fixed.Conf)}, newSite(t)
	for _, key := range fixed.Hosts {
		w.writeKey(t, key)
	}
	hosts := []*daemon{w.hostd(t, s, "a"), w.hostd(t, s, "b")}
	conn := w.connect(t, bus.Options{User: "u-alice", Password: fixed.Passwords["u-alice"]})
	sum, err := cast.Reduce(testkit.Soon(t), counters(t, conn, 2, 2), addOne, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 4, sum)
	require.NoError(t, conn.Close(testkit.Soon(t)))
	for _, d := range hosts {
		d.Stop(t)
		require.NotContains(t, d.Err.String(), "permission denied")
	}
}

func TestHostd_everyCallHasAFateWhenItsCallerIsRevoked_HOSTD16(t *testing.T) {
	t.Parallel()
	w, s := newAuthDir(t), newSite(t)
	d := w.hostd(t, s, "a")
	conn := w.connect(t, bus.Options{
		Creds: w.alice, RefusedTimeout: time.Second, ReconnectMax: 100 * time.Millisecond,
	})
	m := counters(t, conn, 1, 1)
	gone := make(chan struct{}, 16)
	defer conn.Bus().Watch(func(st bus.State) {
		if st.Kind == bus.Disconnected || st.Kind == bus.Closed {
			select {
			case gone <- struct{}{}:
			default:
			}
		}
	})()
	const callers = 8
	ended := make(chan error, callers)
	for range callers {
		go func() {
			for {
				ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
				_, err := addOne.Call(ctx, m.Ref(0), 1)
				cancel()
				if err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	require.NoError(t, auth.Update(w.dir, func(a *auth.Authority) error { return a.Revoke("u-alice") }))
	a, err := auth.Read(w.dir)
	require.NoError(t, err)
	require.NoError(t, auth.Push(testkit.Soon(t), a, bus.Options{URL: w.url, ConnectTimeout: testkit.Patience}))
	testkit.Next(t, gone)
	for range callers {
		err := testkit.Next(t, ended)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "a call without a fate")
	}
	_ = conn.Close(testkit.Soon(t)) // its goodbyes have no bus
	d.Stop(t)
}

// credsFiles are the credentials files below a directory.
func credsFiles(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "creds", "*"))
	require.NoError(t, err)
	return all
}

func TestHostd_keptProcsAreRenewedByTheNextHostdAfterTheirEnd_HOST20(t *testing.T) {
	t.Parallel()
	const life = 2 * time.Second
	w, s, state := newAuthDir(t), newSite(t), t.TempDir()
	start := func() *daemon { return w.hostd(t, s, "a", "--state-dir", state, "--auth-ttl", life.String()) }
	first := start()
	id, err := subjects.NewMeshID("asker")
	require.NoError(t, err)
	b, err := bus.Open(testkit.Soon(t), bus.Options{URL: w.url, Creds: w.alice, InboxPrefix: "_INBOX.u-alice",
		ConnectTimeout: testkit.Patience})
	require.NoError(t, err)
	asker, err := actor.NewProc(testkit.Soon(t), actor.Options{ID: subjects.ProcID{Mesh: id}, Bus: b,
		Principal: subjects.Program.Principal("alice")})
	require.NoError(t, err)
	testkit.Close(t, asker.Close, b.Close)
	m := keptMesh(t, first)
	host := agent.Of(m.Hosts[0].Proc()).Via(asker)
	_, err = agent.Create.Call(testkit.Soon(t), host, agent.CreateRequest{Procs: &m, Wait: true})
	require.NoError(t, err)
	files := credsFiles(t, state)
	require.Len(t, files, 2)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm(), file)
	}
	pids := func() (all []int) {
		states := again(t, agent.Get, host, agent.GetRequest{ID: m.ID.String()})
		for _, st := range states {
			require.Equal(t, agent.Running, st.Status.Phase)
			all = append(all, st.Proc.PID)
		}
		return all
	}
	before := pids()
	first.Send(t, syscall.SIGKILL)
	testkit.Next(t, first.Ended())
	stale := filepath.Join(state, "creds", "gone-0123456789abc_0-0.creds")
	require.NoError(t, os.WriteFile(stale, nil, 0o600))
	expired := time.Now().Add(life)
	testkit.Until(t, "the credentials have ended", func() bool { return time.Now().After(expired) })
	second := start()
	reach(t, host, agent.WaitRequest{ID: m.ID.String(), Until: agent.Running})
	require.Equal(t, before, pids())
	require.NoFileExists(t, stale)
	second.Stop(t)
	require.NoDirExists(t, filepath.Join(state, "creds"))
	require.NotContains(t, second.Err.String(), "permission denied")
}
