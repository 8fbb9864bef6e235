package link_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
)

// gatherers are two nodes in virtual time, a sender and a receiver.
type gatherers struct {
	t    *testing.T
	a, b *node
	to   *link.Target
}

func coalescer(t *testing.T, test func(g *gatherers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		g := &gatherers{t: t, a: newNode(t, srv, "a", link.Config{}), b: newNode(t, srv, "b", link.Config{})}
		g.to = g.a.Target(g.b.to("x"))
		time.Sleep(time.Second) // virtual; all is quiet
		test(g)
	})
}

func (g *gatherers) send(n int, by func(*link.Target, string) error) {
	g.t.Helper()
	for range n {
		require.NoError(g.t, by(g.to, "hello"))
	}
}

func (g *gatherers) plain(to *link.Target, text string) error {
	return g.a.Send(to, say(text), link.Mark{}, 0)
}

func (g *gatherers) gather(to *link.Target, text string) error {
	return g.a.SendBatched(to, say(text), link.Mark{}, 0)
}

// counts counts the received messages and their packets, without a pause in virtual time.
func (g *gatherers) counts() [2]int {
	synctest.Wait()
	return [2]int{len(g.b.letters()), int(g.a.Stats().Sent)}
}

func TestCoalesce_sendsAtOnceOutsideABatch_LINK16(t *testing.T) {
	coalescer(t, func(g *gatherers) {
		for n := range 3 {
			g.send(1, g.plain)
			require.Equal(t, [2]int{n + 1, n + 1}, g.counts())
		}
	})
}

func TestCoalesce_batchRepliesShareOnePacket_LINK16(t *testing.T) {
	coalescer(t, func(g *gatherers) {
		g.send(5, g.gather)
		require.Equal(t, [2]int{0, 0}, g.counts())
		g.a.FlushBatch()
		require.Equal(t, [2]int{5, 1}, g.counts())
	})
}

func TestCoalesce_nestedBatchesShareOnePacket_LINK16(t *testing.T) {
	coalescer(t, func(g *gatherers) {
		g.a.BeginBatch()
		g.a.BeginBatch()
		g.send(2, g.plain)
		g.a.EndBatch()
		g.send(2, g.plain)
		require.Equal(t, [2]int{0, 0}, g.counts(), "one has not come")
		g.a.EndBatch()
		require.Equal(t, [2]int{4, 1}, g.counts())
	})
}

func TestCoalesce_waitIsBounded_LINK16(t *testing.T) {
	coalescer(t, func(g *gatherers) {
		g.a.BeginBatch()
		g.send(2, g.plain)
		time.Sleep(199 * time.Microsecond)
		require.Equal(t, [2]int{0, 0}, g.counts())
		time.Sleep(time.Microsecond)
		require.Equal(t, [2]int{2, 1}, g.counts())
		g.send(1, g.gather)
		time.Sleep(200 * time.Microsecond)
		require.Equal(t, [2]int{3, 2}, g.counts(), "nor is a sender in a batch")
		g.a.EndBatch()
	})
}
