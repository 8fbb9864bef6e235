package cast

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// anyExtent draws an extent of one to six dimensions.
func anyExtent(t *rapid.T) shape.Extent {
	e := shape.Unit()
	for i := range rapid.IntRange(1, 6).Draw(t, "dims") {
		e = e.With(string(rune('a'+i)), rapid.IntRange(1, 4).Draw(t, "size"))
	}
	return e
}

// anyRegion slices an extent along some dimensions.
func anyRegion(t *rapid.T, e shape.Extent) shape.Region {
	r := e.Region()
	for _, d := range e.Dims() {
		var err error
		begin := rapid.IntRange(0, d.Size-1).Draw(t, "begin")
		switch rapid.IntRange(0, 2).Draw(t, "slice "+d.Label) {
		case 1:
			r, err = r.Index(d.Label, begin)
		case 2:
			r, err = r.SliceStep(d.Label, begin, rapid.IntRange(begin+1, d.Size).Draw(t, "end"),
				rapid.IntRange(1, 3).Draw(t, "step"))
		}
		require.NoError(t, err)
	}
	return r
}

// runsOf writes values run by run.
func runsOf(values []uint64) runs {
	var w runsWriter
	for i, v := range values {
		w.fill(i+1, v)
	}
	return w.runs()
}

// valueRuns writes runs: of each the count and the value.
func valueRuns(pairs ...int) runs {
	var w runsWriter
	for i := 0; i < len(pairs); i += 2 {
		w.fill(w.end+pairs[i], uint64(pairs[i+1]))
	}
	return w.runs()
}

// ranksOf is the set of ascending ranks.
func ranksOf(all []int) shape.Ranks { return shape.RanksOf(slices.Values(all)) }

// newHome is the caller's side of a cast to all ranks of a target.
func newHome(t Target, m mode) *rollout {
	r := newRollout(t, castRequest{mode: m})
	r.expect(t.ranks())
	return r
}

// newFolder is the collector of a process for the ranks from lo to hi, its own up to below.
func newFolder(lo, below, hi int, skip shape.Ranks) *collector {
	c := newCollector(lo, hi, below-lo)
	c.expect(skip.Complement(hi))
	return c
}

func TestHeader_runsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.SampledFrom([]uint64{0, 1, 7, 1 << 40, link.NotIncluded, link.AllAcked})).
			Draw(t, "values")
		rs := runsOf(values)
		for i, want := range values {
			got, ok := rs.at(i)
			require.True(t, ok)
			require.Equal(t, want, got)
		}
		_, ok := rs.at(len(values))
		require.False(t, ok)
	})
}

func TestHeader_selectsOnlyIncludedMembers(t *testing.T) {
	e := shape.Of("gpu", 8)
	r, err := e.Region().Slice("gpu", 2, 6)
	require.NoError(t, err)
	ext, err := wire.Marshal(header{Region: r, Prevs: runsOf([]uint64{5, 5, 9, link.NotIncluded}),
		Skip: shape.Interval(0, 1)})
	require.NoError(t, err)
	place := Placement{Mesh: testMesh, Extent: e, PerProcess: 2}
	for base, want := range map[int][]any{0: {-1, uint64(0)}, 2: {0, uint64(5)}, 4: {2, uint64(9)},
		6: {-1, uint64(0)}} {
		var h header
		require.NoError(t, h.decode(ext))
		first, end := (&Router{p: procAt(t, place.Proc(base)), placement: place}).localRanks(&h)
		prev := uint64(0)
		if first >= 0 {
			require.Equal(t, first+2, end)
			prev, err = h.prev(first)
			require.NoError(t, err)
		}
		require.Equal(t, want, []any{first, prev}, "process of rank %d", base)
	}
	short, err := wire.Marshal(header{Region: r, Prevs: runsOf([]uint64{5})})
	require.NoError(t, err)
	var h header
	require.NoError(t, h.decode(short))
	_, err = h.prev(2)
	require.ErrorContains(t, err, "no prev for rank 2 of 4")
	for want, h := range map[string]header{
		"unknown mode 9": {Region: r, Mode: 9}, "beyond the 4 ranks": {Region: r, Skip: shape.Interval(3, 2)},
		"arity 1": {Region: r, Arity: 1}, "a trace of 24 bytes": {Region: r, Trace: bytes.Repeat([]byte{1}, 24)},
		"an ID of zeros": {Region: r, Trace: make([]byte, 25)},
	} {
		odd, err := wire.Marshal(h)
		require.NoError(t, err)
		require.ErrorContains(t, new(header).decode(odd), want)
	}
}

// The other ranks of the process answer after a rank's death: the last answer completes the fold.
func TestCast_dyingRankKeepsOtherRepliesOfItsProcess_CAST4(t *testing.T) {
	e := shape.Of("gpu", 4)
	place := Placement{Mesh: testMesh, Extent: e, PerHost: 4, PerProcess: 4}
	for _, mode := range []mode{modeFold, modeCollect} {
		tr, f := (&header{Region: e.Region(), Mode: mode}).tree(place), &aggregation{}
		f.start(newJob(tr, mode, 0))
		require.False(t, f.local.put(0, actor.Answer{Value: 0}))
		f.failProc(place.Proc(2), errors.New("killed"))
		require.False(t, f.local.put(1, actor.Answer{Value: 1}))
		require.True(t, f.local.put(3, actor.Answer{Value: 3}), "nothing else is waited for")
		f.drainLocal()
		require.Zero(t, f.state.pending)
		require.Equal(t, shape.UnionOf(shape.Interval(0, 2), shape.Interval(3, 1)), f.state.ranksWith(answered))
	}
}

// The end of another generation settles no rank, because any process may forge one. The start of a
// later generation does.
func TestGenerations_onlyTheAskedOrALaterGenerationLosesRanks_CAST10(t *testing.T) {
	e := shape.Of("gpu", 8)
	region, err := e.Region().Slice("gpu", 1, 8)
	require.NoError(t, err)
	tr := tree{placement: Placement{Mesh: testMesh, Extent: e, PerHost: 4, PerProcess: 2}, region: region,
		gens: valueRuns(3, 0, 2, 2)}
	proc := func(rank, gen, seat uint32) subjects.ProcID {
		return subjects.ProcID{Mesh: testMesh, Rank: rank, Gen: gen, Index: seat}
	}
	require.Equal(t, proc(4, 2, 0), tr.aggregatorAt(3))
	require.Equal(t, proc(5, 2, 1), tr.proc(4))
	require.Equal(t, proc(6, 0, 0), tr.aggregatorAt(5), "none behind the last is of another")
	for id, want := range map[subjects.ProcID][2]int{
		proc(0, 0, 0): {0, 1}, proc(2, 0, 0): {1, 2}, proc(2, 1, 0): {}, proc(3, 0, 1): {2, 1},
		proc(4, 0, 0): {}, proc(4, 1, 0): {}, proc(5, 1, 1): {}, proc(4, 2, 0): {3, 2}, proc(5, 2, 1): {4, 1},
		proc(5, 3, 1): {},
	} {
		got := tr.ranksLostWith(id)
		require.Equal(t, want, [2]int{got.First, got.Count}, "%s", id)
	}
	for id, want := range map[subjects.ProcID][2]int{
		proc(2, 0, 0): {}, proc(2, 1, 0): {1, 2}, proc(4, 2, 0): {}, proc(5, 3, 1): {4, 1},
	} {
		got := tr.before(id)
		require.Equal(t, want, [2]int{got.First, got.Count}, "%s", id)
	}
}

func TestGenerations_successorEndsTheFormerProc_CAST9(t *testing.T) {
	p := procAt(t, subjects.ProcID{Mesh: testMesh, Rank: 1})
	first := subjects.ProcID{Mesh: testMesh, Rank: 4}
	second, seat := first, subjects.ProcID{Mesh: testMesh, Rank: 5, Index: 1}
	second.Gen = 1
	require.False(t, isEnded(p, first))
	p.Members().NoteGeneration(actor.Event{Kind: actor.KindProc, Status: string(actor.Running),
		Mesh: testMesh.String(),
		Rank: 4, Gen: 1})
	require.True(t, isEnded(p, first))
	require.False(t, isEnded(p, second))
	require.Equal(t, second, latestProc(p, first))
	seat.Gen = 1
	require.Equal(t, seat, latestProc(p, subjects.ProcID{Mesh: testMesh, Rank: 5, Index: 1}),
		"a process begins again as a whole")
}

// An answer counts only from the requested generation; the error of a dead proc also from a later
// one.
func TestGenerations_replyCountsFromTheAskedGeneration_CAST10(t *testing.T) {
	body, err := wire.Marshal(7)
	require.NoError(t, err)
	for gen, want := range map[uint32][]fate{0: {waiting, waiting}, 1: {answered, failed},
		2: {waiting, failed}} {
		for i, e := range []wire.Envelope{{Kind: wire.Value, Body: body},
			{Kind: wire.Failure, Body: actor.EncodeError(errGone)}} {
			tl := &operation{rollout: newHome(eight(), modeEach), gens: valueRuns(3, 0, 1, 1)}
			id := tl.target.Placement.Proc(3)
			id.Gen, e.Ext = gen, encodeReply(replyHeader{Rank: 3})
			require.NoError(t, tl.addIncoming(actor.Incoming{From: id.Actor("members"), Envelope: e}))
			require.Equal(t, want[i], tl.fates[3], "generation %d, answer %d", gen, i)
		}
	}
}

// A cast on a link to this very proc is for no other.
func TestGenerations_packetForAnotherGenerationIsRefused_CAST10(t *testing.T) {
	place := Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 2}
	id := place.Proc(1)
	id.Gen = 1
	r := &Router{p: procAt(t, id), placement: place}
	for _, gen := range []int{0, 2} {
		ext, err := wire.Marshal(header{Region: place.Extent.Region(), Gens: valueRuns(1, 0, 1, gen)})
		require.NoError(t, err)
		err = r.receiveDirect(id.Actor("client"), subjects.Sender{},
			&wire.Envelope{Kind: wire.Cast, Actor: "nobody", Port: "x", Ext: ext})
		require.ErrorIs(t, err, actor.ErrBadMessage)
		require.ErrorContains(t, err, "the cast asks for generation")
	}
}

// procAt is a single proc on a bus.
func procAt(t *testing.T, id subjects.ProcID) *actor.Proc {
	t.Helper()
	p, err := actor.NewProc(t.Context(), actor.Options{ID: id, Bus: bustest.Open(t, bustest.Server(t))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	return p
}

func TestRoute_carriesEachProcessesSequenceNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := anyTree(t)
		all := membersOf(tr.placement, tr.region)
		k := packet{}
		var told []link.Run
		want := make([]uint64, tr.region.NumRanks())
		for i := range want {
			want[i] = link.NotIncluded
		}
		for _, m := range all {
			if rapid.IntRange(0, 3).Draw(t, "is in another packet") == 0 {
				continue
			}
			k.members = append(k.members, m)
			prev := rapid.SampledFrom([]uint64{0, 7, 7, 7, link.AllAcked, link.NotIncluded}).Draw(t, "prev")
			if n := len(told); n > 0 && told[n-1].Prev == prev {
				told[n-1].Count++
			} else {
				told = append(told, link.Run{Count: 1, Prev: prev})
			}
			for view := m.view; view < tr.processEnd(m.view); view++ {
				want[view] = prev
			}
		}
		r := &route{tree: tr}
		got := r.prevs(k, told)
		for view, prev := range want {
			n, in := got.at(view)
			require.True(t, in)
			require.Equal(t, prev, n, "rank %d of the region", view)
		}
	})
}

// A member finds its place in any cast of a peer, or returns an error.
func FuzzHeader(f *testing.F) {
	h, err := wire.Marshal(header{Region: shape.Of("gpu", 4).Region(), Prevs: valueRuns(4, 1),
		Skip: shape.Interval(1, 2), Mode: modeFold, ReplyPort: "h", Reducer: "sum"})
	require.NoError(f, err)
	many, err := wire.Marshal(header{Region: shape.Of("gpu", 4).Region(),
		Prevs: runsOf([]uint64{1, 1, 1, link.NotIncluded}), Asked: shape.Interval(1, 2), Mode: modeSend})
	require.NoError(f, err)
	traced, err := wire.Marshal(header{Region: shape.Of("gpu", 4).Region(), Trace: bytes.Repeat([]byte{1}, 25)})
	require.NoError(f, err)
	f.Add(h, 2)
	f.Add(traced, 2)
	f.Add(many, 3)
	f.Fuzz(func(t *testing.T, data []byte, base int) {
		bustest.CheckAllocBound(t, data, func() { _ = new(header).decode(data) })
		var got header
		if err := got.decode(data); err != nil {
			return
		}
		tr := got.tree(Placement{Mesh: testMesh, Extent: shape.Of("gpu", 8), PerHost: 4, PerProcess: 2})
		if view, in := got.Region.ViewRank(base); in {
			_, _ = got.prev(view)
			require.Less(t, view, got.Region.NumRanks())
			require.Equal(t, base, tr.base(view))
			j := newJob(tr, got.Mode, view)
			require.LessOrEqual(t, len(j.ancestors), 64)
		}
	})
}

// No answer of a peer makes a collector settle more ranks than there are.
func FuzzReplyHeader(f *testing.F) {
	values, err := wire.Marshal(bodies{{1}, {2}})
	require.NoError(f, err)
	for _, r := range []replyHeader{
		{Cast: "h", Rank: 1}, {Folded: true, Settled: shape.Interval(0, 3)},
		{Cast: "h", Folded: true, Parts: []shape.Ranks{shape.Interval(0, 1), shape.Interval(1, 1)},
			Failed: []failure{{shape.Interval(2, 1), []byte{0xa0}}}},
		{Folded: true, Parts: []shape.Ranks{shape.Interval(0, 8), shape.Interval(7, 2)}},
		{Folded: true, Parts: []shape.Ranks{shape.Interval(0, 1), shape.Interval(0, 1)}},
	} {
		ext, err := wire.Marshal(r)
		require.NoError(f, err)
		f.Add(ext, values)
		f.Add(ext, []byte{7})
	}
	const many = 10_000
	again, err := wire.Marshal(replyHeader{Folded: true,
		Parts: slices.Repeat([]shape.Ranks{shape.Interval(0, 1)}, many)})
	require.NoError(f, err)
	little, err := wire.Marshal(slices.Repeat(bodies{{}}, many))
	require.NoError(f, err)
	f.Add(again, little)
	failed, err := wire.Marshal(replyHeader{Folded: true, Failed: slices.Repeat([]failure{{}}, many)})
	require.NoError(f, err)
	f.Add(failed, []byte{})
	f.Fuzz(func(t *testing.T, ext, body []byte) {
		tl := &operation{rollout: newHome(eight(), mode(1+len(ext)%2))}
		for _, kind := range []wire.Kind{wire.Value, wire.Failure} {
			in := actor.Incoming{Envelope: wire.Envelope{Kind: kind, Ext: ext, Body: body}}
			bustest.CheckAllocBound(t, slices.Concat(ext, body), func() { _ = tl.addIncoming(in) })
			c := tl.coverage()
			require.Equal(t, 8, c.Answered+len(c.Failed)+len(c.Missing))
		}
		require.LessOrEqual(t, len(tl.takeSettled()), 8)
	})
}

// eight is a target of two hosts with four ranks each.
func eight() Target {
	e := shape.Of("host", 2).With("gpu", 4)
	return Target{Placement: Placement{Extent: e, PerHost: 4}, Region: e.Region()}
}

// oracle is a simple collector: it keeps the first report of each rank.
type oracle struct {
	fates map[int]fate
	order []int
}

func (o *oracle) settle(rank int, f fate) {
	if _, known := o.fates[rank]; rank >= 0 && rank < 8 && !known {
		o.fates[rank] = f
		o.order = append(o.order, rank)
	}
}

func TestCollector_keepsTheFirstResultOfEachRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tl, o := newHome(eight(), modeEach), &oracle{fates: map[int]fate{}}
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			rank := rapid.IntRange(-1, 8).Draw(t, "rank")
			switch rapid.SampledFrom([]string{"value", "error", "gone", "expire"}).Draw(t, "event") {
			case "value":
				tl.answer(rank, actor.Answer{Value: rank})
				o.settle(rank, answered)
			case "error":
				tl.answer(rank, actor.Answer{Err: errors.New("no")})
				o.settle(rank, failed)
			case "gone":
				tl.fail(shape.Interval(rank, 1), failed, errors.New("gone"))
				o.settle(rank, failed)
			case "expire":
				tl.expire(errors.New("late"))
				for r := range 8 {
					o.settle(r, missing)
				}
			}
			requireSame(t, o, tl)
		}
		require.Equal(t, o.order, append([]int(nil), tl.takeSettled()...))
		require.Empty(t, tl.takeSettled())
	})
}

func requireSame(t *rapid.T, o *oracle, tl *rollout) {
	require.Equal(t, 8-len(o.fates), tl.pending)
	c := tl.coverage()
	for rank := range 8 {
		want, known := o.fates[rank]
		if !known {
			want = waiting
		}
		require.Equal(t, want, tl.fates[rank], "rank %d", rank)
	}
	require.Equal(t, 8, c.Asked)
	require.Equal(t, 8, c.Answered+len(c.Failed)+len(c.Missing))
	require.Equal(t, c.Answered == 8, c.Complete())
	for _, f := range append(slices.Clone(c.Failed), c.Missing...) {
		require.Equal(t, f.Rank, f.Point.Rank())
	}
}

func TestCoverage_namesRegionsInRequestedForm(t *testing.T) {
	tl := newHome(eight(), modeEach)
	for rank := range 5 {
		tl.answer(rank, actor.Answer{})
	}
	tl.answer(5, actor.Answer{Err: &actor.Error{Code: actor.CodeStopped, Text: "stopped", Actor: "a",
		Endpoint: "e"}})
	tl.expire(&actor.Error{Code: actor.CodeDeadline, Text: "late"})
	c := tl.coverage()
	require.Equal(t, "asked 8 · answered 5 · failed 1 [host=1,gpu=1] · missing 2 [host=1,gpu=2:4]", c.String())
	err := &CoverageError{Mesh: "m", Actor: "a", Endpoint: "e", Coverage: c}
	require.EqualError(t, err, "cast e to a on m: "+c.String()+
		"; rank 5 (host=1/2,gpu=1/4): stopped; 2 ranks [host=1,gpu=2:4]: late")
	require.ErrorIs(t, err, actor.ErrStopped)
	require.ErrorIs(t, err, actor.ErrDeadline)
	require.NotErrorIs(t, err, actor.ErrPanic)

	part := eight()
	var bad error
	part.Region, bad = part.Region.Select("host=1,gpu=2:4")
	require.NoError(t, bad)
	some := newHome(part, modeEach)
	some.answer(0, actor.Answer{})
	some.answer(1, actor.Answer{Err: errors.New("no")})
	require.EqualError(t, &CoverageError{Mesh: "m", Actor: "a", Endpoint: "e", Coverage: some.coverage()},
		"cast e to a on m: asked 2 · answered 1 · failed 1 [host=1,gpu=3] · missing 0; rank 7 "+
			"(host=1/2,gpu=3/4): no")

	many := newHome(Target{Placement: Placement{Extent: shape.Of("gpu", 99), PerHost: 99},
		Region: shape.Of("gpu", 99).Region()}, modeEach)
	for rank := range 99 {
		many.answer(rank, actor.Answer{Err: fmt.Errorf("reason %d", rank)})
	}
	require.ErrorContains(t, &CoverageError{Coverage: many.coverage()}, "; and 89 more reasons")
}

func TestBuiltins_foldEachSupportedKind(t *testing.T) {
	type count int16
	for name, c := range map[string]struct{ a, b, want any }{
		nameSum: {count(3), count(4), count(7)}, nameMin: {2.5, -1.5, -1.5},
		nameMax: {uint8(3), uint8(9), uint8(9)},
		nameAll: {true, false, false}, nameAny: {true, false, true},
	} {
		got, err := builtins[name](c.a, c.b)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		_, err = builtins[name]("a", "b")
		require.ErrorContains(t, err, "reducer "+name+" folds")
		_, err = builtins[name](1, "b")
		require.ErrorContains(t, err, "reducer "+name)
		if quick := numbers[name]; quick != nil {
			_, same := quick.foldAll([]any{1, int64(2)})
			require.False(t, same, "the types differ")
		}
		_, err = builtins[name](nil, nil)
		require.Error(t, err, name)
	}
}
