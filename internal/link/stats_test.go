package link_test

import (
	"fmt"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

func TestInfos_showLinkPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
		require.Empty(t, a.Infos(10))
		to := a.Target(r.to("x"))
		require.NoError(t, a.Send(to, say("hello"), link.Mark{}, 0))
		_, h, _ := r.packetOf(t)
		size := int64(say("hello").Size())
		i := a.Infos(10)[0]
		require.Equal(t, r.id, i.Process)
		require.Equal(t, []uint64{h.Seq, 0}, []uint64{i.Sent, i.Acked})
		require.Equal(t, []any{1, 0, false, time.Duration(0)}, []any{i.InFlight, i.Waiting, i.Heard, i.RTT})
		require.Less(t, i.Credit, int64(32<<10))
		require.Greater(t, i.Credit, 32<<10-size-300)

		time.Sleep(30 * time.Millisecond) // virtual
		r.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: h.Seq, ReceivedBytes: 1,
			Window: 1000}})
		synctest.Wait()
		i = a.Infos(10)[0]
		require.Equal(t, []uint64{h.Seq, h.Seq}, []uint64{i.Sent, i.Acked})
		require.Equal(t, []any{0, 0, true}, []any{i.InFlight, i.Waiting, i.Heard})
		require.InDelta(t, 30*time.Millisecond, i.RTT, 1)
		require.Less(t, i.Credit, int64(1000))

		for range 10 { // one leaves, for the others there is no credit
			require.NoError(t, a.Send(to, &wire.Envelope{Kind: wire.Message, Sender: "s", Body: make([]byte, 20_000)},
				link.Mark{}, 0))
		}
		synctest.Wait()
		i = a.Infos(10)[0]
		require.Less(t, i.Credit, int64(1000))
		require.Greater(t, i.Waiting, 100_000)
		require.Zero(t, i.Retransmitted)
	})
}

func TestInfos_countResendsAndDuplicates(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
	require.NoError(t, a.Send(a.Target(r.to("x")), say("hello"), link.Mark{}, 0))
	_, h, _ := r.packetOf(t)
	r.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Missing: []uint64{0, h.Seq}})
	_, again, _ := r.packetOf(t)
	require.Equal(t, h.Seq, again.Seq)
	require.EqualValues(t, 1, a.Infos(1)[0].Retransmitted)
	require.EqualValues(t, 1, a.Infos(1)[0].Packets, "once")
	require.EqualValues(t, 1, a.Stats().Retransmitted)
	for range 3 {
		r.publishTo(t, a, packet(wire.Head{Seq: 5}, texts("hello")...))
	}
	testkit.Until(t, "all came", func() bool { return a.Infos(1)[0].Duplicates == 2 })
	i := a.Infos(1)[0]
	require.EqualValues(t, 5, i.Received)
	require.Zero(t, i.Gaps)
	require.Empty(t, i.StallReason)
	require.Len(t, a.letters(), 1)
}

func TestInfos_nameTheMissingPacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
		time.Sleep(time.Minute) // virtual
		r.publishTo(t, a, packet(wire.Head{Seq: 2}, texts("0")...))
		r.publishTo(t, a, packet(wire.Head{Seq: 7, PrevSeq: 4}, texts("2")...))
		r.publishTo(t, a, packet(wire.Head{Seq: 8, PrevSeq: 7}, texts("3")...))
		synctest.Wait()
		time.Sleep(3 * time.Second)
		i := a.Infos(1)[0]
		require.Equal(t, "packets after 2 up to 4 are missing for 3s; 2 later ones wait", i.StallReason)
		require.EqualValues(t, 2, i.Received)
		require.EqualValues(t, 1, i.Gaps)
		asked := len(r.control)
		require.Greater(t, asked, 3, "it is asked for again")
		require.Less(t, asked, 100)
		r.publishTo(t, a, packet(wire.Head{Seq: 4, PrevSeq: 2}, texts("1")...))
		synctest.Wait()
		i = a.Infos(1)[0]
		require.Empty(t, i.StallReason)
		require.EqualValues(t, 8, i.Received)
		require.Equal(t, []string{"0", "1", "2", "3"}, bodies(a.letters()))
	})
}

func TestInfos_nameASilentReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, r := newNode(t, srv, "a", link.Config{}), newRaw(t, srv, "raw")
		time.Sleep(time.Minute) // virtual
		for range 2 {
			require.NoError(t, a.Send(a.Target(r.to("x")), say("hello"), link.Mark{}, 0))
			time.Sleep(500 * time.Millisecond)
		}
		require.Empty(t, a.Infos(1)[0].StallReason, "it may be slow")
		time.Sleep(2 * time.Second)
		require.Equal(t, "packets after 0 up to 2 are not acknowledged; the peer is silent for 3s",
			a.Infos(1)[0].StallReason)
		r.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: 2, Window: 1000}})
		synctest.Wait()
		require.Empty(t, a.Infos(1)[0].StallReason)
	})
}

func TestInfos_nameUnconfirmedRefusals(t *testing.T) {
	srv := bustest.Server(t)
	a, r := newNode(t, srv, "a", link.Config{MaxRefusals: 1}), newRaw(t, srv, "raw")
	a.refuses = func(letter) []byte { return []byte("no") }
	r.publishTo(t, a, packet(wire.Head{Seq: 1}, texts("x")...))
	testkit.Until(t, "it is refused",
		func() bool { all := a.Infos(1); return len(all) > 0 && all[0].StallReason != "" })
	require.Equal(t, "packets after 1 wait until their sender confirms 1 refusals", a.Infos(1)[0].StallReason)
}

func TestInfos_showWhyAProcessIsDead(t *testing.T) {
	srv := bustest.Server(t)
	a, b := newNode(t, srv, "a", link.Config{}), newNode(t, srv, "b", link.Config{})
	require.NoError(t, a.Send(a.Target(b.to("x")), say("hello"), link.Mark{}, 0))
	require.NoError(t, a.Flush(testkit.Soon(t)))
	require.Empty(t, a.Infos(1)[0].DeadReason)
	a.die(b.id, fmt.Errorf("gone"))
	a.die(b.id, fmt.Errorf("again"))
	require.Equal(t, "gone", a.Infos(1)[0].DeadReason)
}

func TestInfos_listRecentPeersByName(t *testing.T) {
	a := newNode(t, bustest.Server(t), "a", link.Config{})
	var all []subjects.ProcessID
	for i := range 20 {
		id := newHost(t, fmt.Sprint("peer", i%7)).Proc()
		all = append(all, id.Process())
		a.Target(id.Actor("x").Port("in"))
	}
	newest := map[string]bool{}
	for _, id := range all[15:] {
		newest[id.String()] = true
	}
	var names []string
	for _, i := range a.Infos(5) {
		names = append(names, i.Process.String())
		require.True(t, newest[i.Process.String()])
	}
	require.Len(t, names, 5)
	require.True(t, sort.StringsAreSorted(names))
	require.Len(t, a.Infos(1000), 20)
}
