package cast

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// A header of 30 bytes ends the process.
func TestHostile_hugeArityIsHarmless_CAST6(t *testing.T) {
	e := shape.Of("gpu", 8)
	ext, err := wire.Marshal(header{Region: e.Region(), Arity: math.MaxInt, Mode: modeFold,
		Prevs: valueRuns(8, 0)})
	require.NoError(t, err)
	var h header
	if h.decode(ext) != nil {
		return // refused: fine
	}
	require.NotPanics(t, func() {
		newJob(h.tree(Placement{Mesh: testMesh, Extent: e, PerHost: 2}),
			modeFold, 0)
	})
}

// A header of 60 bytes reserves a gigabyte.
func TestHostile_regionBeyondTheMeshAllocatesNothing_CAST6(t *testing.T) {
	place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
	p := procAt(t, place.Proc(0))
	r, err := Start(p, &Member{Placement: place})
	require.NoError(t, err)
	defer r.Close()
	ext, err := wire.Marshal(header{
		Region: shape.Of("gpu", shape.MaxRanks).Region(), Arity: 2, Mode: modeFold,
		Prevs:     valueRuns(shape.MaxRanks, 0),
		ReplyPort: p.ID().Actor("x").Port("_01").String(), Reducer: "sum",
	})
	require.NoError(t, err)
	e := wire.Envelope{Kind: wire.Cast, Actor: "nobody", Port: "x", Sender: "client", TTL: time.Second, Ext: ext}
	err = r.receiveDirect(p.ID().Actor("client"), subjects.Sender{}, &e)
	total := 0
	r.aggregations.mu.Lock()
	for _, f := range r.aggregations.active {
		total += len(f.state.fates)
	}
	r.aggregations.mu.Unlock()
	require.LessOrEqual(t, total, place.Extent.NumRanks(), "fates kept; take returned %v", err)
}

// Finished casts expire after their time, and beyond maxFolds.
func TestCast_forgetsFinishedCasts_CAST6(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
		p := procAt(t, place.Proc(1))
		fs := newAggregations(p, place)
		defer fs.close()
		region := place.Extent.Region()
		const casts = maxAggregations + 500
		for i := range casts {
			home := p.ID().Actor("nobody").Port("_0" + string(rune('a'+i%26)) + itoa(i))
			j := newJob(tree{placement: place, region: region, arity: 2}, modeFold, 1)
			j.replyTo, j.castID, j.ttl, j.reducer = home, home.String(), time.Second, "sum"
			f := fs.begin(j)
			fs.addLocal(f, 1, actor.Answer{Err: errGone})
		}
		require.Eventually(t, func() bool {
			fs.mu.Lock()
			defer fs.mu.Unlock()
			return len(fs.active) == 0 // the timers have forgotten all
		}, 20*time.Second, 20*time.Millisecond)
		fs.mu.Lock()
		defer fs.mu.Unlock()
		require.Empty(t, fs.finished, "%d casts are forgotten and still held", len(fs.finished))
	})
}

var errGone = &actor.Error{Code: actor.CodeHandler, Text: "no"}

func itoa(i int) string {
	s := ""
	for ; i > 0; i /= 10 {
		s = string(rune('0'+i%10)) + s
	}
	return s
}

// The link between a process and its folder breaks; both live. The process sends its answer past
// the folder. The folder's own later report has that answer too, and is dropped as a whole.
func TestAggregation_acceptsAFoldAfterABypassedPart_CAST6(t *testing.T) {
	f := newFolder(0, 0, 8, shape.Ranks{})
	one := func(lo, n int, v string) contribution {
		return contribution{parts: []part{{shape.Interval(lo, n), actor.Answer{Value: v}}}}
	}
	f.contribute(one(2, 2, "2 3 "))         // past the folder
	f.contribute(one(0, 8, "0 1 2 … 6 7 ")) // the folder's
	require.Zero(t, f.pending, "ranks 0-1 and 4-7 answered, and are waited for till the deadline")

	place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
	home := newHome(Target{Placement: place, Region: place.Extent.Region()}, modeFold)
	home.contribute(one(2, 2, "2 3 "))
	home.contribute(one(0, 8, "0 1 2 … 6 7 "))
	require.Zero(t, home.pending)
}

// 4b: as 4, but the folder has given up the process. Its report lacks the ranks of the bypassed
// answer.
func TestAggregation_acceptsAFoldAroundABypassedPart_CAST6(t *testing.T) {
	f := newFolder(0, 0, 8, shape.Ranks{})
	f.contribute(contribution{parts: []part{{shape.Interval(2, 2), actor.Answer{Value: "2 3 "}}}})
	f.contribute(contribution{parts: []part{{shape.UnionOf(shape.Interval(0, 2), shape.Interval(4, 4)),
		actor.Answer{Value: "0 1 4 5 6 7 "}}}, failed: []failure{{shape.Interval(2, 2),
		actor.EncodeError(errGone)}}})
	require.Zero(t, f.pending, "six ranks answered, and are waited for till the deadline")
}

// The processes below a silent folder answered past it. Then it goes on: its own report lacks one
// of them.
func TestAggregation_lateFoldKeepsBypassedParts_CAST6(t *testing.T) {
	some := func(sets ...shape.Ranks) contribution {
		return contribution{parts: []part{{shape.UnionOf(sets...), actor.Answer{Value: "some"}}}}
	}
	place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
	home := newHome(Target{Placement: place, Region: place.Extent.Region()}, modeFold)
	home.rerouted = true
	f := newFolder(0, 0, 8, shape.Ranks{})
	f.rerouted = true
	for _, put := range []func(contribution) []shape.RankRun{f.contribute, home.contribute} {
		put(some(shape.Interval(2, 2)))
		put(some(shape.Interval(4, 2)))
		put(some(shape.Interval(0, 4), shape.Interval(6, 2))) // it was silent in 0 and 1
		put(some(shape.Interval(6, 2)))
	}
	require.Equal(t, shape.Interval(2, 6), f.ranksWith(answered))
	require.Equal(t, 6, home.coverage().Answered)
	for _, put := range []func(contribution) []shape.RankRun{f.contribute, home.contribute} {
		put(some(shape.Interval(0, 8)))
	}
	require.Equal(t, []int{0, 0}, []int{f.pending, home.pending}, "a report with all of them counts, once")
	require.Len(t, f.parts, 1)
	require.Len(t, home.parts, 1)
}

// An answer too large for the bus leaves as a Failure with the same ext, so the folder cannot read
// it.
func TestReply_unencodableReplyFailsItsRanksAtOnce_CAST6(t *testing.T) {
	place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
	one := actor.Answer{Value: 1}
	for _, parts := range [][]part{
		{{shape.Interval(0, 8), one}},
		// within each other
		{{shape.UnionOf(shape.Interval(0, 3), shape.Interval(6, 2)), one}, {shape.Interval(3, 3), one}},
		// the last first
		{{shape.Interval(5, 3), one}, {shape.Interval(0, 5), one}},
	} {
		home := &operation{rollout: newHome(Target{Placement: place, Region: place.Extent.Region()}, modeFold)}
		_, ext, err := contribution{parts: parts}.encode("")
		require.NoError(t, err)
		why := &actor.Error{Code: actor.CodeTooLarge, Text: "9 MiB: want 8 at most"}
		err = home.addIncoming(actor.Incoming{From: place.Proc(0).Actor(routerActor),
			Envelope: wire.Envelope{Kind: wire.Failure, Ext: ext, Body: actor.EncodeError(why)}})
		require.Zero(t, home.pending, "pending until the deadline; take returned %v", err)
	}
}

// Overlapping failures cost ranks × failures, on the pump.
func TestAggregation_refusesOverlappingFailures_CAST6(t *testing.T) {
	r := replyHeader{Folded: true}
	for range 1000 {
		r.Failed = append(r.Failed, failure{Ranks: shape.Interval(0, 1000)})
	}
	_, err := r.decode(actor.Incoming{}, 1000)
	require.Error(t, err, "a million steps for 1,000 ranks")
}

// A death comes after the lookup of dead ranks and before that of the route. No listener gets it.
func TestRoute_deathDuringPlanningIsNoticed_CAST6(t *testing.T) {
	t.Parallel()
	place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 4), PerHost: 1}
	id := subjects.ProcID{Mesh: mustMesh(t)}
	p := procAt(t, id)
	r, err := Start(p, nil)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, p.Members().FollowMesh(testMesh, 64))
	ctx := testkit.Soon(t)
	r.routes.mu.Lock()
	asked := make(chan *operation, 1)
	go func() {
		a, err := newRollout(Target{Via: p, Placement: place, Actor: "x", Region: place.Extent.Region()},
			castRequest{endpoint: "y", mode: modeFold, reducer: "sum"}).start(ctx)
		if err != nil {
			panic(err)
		}
		asked <- a
	}()
	for range 10_000 { // it comes to wait for routes.mu
		runtime.Gosched()
	}
	p.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: string(actor.Failed),
		Mesh: testMesh.String(), Rank: 2,
		At: time.Now()})
	r.routes.mu.Unlock()
	a := <-asked
	defer a.close()
	a.drainInbox()
	require.Equal(t, failed, a.fates[2], "rank 2 is known to be dead, and waited for")
}

func mustMesh(t *testing.T) subjects.MeshID {
	id, err := subjects.NewMeshID("client")
	require.NoError(t, err)
	return id
}

// A fold must not end the process when it completes after the close of its proc.
func TestFold_survivesTheCloseOfItsProc_CAST6(t *testing.T) {
	place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
	p := procAt(t, place.Proc(1))
	fs := newAggregations(p, place)
	home := p.ID().Actor("nobody").Port("_0x")
	j := newJob(tree{placement: place, region: place.Extent.Region(), arity: 2}, modeFold, 1)
	j.replyTo, j.castID, j.ttl, j.reducer = home, home.String(), time.Second, "sum"
	f := fs.begin(j)
	require.NoError(t, p.Close(t.Context()))
	fs.addLocal(f, 1, actor.Answer{Value: 1})
	fs.close()
}

func TestAggregation_earlyRepliesAreBoundedInBytes_CAST6(t *testing.T) {
	t.Parallel()
	place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
	p := procAt(t, place.Proc(0))
	fs := newAggregations(p, place)
	defer fs.close()
	fs.earlyTimeout = time.Hour // no answer gives up while the others come
	ranks := []shape.Ranks{shape.Interval(2, 2)}
	body, err := wire.Marshal([][]byte{make([]byte, 1<<20)})
	require.NoError(t, err)
	early := func(cast string) {
		fs.receive(actor.Incoming{From: place.Proc(2).Actor(routerActor), Envelope: wire.Envelope{
			Kind: wire.Value, Body: body, Ext: encodeReply(replyHeader{Cast: cast, Folded: true, Parts: ranks}),
		}})
	}
	for i := range 40 {
		early(fmt.Sprint("cast", i))
	}
	fs.mu.Lock()
	size, first, last := fs.earlyBytes, fs.active["cast0"].declined, fs.active["cast39"].declined
	fs.mu.Unlock()
	require.LessOrEqual(t, size, maxEarlyBytes)
	require.Greater(t, size, maxEarlyBytes-2<<20)
	require.Equal(t, []bool{false, true}, []bool{first, last})
}

func TestAggregation_repliesToAnUnknownCastExpire_CAST6(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
		fs := newAggregations(procAt(t, place.Proc(0)), place)
		defer fs.close()
		fs.earlyTimeout = time.Millisecond
		body, err := wire.Marshal([][]byte{make([]byte, 1<<20)})
		require.NoError(t, err)
		fs.receive(actor.Incoming{From: place.Proc(2).Actor(routerActor), Envelope: wire.Envelope{
			Kind: wire.Value, Body: body, Ext: encodeReply(
				replyHeader{Cast: "cast", Folded: true, Parts: []shape.Ranks{shape.Interval(2, 2)}}),
		}})
		require.Eventually(t, func() bool {
			fs.mu.Lock()
			defer fs.mu.Unlock()
			return fs.earlyBytes == 0
		}, 20*time.Second, 20*time.Millisecond)
	})
}

// An answer may bypass only its own folder.
func TestAggregation_replyBypassesOnlyTheAggregatorThatDeclined_CAST6(t *testing.T) {
	t.Parallel()
	place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
	p := procAt(t, place.Proc(1))
	fs := newAggregations(p, place)
	defer fs.close()
	j := newJob(tree{placement: place, region: place.Extent.Region(), arity: 2}, modeFold, 1)
	j.replyTo = p.ID().Actor("nobody").Port("_0a")
	j.castID, j.ttl, j.reducer = j.replyTo.String(), time.Minute, "sum"
	f := fs.begin(j)
	fs.addLocal(f, 1, actor.Answer{Err: errGone})
	fs.wg.Wait()
	declines := func(rank int) subjects.ProcID {
		fs.receive(actor.Incoming{From: place.Proc(rank).Actor(routerActor), Envelope: wire.Envelope{
			Kind: wire.Value, Ext: encodeReply(replyHeader{Cast: j.castID, Folded: true, Declined: true}),
		}})
		fs.wg.Wait()
		return f.sentTo
	}
	require.Equal(t, place.Proc(0), f.sentTo)
	require.Equal(t, place.Proc(0), declines(5))
	require.False(t, declines(0).IsValid(), "home")
}
