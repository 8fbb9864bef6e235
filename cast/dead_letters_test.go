package cast_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var (
	scribeType = actor.NewType[*scribe, actor.None]("scribe")
	large      = actor.NewEndpoint[*scribe, []byte, actor.None]("large")
	small      = actor.NewEndpoint[*scribe, int, actor.None]("small")
)

// scribe reports its called endpoints.
type scribe struct{ said chan string }

func (s *scribe) large(*actor.Context, []byte) (actor.None, error) {
	s.said <- "large"
	return actor.None{}, nil
}
func (s *scribe) small(*actor.Context, int) (actor.None, error) {
	s.said <- "small"
	return actor.None{}, nil
}

// poster casts, as an actor, and receives its dead letters.
type poster struct{ back chan actor.DeadLetter }

var (
	posterType = actor.NewType[*poster, actor.None]("poster")
	order      = actor.NewEndpoint[*poster, scribes, actor.None]("order")
)

func (p *poster) order(ctx *actor.Context, to scribes) (actor.None, error) {
	return actor.None{}, cast.Send(ctx, to, small, 1)
}

func (p *poster) HandleDeadLetter(_ *actor.Context, r actor.DeadLetter) error {
	p.back <- r
	return nil
}

type scribes struct{ members }

func (s scribes) Ref(rank int) actor.Ref[*scribe] {
	return actor.RefOf[*scribe](s.place.Proc(rank).Actor("members"))
}

// pair is two ranks in one process, and a client.
func pair(t *testing.T) (scribes, *actor.Proc, map[int]chan string, chan actor.DeadLetter) {
	t.Helper()
	server := bustest.Server(t)
	return pairOf(t, testproc.MeshID(t, "mesh"), func(string) *bus.Bus { return bustest.Open(t, server) })
}

// pairOf is pair with connections of the users ranks and client.
func pairOf(
	t *testing.T, id subjects.MeshID, connect func(user string) *bus.Bus,
) (scribes, *actor.Proc, map[int]chan string, chan actor.DeadLetter) {
	t.Helper()
	back := make(chan actor.DeadLetter, 100)
	e := shape.Of("gpu", 2)
	place := cast.Placement{Mesh: id, Extent: e, PerHost: 2, PerProcess: 2}
	said := map[int]chan string{}
	begin := func(id subjects.ProcID, first *actor.Proc, m *cast.Member) *actor.Proc {
		rank := int(id.Rank)
		said[rank] = make(chan string, 1000)
		mine := said[rank]
		o := testproc.Options{Options: actor.Options{ID: id, Lead: first}, Member: m}
		switch {
		case m == nil:
			o.Bus = connect("client")
		case first == nil:
			o.Bus = connect("ranks")
		}
		p, _ := testproc.Start(t, nil, o,
			scribeType.Define(func(*actor.Context, actor.None) (*scribe, error) { return &scribe{mine}, nil },
				large.Handle((*scribe).large), small.Handle((*scribe).small)),
			posterType.Define(func(*actor.Context, actor.None) (*poster, error) { return &poster{back}, nil },
				order.Handle((*poster).order)))
		if m != nil {
			_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "scribe", Name: "members", Params: actor.None{}})
			require.NoError(t, err)
		}
		return p
	}
	first := begin(place.Proc(0), nil, &cast.Member{Placement: place, Rank: 0})
	begin(place.Proc(1), first, &cast.Member{Placement: place, Rank: 1})
	ranks := map[int]chan string{0: said[0], 1: said[1]}
	client := begin(subjects.ProcID{}, nil, nil)
	return scribes{members{via: client, place: place, region: e.Region()}}, client, ranks, back
}

// A message to a rank must not overtake a cast in parts to it (CAST-1).
func TestCast_largeCastKeepsOrderWithinAProcess_CAST1(t *testing.T) {
	t.Parallel()
	to, client, said, _ := pair(t)
	for rank := range 2 {
		for range 20 {
			require.NoError(t, cast.Send(t.Context(), to, large, make([]byte, 3<<20)))
			require.NoError(t, small.Send(t.Context(), to.Ref(rank).Via(client), 1))
			require.NoError(t, client.Flush(t.Context()))
			require.Equal(t, "large", <-said[rank], "rank %d", rank)
			require.Equal(t, "small", <-said[rank], "rank %d", rank)
			<-said[1-rank]
		}
	}
}

// DeadLetter.Reason names the target and the endpoint, for a cast as for a message.
func TestSend_returnedCastNamesItsMembers(t *testing.T) {
	t.Parallel()
	to, client, _, back := pair(t)
	e := shape.Of("gpu", 16) // so many processes that there is one packet for all
	to.place, to.region = cast.Placement{Mesh: testproc.MeshID(t, "nobody"), Extent: e, PerHost: 16}, e.Region()
	ref, err := actor.Spawn(t.Context(), client, posterType, "poster", actor.None{})
	require.NoError(t, err)
	_, err = order.Call(t.Context(), ref, to)
	require.NoError(t, err)
	ctx := testkit.Soon(t)
	require.NoError(t, client.Flush(ctx))
	select {
	case r := <-back:
		require.Contains(t, r.Reason.Actor, to.place.Mesh.String())
		require.Contains(t, r.Reason.Actor, "/members")
		require.Equal(t, "small", r.Reason.Endpoint)
	case <-ctx.Done():
		t.Fatal("it did not come back")
	}
}

// A missing process has two ranks: each yields one dead letter.
func TestSend_returnedCastYieldsOneDeadLetterPerRank(t *testing.T) {
	t.Parallel()
	to, client, _, back := pair(t)
	for _, processes := range []int{1, 16} { // each alone, and one packet for all
		e := shape.Of("gpu", 2*processes)
		to.place, to.region = cast.Placement{Mesh: testproc.MeshID(t, "nobody"), Extent: e, PerHost: 2 * processes,
			PerProcess: 2}, e.Region()
		requireBack(t, client, to, back, allOf(e)...)
	}
	region, err := to.region.Slice("gpu", 1, 31) // half of the first process, and of the last
	require.NoError(t, err)
	to.region = region
	requireBack(t, client, to, back, allOf(to.place.Extent)[1:31]...)
}

func allOf(e shape.Extent) (ranks []int) {
	for rank := range e.NumRanks() {
		ranks = append(ranks, rank)
	}
	return ranks
}

// requireBack casts with Send, as an actor, and requires a dead letter for some ranks, once each.
func requireBack(t *testing.T, client *actor.Proc, to scribes, back chan actor.DeadLetter, ranks ...int) {
	t.Helper()
	ref, err := actor.Spawn(t.Context(), client, posterType, "poster", actor.None{})
	require.NoError(t, err)
	_, err = order.Call(t.Context(), ref, to)
	require.NoError(t, err)
	ctx := testkit.Soon(t)
	require.NoError(t, client.Flush(ctx))
	var got, want []string
	for _, rank := range ranks {
		want = append(want, to.place.Proc(rank).Actor("members").String())
		select {
		case r := <-back:
			got = append(got, r.Reason.Actor)
			require.Equal(t, "small", r.Reason.Endpoint)
		case <-ctx.Done():
			t.Fatalf("of %d ranks only %q came back", len(ranks), got)
		}
	}
	require.ElementsMatch(t, want, got)
	require.Empty(t, back)
}

// A rank known to be dead gets no message, so no handler can have run it.
func TestSend_rankKnownDeadIsUndeliverable_CAST4(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	_, err := cast.Gather(t.Context(), c.members, who, actor.None{}) // it follows the mesh
	require.NoError(t, err)
	c.publishEnd(5)
	require.Eventually(t, func() bool {
		_, known := c.client.Members().Down(c.place.Proc(5))
		return known
	}, 10*time.Second, time.Millisecond)
	_, err = cast.Gather(t.Context(), c.members, who, actor.None{})
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.Len(t, partial.Coverage.Failed, 1)
	var why *actor.Error
	require.ErrorAs(t, partial.Coverage.Failed[0].Err, &why)
	require.True(t, why.Undeliverable(), "%v", why)
	require.False(t, why.Indeterminate(), "%v", why)
}

// The server denies its user both the cast and the repeated messages to single processes.
func TestSend_aDeniedCastIsReturnedAndCounted(t *testing.T) {
	t.Parallel()
	id, conf := testproc.MeshID(t, "mesh"), filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(conf, []byte(`authorization { users = [
		{ user: ranks, password: secret }
		{ user: client, password: secret
		  permissions { publish: { deny: "castnet.v1.default.*.`+id.String()+`.>" } } }
	] }`), 0o600))
	server := bustest.Server(t, func(o *embed.Options) { o.ConfigFile = conf })
	to, client, _, back := pairOf(t, id, func(user string) *bus.Bus {
		return bustest.Open(t, server, func(o *bus.Options) { o.User, o.Password = user, "secret" })
	})
	_, err := cast.Gather(testkit.Soon(t), to, small, 1)
	require.ErrorIs(t, err, actor.ErrDenied)
	var partial *cast.CoverageError
	require.ErrorAs(t, err, &partial)
	require.NotZero(t, client.Stats().Links.Denied)

	from, err := actor.Spawn(t.Context(), client, posterType, "poster", actor.None{})
	require.NoError(t, err)
	_, err = order.Call(testkit.Soon(t), from, to)
	require.NoError(t, err)
	r := testkit.Next(t, back)
	require.ErrorIs(t, r.Reason, actor.ErrDenied)
	require.ErrorContains(t, r.Reason, id.String())
}
