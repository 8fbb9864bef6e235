package actor_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// watching makes an actor monitor another, and returns its Downs and the cancel.
func watching(t *testing.T, ref actor.Ref[*Box], id subjects.ActorID) (downs <-chan actor.Down,
	cancel func()) {
	t.Helper()
	ch := make(chan actor.Down, 8)
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, b *Box) (_ int64, err error) {
		cancel, err = ctx.Monitor(id, func(ctx *actor.Context, d actor.Down) {
			b.n++ // on the turn: the race detector watches n
			ch <- d
		})
		return 0, err
	})
	require.NoError(t, err)
	return ch, cancel
}

// awaitIdle waits until an actor has handled its earlier messages.
func awaitIdle(t *testing.T, refs ...actor.Ref[*Box]) {
	t.Helper()
	for _, ref := range refs {
		_, err := add.Call(t.Context(), ref, 0)
		require.NoError(t, err)
	}
}

// requireNoWatches requires that a proc waits for nothing.
func requireNoWatches(t *testing.T, ps ...*actor.Proc) {
	t.Helper()
	for _, p := range ps {
		ports, calls := p.Waiting()
		require.Zero(t, ports+calls)
	}
}

func TestMonitor_reportsTheEndOnce_ACT8(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		via := ref.Bound()
		watcher := spawn(t, via)
		for want, end := range map[string]func(string) <-chan struct{}{
			"the actor stopped: enough": func(
				name string) <-chan struct{} {
				return home.StopActor(name, "enough")
			},
			"the actor failed: killed: enough": func(
				name string) <-chan struct{} {
				return home.KillActor(name, "enough")
			},
			"the actor failed: fail: enough": func(name string) <-chan struct{} {
				require.NoError(t, fail.Send(t.Context(), actor.RefOf[*Box](home.ID().Actor(name)).Via(home), "enough"))
				return home.Done(name)
			},
		} {
			other := spawn(t, home)
			id := other.ID()
			downs, _ := watching(t, watcher, id)
			clients := make(chan actor.Down, 2)
			_, err := via.Monitor(id, func(d actor.Down) { clients <- d })
			require.NoError(t, err)
			testkit.Next(t, end(id.Name))
			for _, ch := range []<-chan actor.Down{downs, clients} {
				d := testkit.Next(t, ch)
				require.Equal(t, id, d.Actor)
				require.EqualError(t, d.Reason, id.String()+": "+want)
				require.Equal(t, strings.Contains(want, "failed"), d.Failed())
				require.Equal(t, []string{"actor", id.Name, "box"},
					[]string{d.Reason.Event.Kind, d.Reason.Event.Actor, d.Reason.Event.Type})
			}
			late, _ := watching(t, watcher, id)
			require.EqualError(t, testkit.Next(t, late).Reason, id.String()+": "+want, "also when it is gone already")
			awaitIdle(t, watcher)
			require.Empty(t, downs)
			require.Empty(t, late)
			require.Empty(t, clients)
		}
		never, _ := watching(t, watcher, home.ID().Actor("never"))
		d := testkit.Next(t, never)
		require.ErrorIs(t, d.Reason, actor.ErrNoActor)
		require.EqualError(t, d.Reason, home.ID().String()+"/never: proc "+home.ID().String()+" has no such actor")
		require.True(t, d.Failed())
		requireNoWatches(t, via, home)
	})
}

func TestMonitor_reportsAnUnknownProc_ACT8(t *testing.T) {
	t.Parallel()
	a := alone(t)
	nobody, err := subjects.NewHostID("nobody")
	require.NoError(t, err)
	id := nobody.Proc().Actor("x")
	downs, _ := watching(t, spawn(t, a), id)
	d := testkit.Next(t, downs)
	require.ErrorIs(t, d.Reason, actor.ErrNoProc)
	require.EqualError(t, d.Reason, id.String()+": no responders: proc "+id.Proc.String()+
		" does not exist or is gone")
	requireNoWatches(t, a)
	require.Zero(t, a.Stats().Bounced)
}

func TestMonitor_reportsADeadProc_ACT8(t *testing.T) {
	a, b := two(t)
	ref, watcher := spawn(t, b), spawn(t, a)
	downs, _ := watching(t, watcher, ref.ID())
	a.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: b.ID().Mesh.String(),
		Reason: "killed by signal 9"})
	d := testkit.Next(t, downs)
	require.ErrorIs(t, d.Reason, actor.ErrProcDead)
	require.EqualError(t, d.Reason, ref.ID().String()+": the proc is gone: killed by signal 9")
	again, _ := watching(t, watcher, ref.ID())
	require.ErrorIs(t, testkit.Next(t, again).Reason, actor.ErrProcDead, "also when that is known")
	awaitIdle(t, watcher)
	require.Empty(t, downs)
	requireNoWatches(t, a)
}

func TestMonitor_reportsABrokenLink_ACT8(t *testing.T) {
	srv := bustest.Server(t)
	a, b, f := start(t, srv, "left"), start(t, srv, "right"), newForger(t, srv)
	ref, watcher := spawn(t, b), spawn(t, a)
	downs, _ := watching(t, watcher, ref.ID())
	_, err := add.Call(t.Context(), ref.Via(a), 1)
	require.NoError(t, err)
	f.refuseLink(t, b, a, a.Info().Peers[0].Sent)
	require.ErrorIs(t, testkit.Next(t, downs).Reason, actor.ErrLinkBroken)
	requireNoWatches(t, a)
}

// Both connections may bring the end at one moment, and its owner cancel the watch at the same.
func TestMonitor_reportsOnceAndNeverAfterCancel_ACT8(t *testing.T) {
	var told int
	end, quit := actor.Monitoring(func(actor.Down) { told++ })
	end(actor.Down{})
	end(actor.Down{OutOfOrder: true})
	require.Equal(t, 1, told)
	require.False(t, quit(), "it has ended")
	end, quit = actor.Monitoring(func(actor.Down) { told++ })
	require.True(t, quit())
	end(actor.Down{})
	require.Equal(t, 1, told)
}

func TestMonitor_cancelledMonitorsLeaveNoState(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		via := ref.Bound()
		watcher := spawn(t, via)
		_, err := do.Call(t.Context(), watcher, func(ctx *actor.Context, _ *Box) (int64, error) {
			for range 1000 {
				cancel, err := ctx.Monitor(ref.ID(),
					func(*actor.Context, actor.Down) { require.Fail(t, "it was cancelled") })
				if err != nil {
					return 0, err
				}
				cancel()
				cancel()
			}
			return 0, nil
		})
		require.NoError(t, err)
		requireNoWatches(t, via)
		awaitIdle(t, ref) // on the same link, after the last word
		require.Zero(t, home.Watched(ref.ID().Name)+via.Watched(watcher.ID().Name))
		testkit.Next(t, home.StopActor(ref.ID().Name, "enough"))
		awaitIdle(t, watcher)
	})
}

func TestMonitor_reportedEndsLeaveNoState(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		via := ref.Bound()
		watcher := spawn(t, via)
		for range 100 {
			other := spawn(t, home)
			downs, _ := watching(t, watcher, other.ID())
			testkit.Next(t, home.StopActor(other.ID().Name, "enough"))
			testkit.Next(t, downs)
		}
		require.Zero(t, via.Watched(watcher.ID().Name))
		requireNoWatches(t, via, home)
	})
}

func TestMonitor_endedWatchersLeaveNoState(t *testing.T) {
	places(t, func(t *testing.T, ref actor.Ref[*Box], home *actor.Proc) {
		via := ref.Bound()
		watcher := spawn(t, via)
		downs, _ := watching(t, watcher, ref.ID())
		testkit.Until(t, "watched", func() bool { return home.Watched(ref.ID().Name) == 1 })
		testkit.Next(t, via.KillActor(watcher.ID().Name, "now"))
		testkit.Until(t, "forgotten", func() bool { return home.Watched(ref.ID().Name) == 0 })
		requireNoWatches(t, via)
		testkit.Next(t, home.StopActor(ref.ID().Name, "enough"))
		require.Empty(t, downs)
	})
}

func TestMonitor_cancelOnTheTurnSuppressesAPendingReport(t *testing.T) {
	p := alone(t)
	ref, other := spawn(t, p), spawn(t, p)
	_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		cancel, err := ctx.Monitor(other.ID(),
			func(*actor.Context, actor.Down) { require.Fail(t, "it was cancelled") })
		if err != nil {
			return 0, err
		}
		<-p.StopActor(other.ID().Name, "enough") // it is told, but not heard yet
		cancel()
		return 0, nil
	})
	require.NoError(t, err)
	awaitIdle(t, ref)
}

func TestMonitor_deadProcsMonitorsAreRemoved(t *testing.T) {
	a, b := two(t)
	ref := spawn(t, b)
	_, err := a.Monitor(ref.ID(), func(actor.Down) {})
	require.NoError(t, err)
	awaitIdle(t, ref.Via(a))
	require.Equal(t, 1, b.Watched(ref.ID().Name))
	b.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: a.ID().Mesh.String()})
	require.Zero(t, b.Watched(ref.ID().Name))
}

func TestMonitor_refusesInvalidArguments(t *testing.T) {
	srv := bustest.Server(t)
	b, f := start(t, srv, "right"), newForger(t, srv)
	ref := spawn(t, b)
	_, err := b.Monitor(subjects.ActorID{}, func(actor.Down) {})
	require.ErrorIs(t, err, actor.ErrInvalid)
	require.ErrorContains(t, err, "want the ID of an actor")
	peer, err := subjects.NewHostID("peer")
	require.NoError(t, err)
	// or the actor would be known as missing
	_, err = f.Data().Subscribe(f.space.PortsOf(peer.Proc()), func(bus.Msg) {})
	require.NoError(t, err)
	require.NoError(t, f.Data().Flush(testkit.Soon(t)))
	from, reply := senderOf(peer.Proc()), peer.Proc().Actor("x").Port("_0z").String()
	body, err := wire.Marshal(actor.None{})
	require.NoError(t, err)
	ask := func(n uint64, port, reply string, body []byte) {
		f.send(t, ref.ID().Port(port), from,
			packet(n, n-1, wire.Envelope{Kind: wire.Message, Sender: "x", Reply: reply, Body: body}))
	}
	refused := func(n uint64) {
		t.Helper()
		testkit.Until(t, "refused", func() bool { return b.Stats().Undeliverable == n })
	}
	ask(1, "_down", reply, body)
	ask(2, "_down", "", body) // nobody to tell
	refused(1)
	ask(3, "_down", reply, body) // the same again
	refused(2)
	ask(4, "_forget", "", []byte{0xff})
	refused(3)
	ask(5, "_link", "", []byte{0xff})
	refused(4)
	stranger, err := wire.Marshal(ref.ID()) // says another proc than its own
	require.NoError(t, err)
	ask(6, "_link", "", stranger)
	refused(5)
	ask(7, "_nosuch", "", body)
	refused(6)
	require.Equal(t, 1, b.Watched(ref.ID().Name))
	other, err := wire.Marshal(reply)
	require.NoError(t, err)
	thief, err := subjects.NewHostID("thief")
	require.NoError(t, err)
	f.send(t, ref.ID().Port("_forget"), senderOf(thief.Proc()),
		packet(1, 0, wire.Envelope{Kind: wire.Message, Sender: "x", Body: other}))
	testkit.Until(t, "heard", func() bool { return b.Stats().Links.Delivered == 8 })
	require.Equal(t, 1, b.Watched(ref.ID().Name), "a watch is its owner's to end")
	ask(8, "_forget", "", other)
	testkit.Until(t, "forgotten", func() bool { return b.Watched(ref.ID().Name) == 0 })
}

func TestMonitor_reportArrivesBeforeQueuedMail_ACT1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, bustest.Server(t), "alone")
		ref, other := spawn(t, p), spawn(t, p)
		var order []string
		_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
			_, err := ctx.Monitor(other.ID(), func(*actor.Context, actor.Down) { order = append(order, "down") })
			return 0, err
		})
		require.NoError(t, err)
		release := blocked(t, ref)
		for range 100 {
			require.NoError(t, do.Send(t.Context(), ref,
				func(*actor.Context, *Box) (int64, error) { order = append(order, "mail"); return 0, nil }))
		}
		<-p.StopActor(other.ID().Name, "enough")
		release()
		awaitIdle(t, ref)
		require.Len(t, order, 101)
		require.Equal(t, "down", order[0])
	})
}
