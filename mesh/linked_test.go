package mesh_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

var (
	boss  = actor.NewType[*Boss, bool]("boss")
	hire  = actor.NewEndpoint[*Boss, hiring, mesh.ActorMesh[*Counter]]("hire")
	heard = actor.NewEndpoint[*Boss, actor.None, []actor.Event]("heard")
)

// Boss spawns linked counters.
type Boss struct {
	handles bool // their failures
	ends    []actor.Event
}

// hiring are the procs of linked counters, and their first number.
type hiring struct {
	Procs   mesh.ProcMesh
	Start   int64
	Partial bool
}

func bosses() actor.Def {
	return boss.Define(func(_ *actor.Context, handles bool) (*Boss, error) { return &Boss{handles: handles}, nil },
		hire.Handle((*Boss).hire), heard.Handle((*Boss).heard))
}

func (b *Boss) hire(ctx *actor.Context, h hiring) (mesh.ActorMesh[*Counter], error) {
	m, err := mesh.SpawnActors(ctx, h.Procs.Via(mesh.NetOf(ctx)), counter,
		mesh.ActorSpawnSpec[int64]{Label: "linked", Params: h.Start, Linked: true, AllowPartial: h.Partial})
	if h.Partial {
		return m, nil
	}
	return m, err
}

func (b *Boss) heard(*actor.Context, actor.None) ([]actor.Event, error) { return b.ends, nil }

// Supervise hears of the ends of the linked counters.
func (b *Boss) Supervise(_ *actor.Context, e actor.Event) (bool, error) {
	b.ends = append(b.ends, e)
	return b.handles, nil
}

// office is a boss in a proc of its own, and the procs of its counters.
func office(t *testing.T, handles bool) (c *cluster, one mesh.ActorMesh[*Boss], own, procs mesh.ProcMesh) {
	t.Helper()
	c = newCluster(t, "a", "b")
	hosts := c.AllHosts(t, c.Net)
	goOn := mesh.RestartPolicy{Restart: mesh.Temporary}
	own, err := hosts.Slice("host", 0, 1).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "office", PerHost: shape.Unit(), RestartPolicy: goOn})
	require.NoError(t, err)
	procs, err = hosts.SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "workers", PerHost: shape.Of("gpu", 2), RestartPolicy: goOn})
	require.NoError(t, err)
	one, err = mesh.SpawnActors(t.Context(), own, boss,
		mesh.ActorSpawnSpec[bool]{Label: "boss", Params: handles, RestartPolicy: goOn})
	require.NoError(t, err)
	return c, one, own, procs
}

func TestLinked_actorsStopOnceTheirCallerIsGone_MESH26(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(*testing.T, *cluster, mesh.ActorMesh[*Boss], mesh.ProcMesh){
		"stop": func(t *testing.T, _ *cluster, m mesh.ActorMesh[*Boss], _ mesh.ProcMesh) {
			require.NoError(t, m.Stop(testkit.Soon(t)))
		},
		"failure of one of them": func(t *testing.T, c *cluster, m mesh.ActorMesh[*Boss], own mesh.ProcMesh) {
			linked, err := hire.Call(testkit.Soon(t), m.Ref(0), hiring{Procs: own})
			require.NoError(t, err)
			require.NoError(t, crash.Send(t.Context(), linked.Via(c.Net).Ref(0), actor.None{}))
		},
		"death of its process": func(t *testing.T, c *cluster, _ mesh.ActorMesh[*Boss], own mesh.ProcMesh) {
			require.NoError(t, syscall.Kill(c.pids(t, own)[0], syscall.SIGKILL))
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, one, own, procs := office(t, false)
			linked, err := hire.Call(testkit.Soon(t), one.Ref(0), hiring{Procs: procs})
			require.NoError(t, err)
			linked = linked.Via(c.Net)
			require.Equal(t, 4, count(t, linked))
			end(t, c, one, own)
			ended := 0
			for e, err := range linked.Watch(testkit.Soon(t)) {
				require.NoError(t, err)
				require.Equal(t, string(actor.Stopped), e.Status)
				require.Contains(t, e.Reason, "its parent "+one.Ref(0).ID().String()+" is gone")
				ended++
				if ended == 4 {
					break
				}
			}
			require.Equal(t, 4, ended)
		})
	}
}

func TestLinked_failureIsThatOfAChild_MESH26(t *testing.T) {
	t.Parallel()
	c, one, _, procs := office(t, true)
	linked, err := hire.Call(testkit.Soon(t), one.Ref(0), hiring{Procs: procs})
	require.NoError(t, err)
	linked = linked.Via(c.Net)
	require.NoError(t, crash.Send(t.Context(), linked.Ref(1), actor.None{}))
	require.NoError(t, syscall.Kill(c.pids(t, procs)[3], syscall.SIGKILL))
	got := map[int]actor.Event{}
	testkit.Until(t, "the boss hears of both", func() bool {
		ends, err := heard.Call(testkit.Soon(t), one.Ref(0), actor.None{})
		require.NoError(t, err)
		for _, e := range ends {
			require.Equal(t, linked.Name(), e.Actor)
			require.True(t, e.Failed())
			got[e.Rank] = e
		}
		return len(got) == 2
	})
	require.Contains(t, got[1].Reason, "crash test")
	require.Contains(t, got[3].RootCause().Reason, "signal 9")
	left, err := cast.Gather(testkit.Soon(t), linked.Slice("host", 0, 1).Slice("gpu", 0, 1), add, 1)
	require.NoError(t, err)
	require.Equal(t, 1, left.Len(), "the others go on")
}

func TestLinked_failedSpawnLeavesNoActor_MESH26(t *testing.T) {
	t.Parallel()
	c, one, _, procs := office(t, true)
	_, err := hire.Call(testkit.Soon(t), one.Ref(0), hiring{Procs: procs, Start: -1}) // rank 1 cannot be made
	require.ErrorContains(t, err, "cannot count from -1")
	some, err := hire.Call(testkit.Soon(t), one.Ref(0), hiring{Procs: procs, Start: -1, Partial: true})
	require.NoError(t, err)
	some = some.Via(c.Net)
	all, err := procs.Actors(testkit.Soon(t))
	require.NoError(t, err)
	running := 0
	for _, states := range all.Values() {
		for _, s := range states {
			if s.Actor.Managed && !s.Status.Phase.Terminal() {
				require.Equal(t, some.Name(), s.ID)
				running++
			}
		}
	}
	require.Equal(t, 3, running)
	require.NoError(t, some.Stop(testkit.Soon(t)))
	testkit.Until(t, "the boss hears of their ends", func() bool {
		ends, err := heard.Call(testkit.Soon(t), one.Ref(0), actor.None{})
		require.NoError(t, err)
		return len(ends) == 3
	})
	_, err = mesh.SpawnActors(t.Context(), procs, counter, mesh.ActorSpawnSpec[int64]{Label: "linked", Linked: true})
	refused := new(mesh.RefusedError)
	require.ErrorAs(t, err, &refused, "a program is no actor")
	require.ErrorContains(t, err, "want the Context of the actor")
}
