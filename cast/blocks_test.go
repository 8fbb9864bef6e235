package cast

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// manyRuns is the number of runs of every second rank in a mesh: more than a list may have.
const manyRuns = 70_000

func everySecond() shape.Ranks {
	var rs shape.RanksWriter
	for i := range manyRuns {
		rs.Add(2*i, 1)
	}
	return rs.Ranks()
}

type listener struct{}

var (
	listenerType = actor.NewType[listener, actor.None]("listener")
	hear         = actor.NewEndpoint[listener, int, int]("hear")
)

// One process of a mesh of 140,002 ranks lives. The caller knows the end of every second other
// rank.
func TestCast_regionWithManyRunsIsDelivered_CAST1(t *testing.T) {
	server, place := bustest.Server(t),
		Placement{Mesh: testMesh, Extent: shape.Of("rank", 2*manyRuns+2), PerHost: 1}
	last := place.Extent.NumRanks() - 1
	start := func(id subjects.ProcID, m *Member) (*actor.Proc, *Router) {
		registry, err := actor.NewRegistry(listenerType.Define(
			func(*actor.Context, actor.None) (listener, error) { return listener{}, nil },
			hear.Handle(func(_ listener, _ *actor.Context, n int) (int, error) { return n + 1, nil })))
		require.NoError(t, err)
		p, err := actor.NewProc(t.Context(),
			actor.Options{ID: id, Registry: registry, Bus: bustest.Open(t, server)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
		r, err := Start(p, m)
		require.NoError(t, err)
		t.Cleanup(r.Close)
		return p, r
	}
	live, _ := start(place.Proc(last), &Member{Placement: place, Rank: last})
	_, err := live.Spawn(t.Context(), actor.SpawnSpec{Type: "listener", Name: "members", Params: actor.None{}})
	require.NoError(t, err)
	client, router := start(subjects.ProcID{Mesh: mustMesh(t)}, nil)
	require.NoError(t, client.Members().FollowMesh(testMesh, 64))

	all, err := shape.Interval(0, place.Extent.NumRanks()).MarshalBinary()
	require.NoError(t, err)
	target := Target{Via: client, Placement: place, Actor: "members", Region: place.Extent.Region()}
	for name, where := range map[string]string{"by itself": "", "with all others": wildcard} {
		to := packet{where: where, members: []member{{last, last, live.ID()}}}
		to.group, err = client.Casts().Group([]subjects.PortID{live.ID().Actor("members").Port("hear")})
		require.NoError(t, err)
		way := &route{tree: tree{placement: place, region: target.Region}, localFirst: -1,
			procChanges: client.Members().ChangeCount(testMesh), packets: []packet{to}}
		for _, gone := range everySecond().Runs() {
			way.unreachable = append(way.unreachable, lostRanks{gone, errGone})
		}
		router.routes.mu.Lock()
		router.routes.insert(routeKey{testMesh, "members", "hear", target.Region.String(),
			string(all)}, way)
		router.routes.mu.Unlock()

		ctx := testkit.Soon(t)
		a, err := newRollout(target, castRequest{endpoint: "hear", message: 7, mode: modeEach}).start(ctx)
		require.NoError(t, err)
		defer a.close()
		for a.fates[last] == waiting && a.awaitEvent(ctx) {
		}
		require.Equal(t, answered, a.fates[last], "%s: %v", name, a.err(last))
		v, err := actor.DecodeAnswer[int](a.own[last])
		require.NoError(t, err)
		require.Equal(t, 8, v)
	}
}

func TestHeader_manyRunsRoundTrip_WIRE7(t *testing.T) {
	place := Placement{Mesh: testMesh, Extent: shape.Of("rank", 2*manyRuns+2), PerHost: 1}
	runs := everySecond()
	h := header{Region: place.Extent.Region(), Skip: runs, Mode: modeFold}
	gens := make([]uint64, manyRuns)
	for i := range gens {
		gens[i] = uint64(i % 2)
	}
	h.Gens = runsOf(gens)
	ext, err := wire.Marshal(h)
	require.NoError(t, err)
	var got header
	require.NoError(t, got.decode(ext))
	require.Equal(t, len(runs.Runs()), len(got.Skip.Runs()))
	require.True(t, got.Skip.ContainsAll(runs))
	require.EqualValues(t, 1, genAt(got.Gens, manyRuns-1))

	// Every second rank alone has an outcome, and each failed rank a reason of its own.
	c := contribution{}
	for i, s := range runs.Runs() {
		if i%2 == 0 {
			c.parts = append(c.parts, part{shape.Interval(s.First, s.Count), actor.Answer{Value: i}})
		} else {
			c.failed = append(c.failed, failure{shape.Interval(s.First, s.Count), actor.EncodeError(errGone)})
		}
	}
	for range 2 * manyRuns {
		c.parts = append(c.parts, part{shape.Interval(2*manyRuns+1, 1), actor.Answer{Value: 1}})
	}
	values, ext, err := c.encode("home")
	require.NoError(t, err)
	body, err := wire.Marshal(values)
	require.NoError(t, err)
	var r replyHeader
	require.NoError(t, wire.Unmarshal(ext, &r))
	back, err := r.decode(actor.Incoming{Envelope: wire.Envelope{Kind: wire.Value, Body: body}},
		place.Extent.NumRanks())
	require.NoError(t, err)
	require.Len(t, back.parts, len(c.parts))
	require.Len(t, back.failed, len(c.failed))
	require.Equal(t, c.parts[9].ranks, back.parts[9].ranks)

	ext, err = wire.Marshal(replyHeader{Folded: true, Parts: []shape.Ranks{runs}, Settled: runs})
	require.NoError(t, err)
	var word replyHeader
	require.NoError(t, wire.Unmarshal(ext, &word))
	require.True(t, word.Settled.ContainsAll(runs) && word.Parts[0].ContainsAll(runs))
}

func TestHeader_decodeLimitsAreNarrow_WIRE7(t *testing.T) {
	long := append([]byte{0x9a, 0, 1, 0, 1}, make([]byte, 1<<16+1)...)
	for _, v := range []any{new(header), new(replyHeader)} {
		require.ErrorContains(t, wire.Unmarshal(append([]byte{0xa1, 0x19, 0x03, 0xe7}, long...), v),
			"exceeded max number of elements 65536", "%T", v)
	}
	require.ErrorContains(t, wire.Unmarshal(long, new(bodies)), "exceeded max number of elements 65536")
	require.ErrorContains(t, wire.Unmarshal(long, new([]valueCount)), "exceeded max number of elements 65536")
	values := make([]item, 1<<16+1)
	for i := range values {
		values[i].value = 1
	}
	collected, err := wire.Marshal(values)
	require.NoError(t, err)
	var items []item
	require.NoError(t, wire.Unmarshal(collected, &items), "answers are their endpoint's")
	require.Len(t, items, len(values))
}
