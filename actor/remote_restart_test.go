package actor_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
)

// reconnects waits until procs have lost their server and found it again.
func reconnects(t *testing.T, again func(), ps ...*actor.Proc) {
	t.Helper()
	gone := func(p *actor.Proc) bool { return p.Bus().Data().URL() == "" && p.Bus().Control().URL() == "" }
	testkit.Until(t, "it is gone", func() bool { return gone(ps[0]) && gone(ps[1]) })
	again()
	back := func(p *actor.Proc) bool { return p.Bus().Data().URL() != "" && p.Bus().Control().URL() != "" }
	testkit.Until(t, "it is back", func() bool { return back(ps[0]) && back(ps[1]) })
}

func TestLink_serverRestartLosesNoMessage_DEL3(t *testing.T) {
	t.Parallel()
	at := bustest.NewAddress(t)
	srv := listen(t, at)
	a := startOn(t, dial(t, at), newHost(t, "left").Proc(), link.Config{}, ledgers())
	b := startOn(t, dial(t, at), newHost(t, "right").Proc(), link.Config{}, ledgers())
	there, heard := newLedger(t, b, a, actor.Mailbox(actor.Unbounded))
	here, read := newLedger(t, a, b, actor.Mailbox(actor.Unbounded))
	ctx, cancel := context.WithTimeout(t.Context(), 3*testkit.Patience)
	defer cancel()
	var isOver atomic.Bool
	var wg sync.WaitGroup
	sent := map[string]*atomic.Int64{"there": {}, "here": {}, "asked": {}}
	posts := func(to actor.Ref[*Ledger], by string,
		verb func(context.Context, actor.Ref[*Ledger], entry) error) {
		wg.Go(func() {
			for i := 0; !isOver.Load(); i++ {
				if err := verb(ctx, to, entry{By: by, N: i, Pad: make([]byte, 1_000)}); err != nil {
					t.Errorf("%s: message %d: %v", by, i, err)
					return
				}
				sent[by].Add(1)
			}
		})
	}
	posts(there, "there", enter.SendWait)
	posts(here, "here", enter.SendWait)
	posts(there, "asked", func(ctx context.Context, to actor.Ref[*Ledger], e entry) error {
		return second(enter.Call(ctx, to, e))
	})
	resent := func() (n uint64) {
		for _, p := range []*actor.Proc{a, b} {
			for _, peer := range p.Info().Peers {
				n += peer.Retransmitted
			}
		}
		return n
	}
	for restarts := 0; restarts < 2 || restarts < 10 && resent() == 0; restarts++ {
		before := heard.count()
		testkit.Until(t, "messages flow", func() bool { return heard.count() > before+300 || t.Failed() })
		at.Stop(srv)
		reconnects(t, func() { srv = listen(t, at) }, a, b)
	}
	isOver.Store(true)
	wg.Wait()
	require.NoError(t, a.Flush(ctx))
	require.NoError(t, b.Flush(ctx))
	testkit.Until(t, "all are handled", func() bool {
		return int64(heard.count()) == sent["there"].Load()+sent["asked"].Load() &&
			int64(read.count()) == sent["here"].Load()
	})
	heard.inOrder(t)
	read.inOrder(t)
	require.NotZero(t, resent(), "something was lost on the way, and came all the same")
	require.Zero(t, a.Stats().Bounced+b.Stats().Bounced)
	for _, p := range []*actor.Proc{a, b} {
		testkit.Until(t, "the grant of credit is acknowledged", func() bool {
			peer := p.Info().Peers[0]
			return peer.Sent == peer.Acked && peer.StallReason == ""
		})
	}
}

func TestSend_withoutAServerArrivesAfterReconnect_DEL1(t *testing.T) {
	t.Parallel()
	at := bustest.NewAddress(t)
	srv := listen(t, at)
	a := startOn(t, dial(t, at), newHost(t, "left").Proc(), link.Config{}, ledgers())
	b := startOn(t, dial(t, at), newHost(t, "right").Proc(), link.Config{}, ledgers())
	ref, book := newLedger(t, b, a)
	require.NoError(t, second(enter.Call(testkit.Soon(t), ref, entry{By: "me"})))
	at.Stop(srv)
	asked := make(chan error, 1)
	reconnects(t, func() {
		for i := 1; i <= 100; i++ {
			require.NoError(t, enter.Send(t.Context(), ref, entry{By: "me", N: i}))
		}
		go func() { asked <- second(enter.Call(testkit.Soon(t), ref, entry{By: "other"})) }()
		require.Equal(t, 1, book.count())
		listen(t, at)
	}, a, b)
	require.NoError(t, testkit.Next(t, asked))
	require.NoError(t, a.Flush(testkit.Soon(t)))
	testkit.Until(t, "all are handled", func() bool { return book.count() == 102 })
	book.inOrder(t)
	require.Zero(t, a.Stats().Bounced)
	for _, p := range []*actor.Proc{a, b} { // before the server stops
		require.NoError(t, p.Close(testkit.Soon(t)))
	}
}
