package cast_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// packets counts the published casts to many, and the packets to a single member.
func packets(t *testing.T, c *cluster, rank int) (toMany, alone func() int) {
	t.Helper()
	tap := bustest.Open(t, c.server)
	var mu sync.Mutex
	seen := map[subjects.Kind]int{}
	space, id := c.client.Space(), c.place.Proc(rank)
	for kind, subject := range map[subjects.Kind]string{
		subjects.KindCast:  space.String() + ".k." + c.place.Mesh.String() + ".>",
		subjects.KindFrame: space.FramesOf(id.Process()), subjects.KindPort: space.PortsOf(id),
	} {
		_, err := tap.Data().Subscribe(subject, func(bus.Msg) {
			mu.Lock()
			defer mu.Unlock()
			seen[kind]++
		})
		require.NoError(t, err)
	}
	count := func(kinds ...subjects.Kind) func() int {
		return func() (n int) {
			require.NoError(t, tap.Data().Flush(testkit.Soon(t)))
			done := make(chan struct{})
			tap.Data().AfterReceived(func() { close(done) })
			<-done
			mu.Lock()
			defer mu.Unlock()
			for _, kind := range kinds {
				n += seen[kind]
			}
			return n
		}
	}
	return count(subjects.KindCast), count(subjects.KindFrame, subjects.KindPort)
}

// deafen stops the data pump of a rank until the returned function is called.
func (c *cluster) deafen(t *testing.T, rank int) (hear func()) {
	t.Helper()
	entered, gate := make(chan struct{}), make(chan struct{})
	_, err := c.procs[rank].Bus().Data().Subscribe("deaf", func(bus.Msg) { close(entered); <-gate })
	require.NoError(t, err)
	require.NoError(t, c.client.Bus().Data().Publish("deaf", nil))
	<-entered
	hear = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(hear)
	return hear
}

// inTurn requires that each rank got the numbers from 0 up to n, in order.
func inTurn(t *testing.T, entries []entry, ranks, n int) {
	t.Helper()
	next := map[int]int{}
	for _, e := range entries {
		require.Equal(t, next[e.rank], e.n, "rank %d", e.rank)
		next[e.rank]++
	}
	require.Len(t, next, ranks)
	for rank, got := range next {
		require.Equal(t, n, got, "rank %d", rank)
	}
}

func TestCast_keepsOrderForEveryMessageSize_CAST1(t *testing.T) {
	const rounds = 12
	c := newCluster(t, twoByFour(), 4)
	for i := range rounds {
		if i%2 == 0 { // large ones make the links busy, so that the cast goes to members by themselves
			for rank := range 8 {
				require.NoError(t, name.Send(testkit.Soon(t), c.Ref(rank).Via(c.client),
					strings.Repeat("x", []int{10, 100_000, 1 << 20}[i/2%3])))
			}
		}
		require.NoError(t, cast.Send(testkit.Soon(t), c.members, note, 2*i))
		for rank := range 8 {
			require.NoError(t, note.SendWait(testkit.Soon(t), c.Ref(rank).Via(c.client), 2*i+1))
		}
	}
	require.NoError(t, c.client.Flush(testkit.Soon(t)))
	inTurn(t, c.Take(t, 8*2*rounds), 8, 2*rounds)
	require.Zero(t, c.client.Stats().Bounced)
}

// Each link has another number in front when the cast is sent.
func TestCast_keepsOrderAfterUnevenLinkTraffic_CAST1(t *testing.T) {
	const ranks, rounds = 24, 5 // more than travel as plain runs
	c := newCluster(t, shape.Of("gpu", ranks), 8)
	for i := range rounds {
		for rank := range ranks {
			require.NoError(t, note.Send(t.Context(), c.Ref(rank).Via(c.client), 2*i))
		}
		require.NoError(t, cast.Send(t.Context(), c.members, note, 2*i+1))
	}
	inTurn(t, c.Take(t, ranks*2*rounds), ranks, 2*rounds)
}

// choke sends to a rank without a reader until a message waits for credit.
func (c *cluster) choke(t *testing.T, rank int) {
	t.Helper()
	for i := 0; ; i++ {
		require.Less(t, i, 100)
		require.NoError(t, name.Send(testkit.Soon(t), c.Ref(rank).Via(c.client), strings.Repeat("x", 200_000)))
		for _, peer := range c.client.Info().Peers {
			if peer.Process == c.place.Proc(rank).Process() && peer.Waiting > 0 {
				return
			}
		}
	}
}

func TestCast_rankWithoutCreditDelaysNoOther_CAST1(t *testing.T) {
	const n = 200
	c := newCluster(t, shape.Of("gpu", 4), 4)
	_, err := cast.Gather(testkit.Soon(t), c.members, who, actor.None{}) // all have told what they take
	require.NoError(t, err)
	require.NoError(t, c.client.Flush(testkit.Soon(t)))
	hear := c.deafen(t, 2)
	c.choke(t, 2)
	toMany, _ := packets(t, c, 2)
	for i := range n {
		require.NoError(t, cast.Send(testkit.Soon(t), c.members, note, i))
	}
	inTurn(t, c.Take(t, 3*n), 3, n)
	require.Greater(t, toMany(), n/2)
	hear()
	entries := c.Take(t, n)
	inTurn(t, entries, 1, n)
	require.Equal(t, 2, entries[0].rank)
}

func TestCast_fullOutboxNamesTheRankThatDoesNotRead_CAST1(t *testing.T) {
	c := newCluster(t, shape.Of("gpu", 4), 4)
	hear := c.deafen(t, 2)
	c.choke(t, 2)
	body := strings.Repeat("x", 200_000)
	sent, err := 0, error(nil)
	for ; err == nil; sent++ {
		require.Less(t, sent, 100, "there is a bound")
		err = cast.Send(testkit.Soon(t), c.members, name, body)
	}
	partial := new(cast.CoverageError)
	require.ErrorAs(t, err, &partial)
	require.Len(t, partial.Coverage.Failed, 1)
	require.Equal(t, 2, partial.Coverage.Failed[0].Rank)
	require.ErrorIs(t, partial.Coverage.Failed[0].Err, actor.ErrBacklog)
	require.Equal(t, 3, partial.Coverage.Answered)
	hear()
	require.NoError(t, c.client.Flush(testkit.Soon(t)))
}

func TestCast_largeCastReachesEachRankOnce_CAST1(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	toMany, alone := packets(t, c, 3)
	body := strings.Repeat("x", 1<<20)
	got, err := cast.Gather(testkit.Soon(t), c.members, name, body)
	require.NoError(t, err)
	for rank, text := range got.Values() {
		require.Equal(t, fmt.Sprint(rank), text[len(body):])
	}
	shared := toMany()
	require.Positive(t, shared, "parts were published")
	require.GreaterOrEqual(t, shared+alone(), 5, "on a busy machine, a process may get some by itself")
	for pt, r := range cast.Stream(testkit.Soon(t), c.members, name, body) {
		require.NoError(t, r.Err)
		require.Equal(t, fmt.Sprint(pt.Rank()), r.Value[len(body):])
	}
	folded, err := cast.Reduce(testkit.Soon(t), c.members, name, body, concat)
	require.NoError(t, err)
	require.Len(t, folded, 8*(len(body)+1)+7)
}

func TestCast_directCopyKnowsItsPointAndSender_CAST1(t *testing.T) {
	c := newCluster(t, twoByFour(), 4)
	hear := c.deafen(t, 6)
	c.choke(t, 6)
	require.NoError(t, cast.Send(testkit.Soon(t), c.in(t, "gpu=1:3"), note, 7))
	c.Take(t, 3)
	hear()
	require.Equal(t, []entry{{6, 7, "host=1/2,gpu=1/2", 3, c.client.ID().Actor("client").String()}},
		c.Take(t, 1))
}

// A rank with children in the tree (4), and one of its children.
func TestCast_rankWithoutCreditIsAskedOnceItReads_CAST4(t *testing.T) {
	for _, rank := range []int{4, 5} {
		c := newCluster(t, twoByFour(), 4)
		hear := c.deafen(t, rank)
		c.choke(t, rank)
		gathered := make(chan error, 2)
		go func() {
			_, err := cast.Gather(testkit.Soon(t), c.members, note, 7)
			gathered <- err
		}()
		go func() {
			sum, err := cast.Reduce(testkit.Soon(t), c.members, who, actor.None{}, cast.Sum[int]())
			if err == nil && sum != 28 {
				err = fmt.Errorf("a sum of %d", sum)
			}
			gathered <- err
		}()
		for _, e := range c.Take(t, 7) {
			require.NotEqual(t, rank, e.rank)
		}
		answered := 0
		for pt, r := range cast.Stream(testkit.Soon(t), c.members, who, actor.None{}) {
			require.NoError(t, r.Err)
			answered++
			require.Equal(t, answered == 8, pt.Rank() == rank, "it is the last")
			if answered == 7 {
				require.Empty(t, gathered)
				hear()
			}
		}
		require.Equal(t, 8, answered)
		require.NoError(t, <-gathered)
		require.NoError(t, <-gathered)
	}
}
