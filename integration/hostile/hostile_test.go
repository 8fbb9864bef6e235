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
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// harmless is the order that every process may give: the system controller asks the suspected proc.
const harmless = "system: suspect a peer"

// forged is the number of messages of each kind in each of nine names: 10,800 of each kind.
const forged = 1_200

// forgeTimeout is many times what all forged messages take.
const forgeTimeout = 5 * time.Minute

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
	h.net, err = mesh.Connect(t.Context(), mesh.Options{Bus: &s.program,
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
	return target{Mesh: *m, Actor: h.counters.At("host", 0, "gpu", 0).ID(), Owner: m.Owner, System: found.ID(),
		Program: h.net.Proc().Sender()}
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

func TestHostileProc_getsNowhere(t *testing.T) {
	bin := t.TempDir()
	out, err := exec.Command("go", "build", "-C", "../..", "-o", bin+"/", "./cmd/hostd", "./examples/callout").
		CombinedOutput()
	require.NoError(t, err, string(out))
	for name, tier := range map[string]struct {
		start  func(*testing.T, *site)
		tables string
	}{
		"own-server":   {startOwnServer, "own-server"},
		"scoped-keys":  {startScopedKeys, "scoped-keys"},
		"auth-callout": {startCallout, "fixed-users"}, // it grants the same
		"fixed-users":  {startFixedUsers, "fixed-users"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, filepath.Join(bin, "hostd"), filepath.Join(bin, "callout"))
			tier.start(t, s)
			s.withstands(t, tier.tables)
		})
	}
}

// withstands runs the attack. tables begin the names of files in testdata.
func (s *site) withstands(t *testing.T, tables string) {
	t.Helper()
	h := s.honest(t)
	hosts, err := h.net.Hosts(t.Context())
	require.NoError(t, err)
	procs, err := hosts.Slice("host", 0, 1).Spawn(testkit.Soon(t), "hostile", shape.Of("gpu", 1))
	require.NoError(t, err)
	spawned, err := mesh.Spawn(testkit.Soon(t), procs, hostileType, "hostile", actor.None{})
	require.NoError(t, err)
	enemy := spawned.At("host", 0, "gpu", 0)
	to := h.target(t)
	names := strings.NewReplacer(to.Mesh.ID.String(), "MESH", to.Mesh.Hosts[0].String(), "HOST",
		to.Program.String(), "OWNER")
	h.works(t)

	heard, err := overhear.Call(testkit.Soon(t), enemy, to)
	require.NoError(t, err)
	compare(t, tables+"-hears.txt", judge(t, heard, names))
	h.works(t)

	refusals, err := command.Call(testkit.Soon(t), enemy, to)
	require.NoError(t, err)
	requireRefused(t, refusals)
	h.works(t)
	for _, as := range s.disguises(to) {
		refusals, err := impersonate.Call(testkit.Soon(t), enemy, disguise{to, as})
		require.NoError(t, err)
		requireRefused(t, refusals)
		h.works(t)
	}

	ctx, cancel := context.WithTimeout(t.Context(), forgeTimeout)
	defer cancel()
	said, err := forge.Call(ctx, enemy, order{to, forged})
	require.NoError(t, err)
	compare(t, tables+".txt", judge(t, said, names))
	h.works(t)
	s.requireRunning(t)
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

// requireRefused requires that no order was obeyed.
func requireRefused(t *testing.T, refusals []refusal) {
	t.Helper()
	for _, r := range refusals {
		t.Logf("%-40s %s", r.Order, r.Error)
		if r.Error == "" && r.Order != harmless {
			t.Errorf("obeyed: %s", r.Order)
		}
	}
}
