package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// site is two hostds, a and b, and how a program reaches them.
type site struct {
	hostd, callout, dir string // the commands, and a directory
	env                 []string
	program             bus.Options
	nodes               []*testkit.Process
	// sharesPrincipals reports that a credential is of a principal, not of one process.
	sharesPrincipals bool
}

// disguises are the processes in whose names the server lets a hostile proc speak, as a proc of its
// host. Another proc of this host is not among them: the two differ in nothing.
func (s *site) disguises(to target) []subjects.ProcID {
	if !s.sharesPrincipals {
		return nil
	}
	return []subjects.ProcID{to.Owner.Proc, to.Mesh.ProcID(2, 0), to.Mesh.Hosts[0].Proc(), to.Mesh.Hosts[1].Proc()}
}

func newSite(t *testing.T, hostd, callout string) *site {
	t.Helper()
	dir := t.TempDir()
	return &site{hostd: hostd, callout: callout, dir: dir, env: testkit.Environment(dir, dir, dir)}
}

// start starts a hostd.
func (s *site) start(t *testing.T, args ...string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(s.hostd, append(args, "--allow", self)...)
	cmd.Env = s.env
	said := &testkit.Transcript{}
	cmd.Stdout, cmd.Stderr = said, said
	n := testkit.Start(t, cmd)
	n.Out.Await(t, "hostd is ready")
	s.nodes = append(s.nodes, n)
	t.Cleanup(func() { n.Stop(t) })
}

// requireRunning requires that no hostd has ended.
func (s *site) requireRunning(t *testing.T) {
	t.Helper()
	for _, n := range s.nodes {
		select {
		case <-n.Ended():
			t.Fatalf("a hostd has ended: %s", n.Said())
		default:
		}
	}
}

// write writes a private file.
func (s *site) write(t *testing.T, name string, data []byte) (path string) {
	t.Helper()
	path = filepath.Join(s.dir, name)
	require.NoError(t, auth.WritePrivate(path, data))
	return path
}

// startOwnServer starts a hostd with a server, and another one that joins it (tier A).
func startOwnServer(t *testing.T, s *site) {
	t.Helper()
	s.start(t, "--listen", "127.0.0.1:0", "--label", "a", "--system", "--data", filepath.Join(s.dir, "store"))
	file, err := bus.LocalFile(func(key string) string {
		if key == "XDG_RUNTIME_DIR" {
			return s.dir
		}
		return ""
	})
	require.NoError(t, err)
	local, err := bus.ReadLocal(file)
	require.NoError(t, err)
	s.program = bus.Options{URL: local.URL, Token: local.Token}
	token := s.write(t, "token", []byte(local.Token))
	s.start(t, "--nats", local.URL, "--token-file", token, "--label", "b")
}

// startScopedKeys starts a server that trusts an authority, and hostds with their keys (tier B).
func startScopedKeys(t *testing.T, s *site) {
	t.Helper()
	dir := filepath.Join(s.dir, "auth")
	require.NoError(t, auth.Init(dir, subjects.Space{}))
	var keys []auth.HostKey
	require.NoError(t, auth.Update(dir, func(a *auth.Authority) error {
		for _, label := range []string{"a", "b"} {
			key, err := a.AddHost(label, label == "a")
			require.NoError(t, err)
			keys = append(keys, key)
		}
		creds, _, err := a.Mint(subjects.Program, "alice", auth.MaxLife)
		s.program.Creds = s.write(t, "alice.creds", creds)
		return err
	}))
	a, err := auth.Read(dir)
	require.NoError(t, err)
	conf, err := a.Conf(auth.Server{Listen: "127.0.0.1:-1", Data: filepath.Join(s.dir, "nats")})
	require.NoError(t, err)
	s.serve(t, conf, keys, nothing)
}

// startFixedUsers starts a server with users and passwords, and hostds with theirs (tier D).
func startFixedUsers(t *testing.T, s *site) {
	t.Helper()
	server := auth.Server{Listen: "127.0.0.1:-1", Data: filepath.Join(s.dir, "nats")}
	fixed, err := auth.NewFixedUsers(subjects.Space{}, server, []string{"s-a", "h-b", "u-alice"})
	require.NoError(t, err)
	s.program.User, s.program.Password = "u-alice", fixed.Passwords["u-alice"]
	s.serve(t, fixed.Conf, fixed.Hosts, nothing)
}

// nothing is what else most servers need.
func nothing(string) {}

// startCallout starts a server that asks examples/callout about its users, and hostds with passwords
// (tier C).
func startCallout(t *testing.T, s *site) {
	t.Helper()
	fixed, err := auth.NewFixedUsers(subjects.Space{}, auth.Server{}, []string{"s-a", "h-b", "u-alice"})
	require.NoError(t, err)
	var users strings.Builder
	for principal, password := range fixed.Passwords {
		fmt.Fprintln(&users, principal, password)
	}
	issuer, err := nkeys.CreateAccount()
	require.NoError(t, err)
	account, err := issuer.PublicKey()
	require.NoError(t, err)
	seed, err := issuer.Seed()
	require.NoError(t, err)
	s.program.User, s.program.Password = "u-alice", fixed.Passwords["u-alice"]
	callout := exec.Command(s.callout, s.write(t, "users.txt", []byte(users.String())))
	s.serve(t, calloutConf(t, account, filepath.Join(s.dir, "nats")), fixed.Hosts, func(url string) {
		callout.Env = append(slices.Clone(s.env), "CALLOUT_SEED="+string(seed), "NATS_URL="+url, "NATS_USER=auth",
			"NATS_PASSWORD="+calloutPassword)
		said := &testkit.Transcript{}
		callout.Stdout, callout.Stderr = said, said
		n := testkit.Start(t, callout)
		t.Cleanup(func() { n.Stop(t) })
		n.Out.Await(t, "Listening on")
	})
}

// calloutPassword is the password of the service itself.
const calloutPassword = "secret"

// calloutConf is the server's configuration in the documentation of examples/callout.
func calloutConf(t *testing.T, issuer, store string) string {
	t.Helper()
	doc, err := os.ReadFile("../../examples/callout/doc.go")
	require.NoError(t, err)
	conf := fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\n", store)
	for line := range strings.Lines(string(doc)) {
		line = strings.TrimPrefix(line, "//\t")
		if strings.HasPrefix(line, "accounts {") || strings.HasPrefix(line, "authorization {") {
			conf += line
		}
	}
	require.Contains(t, conf, "issuer: A…")
	require.Contains(t, conf, "$AUTH_PASSWORD")
	return strings.NewReplacer("A…", issuer, "$AUTH_PASSWORD", calloutPassword).Replace(conf)
}

// serve starts a server with a configuration, what else it needs, and a hostd for each key.
func (s *site) serve(t *testing.T, conf string, keys []auth.HostKey, more func(url string)) {
	t.Helper()
	file := s.write(t, "nats.conf", []byte(conf))
	server, err := embed.Start(testkit.Soon(t), embed.Options{ConfigFile: file})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	s.program.URL = server.URL()
	more(server.URL())
	s.sharesPrincipals = true
	for _, key := range keys {
		text, err := key.Text()
		require.NoError(t, err)
		label := key.Host.Principal.Label()
		s.start(t, "--nats", server.URL(), "--label", label, "--auth-key", s.write(t, label+".key", text))
	}
}
