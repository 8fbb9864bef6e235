package hostile

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// harmless is the order that every process may give: the system controller asks the suspected proc.
const harmless = "system: suspect a peer"

// forged is the number of messages of each kind.
const forged = 10_000

var update = flag.Bool("update", false, "write the tables of testdata")

var (
	counterType = actor.NewType[*counter, actor.None]("counter")
	add         = actor.NewEndpoint[*counter, int64, int64]("add")
)

// counter is an honest actor.
type counter struct{ n int64 }

func counterDef() actor.Def {
	return counterType.Define(func(*actor.Context, actor.None) (*counter, error) { return &counter{}, nil },
		add.Handle(func(c *counter, _ *actor.Context, by int64) (int64, error) {
			c.n += by
			return c.n, nil
		}))
}

func TestMain(m *testing.M) {
	proc.Main(hostileDef(), counterDef())
	goleak.VerifyTestMain(m)
}

// site is a hostd of its own server, and another one that joined it.
type site struct {
	env   []string
	local bus.LocalServer
	nodes []*testkit.Process
}

func startSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	hostd := filepath.Join(dir, "hostd")
	out, err := exec.Command("go", "build", "-C", "../..", "-o", hostd, "./cmd/hostd").CombinedOutput()
	require.NoError(t, err, string(out))
	self, err := os.Executable()
	require.NoError(t, err)
	s := &site{env: testkit.Environment(dir, dir, dir)}
	start := func(args ...string) {
		cmd := exec.Command(hostd, append(args, "--allow", self)...)
		cmd.Env = s.env
		said := &testkit.Transcript{}
		cmd.Stdout, cmd.Stderr = said, said
		n := testkit.Start(t, cmd)
		n.Out.Await(t, "hostd is ready")
		s.nodes = append(s.nodes, n)
		t.Cleanup(func() { n.Stop(t) })
	}
	start("--listen", "127.0.0.1:0", "--label", "a", "--system", "--data", filepath.Join(dir, "store"))
	file, err := bus.LocalFile(func(key string) string {
		for _, e := range s.env {
			if value, is := strings.CutPrefix(e, key+"="); is {
				return value
			}
		}
		return ""
	})
	require.NoError(t, err)
	s.local, err = bus.ReadLocal(file)
	require.NoError(t, err)
	token := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(token, []byte(s.local.Token), 0o600))
	start("--nats", s.local.URL, "--token-file", token, "--label", "b")
	return s
}

// honest is a program with a mesh of four procs on two hosts.
type honest struct {
	net      *mesh.Net
	procs    mesh.ProcMesh
	counters mesh.ActorMesh[*counter]

	mu       sync.Mutex
	failures []actor.Event
	sum      int64 // of a cast
}

func (s *site) honest(t *testing.T) *honest {
	t.Helper()
	h := &honest{}
	var err error
	h.net, err = mesh.Connect(t.Context(), mesh.Options{Bus: &bus.Options{URL: s.local.URL, Token: s.local.Token},
		Log: testkit.Log(t), OnFailure: func(e actor.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.failures = append(h.failures, e)
		}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.net.Close(context.Background())) })
	hosts, err := h.net.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	h.procs, err = hosts.Spawn(testkit.Soon(t), "honest", shape.Of("gpu", 2))
	require.NoError(t, err)
	h.counters, err = mesh.Spawn(testkit.Soon(t), h.procs, counterType, "counter", actor.None{})
	require.NoError(t, err)
	return h
}

// works shows that each rank answers, that it is the same one as before, and that nothing failed.
func (h *honest) works(t *testing.T) {
	t.Helper()
	h.sum += 4
	sum, err := cast.Reduce(testkit.Soon(t), h.counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.Equal(t, h.sum, sum)
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Empty(t, h.failures)
}

func (h *honest) target(t *testing.T) target {
	t.Helper()
	hosts, err := h.net.Hosts(t.Context())
	require.NoError(t, err)
	id := h.procs.ID()
	states, err := agent.Get.Call(testkit.Soon(t), agent.Of(hosts.Infos()[0].ID.Proc()).Via(h.net.Proc()),
		agent.GetRequest{ID: id.String()})
	require.NoError(t, err)
	found, err := system.Find(testkit.Soon(t), h.net.Proc())
	require.NoError(t, err)
	m := states[0].Mesh
	require.NotNil(t, m)
	return target{Mesh: *m, Actor: h.counters.At("host", 0, "gpu", 0).ID(), Owner: m.Owner, System: found.ID()}
}

// compare compares with a file of testdata.
func compare(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// judge is one line for each kind: whether the server let it pass.
func judge(t *testing.T, all []outcome, names *strings.Replacer) string {
	t.Helper()
	var lines []string
	for _, o := range all {
		switch o.Denied {
		case 0:
			lines = append(lines, "passes   "+names.Replace(o.Kind))
		case o.Sent:
			lines = append(lines, "refused  "+names.Replace(o.Kind))
		default:
			t.Errorf("%s: %d of %d refused", o.Kind, o.Denied, o.Sent)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func TestHostileProc_getsNowhereOnHostdsOwnServer(t *testing.T) {
	s := startSite(t)
	h := s.honest(t)
	hosts, err := h.net.Hosts(t.Context())
	require.NoError(t, err)
	procs, err := hosts.Slice("host", 0, 1).Spawn(testkit.Soon(t), "hostile", shape.Of("gpu", 1))
	require.NoError(t, err)
	enemy, err := mesh.Spawn(testkit.Soon(t), procs, hostileType, "hostile", actor.None{})
	require.NoError(t, err)
	to := h.target(t)
	names := strings.NewReplacer(to.Mesh.ID.String(), "MESH", to.Mesh.Hosts[0].String(), "HOST",
		to.Owner.Proc.Process().String(), "OWNER")
	h.works(t)

	heard, err := overhear.Call(testkit.Soon(t), enemy.At("host", 0, "gpu", 0), to)
	require.NoError(t, err)
	compare(t, "own-server-hears.txt", judge(t, heard, names))
	h.works(t)

	refusals, err := command.Call(testkit.Soon(t), enemy.At("host", 0, "gpu", 0), to)
	require.NoError(t, err)
	for _, r := range refusals {
		t.Logf("%-40s %s", r.Order, r.Error)
		if r.Error == "" && r.Order != harmless {
			t.Errorf("obeyed: %s", r.Order)
		}
	}
	h.works(t)

	said, err := forge.Call(testkit.Soon(t), enemy.At("host", 0, "gpu", 0), order{to, forged})
	require.NoError(t, err)
	compare(t, "own-server.txt", judge(t, said, names))
	h.works(t)
	for _, n := range s.nodes {
		select {
		case <-n.Ended():
			t.Fatalf("a hostd has ended: %s", n.Said())
		default:
		}
	}
	after, err := h.net.Hosts(t.Context())
	require.NoError(t, err)
	for _, i := range after.Infos() {
		require.Equal(t, agent.ModeOpen, i.Mode, i.ModeReason)
	}
	for rank := range 4 {
		_, down := h.net.Proc().Members().Down(to.Mesh.ProcID(rank, 0))
		require.False(t, down, "rank %d", rank)
	}
}
