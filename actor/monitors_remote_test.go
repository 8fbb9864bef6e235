package actor_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// inTime runs a test of two procs with little room for data between them, in virtual time.
func inTime(t *testing.T, test func(t *testing.T, srv *embed.Server, a, b *actor.Proc)) {
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		a, b := narrow(t, srv, "left"), narrow(t, srv, "right")
		test(t, srv, a, b)
	})
}

// watched makes a proc monitor an actor for code outside an actor, and returns its Downs.
func watched(t *testing.T, by *actor.Proc, id subjects.ActorID) (downs <-chan actor.Down, cancel func()) {
	t.Helper()
	ch := make(chan actor.Down, 8)
	cancel, err := by.Monitor(id, func(d actor.Down) { ch <- d })
	require.NoError(t, err)
	return ch, cancel
}

// after lets time pass, with all its effects.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestMonitor_reportOvertakesBlockedData_ACT8(t *testing.T) {
	inTime(t, func(t *testing.T, _ *embed.Server, a, b *actor.Proc) {
		ref := spawn(t, b)
		downs, _ := watched(t, a, ref.ID())
		synctest.Wait()
		require.Equal(t, 1, b.Watched(ref.ID().Name))
		resume := stall(t, b, a)
		testkit.Next(t, b.KillActor(ref.ID().Name, "now"))
		after(900 * time.Millisecond)
		require.Empty(t, downs, "it goes among the data at first")
		after(200 * time.Millisecond)
		d := testkit.Next(t, downs)
		require.True(t, d.OutOfOrder)
		require.Equal(t, ref.ID(), d.Actor)
		require.EqualError(t, d.Reason, ref.ID().String()+": the actor failed: killed: now")
		require.Equal(t, actor.CodeKilled, d.Reason.Event.Code)
		require.Zero(t, b.Owed(), "the Down was acknowledged")
		resume()
		require.NoError(t, b.Flush(testkit.Soon(t)))
		after(time.Minute)
		require.Empty(t, downs, "reported once")
		require.Zero(t, calls(a)+calls(b))
	})
}

func TestMonitor_requestOvertakesBlockedData_ACT8(t *testing.T) {
	for _, before := range []bool{true, false} { // the question
		inTime(t, func(t *testing.T, _ *embed.Server, a, b *actor.Proc) {
			ref := spawn(t, b)
			resume := stall(t, a, b)
			if before {
				testkit.Next(t, b.KillActor(ref.ID().Name, "now"))
			}
			downs, _ := watched(t, a, ref.ID())
			after(6 * time.Second)
			if !before {
				require.Empty(t, downs, "it lives")
				testkit.Next(t, b.KillActor(ref.ID().Name, "now"))
				after(5 * time.Second)
			}
			d := testkit.Next(t, downs)
			require.True(t, d.OutOfOrder)
			require.EqualError(t, d.Reason, ref.ID().String()+": the actor failed: killed: now")
			resume()
			require.NoError(t, a.Flush(testkit.Soon(t)))
			after(time.Minute)
			require.Empty(t, downs, "reported once")
			require.Zero(t, b.Owed())
			require.Zero(t, calls(a)+calls(b))
		})
	}
}

func TestMonitor_workflowSurvivesAStalledLink_ACT8(t *testing.T) {
	for _, full := range []bool{true, false} { // its question finds no room, or is queued
		inTime(t, func(t *testing.T, _ *embed.Server, a, b *actor.Proc) {
			ref, other := spawn(t, b), spawn(t, b)
			var resume func()
			if full {
				resume = stall(t, a, b)
			} else {
				resume, _ = hold(t, a, b)
			}
			downs, _ := watched(t, a, ref.ID())
			others, cancel := watched(t, a, other.ID())
			after(40 * time.Second) // longer than a call would wait
			require.Empty(t, downs)
			resume()
			after(4 * time.Second)
			require.NoError(t, a.Flush(testkit.Soon(t)))
			require.Equal(t, []int{1, 1}, []int{b.Watched(ref.ID().Name), b.Watched(other.ID().Name)})
			cancel()
			testkit.Next(t, b.KillActor(ref.ID().Name, "now"))
			d := testkit.Next(t, downs)
			require.False(t, d.OutOfOrder)
			require.NoError(t, a.Flush(testkit.Soon(t)))
			require.Zero(t, b.Watched(other.ID().Name))
			after(time.Minute)
			require.Empty(t, downs)
			require.Empty(t, others)
			require.Zero(t, a.Owed()+b.Owed())
			require.Zero(t, calls(a)+calls(b))
		})
	}
}

func TestMonitor_cancelTakesEffectWhileDataIsBlocked_ACT8(t *testing.T) {
	for _, before := range []bool{true, false} { // data are held up
		inTime(t, func(t *testing.T, srv *embed.Server, a, b *actor.Proc) {
			ref, resume := spawn(t, b), func() {}
			if before {
				resume = stall(t, a, b)
			}
			downs, cancel := watched(t, a, ref.ID())
			if !before {
				synctest.Wait()
				require.Equal(t, 1, b.Watched(ref.ID().Name))
				resume = stall(t, a, b)
			}
			cancel()
			after(1100 * time.Millisecond)
			require.Zero(t, b.Watched(ref.ID().Name)+b.Owed())
			resume()
			after(10 * time.Second)
			require.NoError(t, a.Flush(testkit.Soon(t)))
			require.Zero(t, b.Watched(ref.ID().Name), "nor does its question set it up when it comes at last")
			require.Zero(t, a.Owed()+b.Owed())
			testkit.Next(t, b.KillActor(ref.ID().Name, "now"))
			after(time.Minute)
			require.Empty(t, downs)
			require.Zero(t, calls(a)+calls(b))
		})
	}
}

func TestLink_worksOverAStalledLinkAndOutlivesItsCreator_ACT8(t *testing.T) {
	for _, first := range []bool{true, false} { // ends who tied it
		inTime(t, func(t *testing.T, _ *embed.Server, a, b *actor.Proc) {
			one, other := spawn(t, a), spawn(t, b)
			es, far := record(a), record(b)
			resume := stall(t, a, b)
			tie(t, one, other.ID())
			if first {
				testkit.Next(t, a.KillActor(one.ID().Name, "now"))
				after(10 * time.Second)
				require.Contains(t, far.of(other.ID().Name), "failed")
				require.Equal(t, actor.CodeCascade, far.end(t, other.ID().Name).Code)
			} else {
				after(10 * time.Second)
				testkit.Next(t, b.KillActor(other.ID().Name, "now"))
				after(10 * time.Second)
				require.Contains(t, es.of(one.ID().Name), "failed")
				require.Equal(t, actor.CodeCascade, es.end(t, one.ID().Name).Code)
			}
			resume()
			require.NoError(t, a.Flush(testkit.Soon(t)))
			after(10 * time.Second)
			require.Zero(t, a.Owed()+b.Owed())
			require.Zero(t, calls(a)+calls(b))
		})
	}
}

// urgents counts the urgent messages to a proc on the control connection.
func urgents(t *testing.T, srv *embed.Server, to *actor.Proc) func() int {
	t.Helper()
	var mu sync.Mutex
	var n int
	_, err := bustest.Open(t, srv).Control().Subscribe(to.Space().ControlsOf(to.ID().Process()),
		func(m bus.Msg) {
			if kind, _, err := wire.DecodeControl(m.Data); err == nil && kind == wire.Urgent {
				mu.Lock()
				defer mu.Unlock()
				n++
			}
		})
	require.NoError(t, err)
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func TestMonitor_healthyReportUsesTheDataConnectionInOrder_ACT8(t *testing.T) {
	const rounds, posts = 20, 50
	inTime(t, func(t *testing.T, srv *embed.Server, a, b *actor.Proc) {
		toA, toB := urgents(t, srv, a), urgents(t, srv, b)
		var came int // on the data pump, as is what a proc is told
		port, closePort := actor.OpenPortFunc(a, func([]byte) error { came++; return nil }, func(error) {})
		defer closePort()
		for range rounds {
			ref := spawn(t, b)
			came = 0
			seen := make(chan int, 8)
			_, err := a.Monitor(ref.ID(), func(d actor.Down) {
				if d.OutOfOrder {
					seen <- -1
				}
				seen <- came
			})
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, do.Send(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
				for i := range posts {
					if err := port.Via(b).Send(ctx, make([]byte, i*20)); err != nil {
						return 0, err
					}
				}
				ctx.Stop("enough")
				return 0, nil
			}))
			require.Equal(t, posts, testkit.Next(t, seen))
			after(time.Duration(rounds) * 100 * time.Millisecond)
			require.Empty(t, seen)
		}
		one, other := spawn(t, a), spawn(t, b)
		tie(t, one, other.ID())
		after(time.Minute)
		require.Zero(t, toA()+toB())
		require.Equal(t, []int{1, 1}, []int{a.Owed(), b.Owed()}, "the two linked actors")
	})
}

func TestMonitor_reportOnBothConnectionsIsHandledOnce_ACT8(t *testing.T) {
	for _, urgentFirst := range []bool{true, false} {
		srv := bustest.Server(t)
		a, s := start(t, srv, "left"), newStranger(t, srv)
		downs, _ := watched(t, a, s.id.Actor("x"))
		head, question := s.packet(t)
		s.sendControl(t, a, wire.LinkState, wire.LinkStateBody{Progress: wire.AckState{Acked: head.Seq}})
		home, err := subjects.ParsePortID(question.Reply)
		require.NoError(t, err)
		why := actor.EncodeError(&actor.Error{Code: actor.CodeStopped, Text: "enough"})
		byData := func() {
			s.send(t, home, senderOf(s.id),
				packet(1, 0, wire.Envelope{Kind: wire.Failure, Sender: "x", Body: why}))
			testkit.Until(t, "it came", func() bool {
				return len(downs) == 1 &&
					(!urgentFirst || a.Stats().Late == 1)
			})
		}
		byControl := func() {
			s.sendUrgent(t, a.ID(), &wire.Envelope{Kind: wire.Failure, Actor: home.Actor.Name, Port: home.Port,
				Sender: "x", Body: why})
			e := s.awaitControl(t, wire.Urgent).(*wire.Envelope)
			require.Equal(t, []string{"x", "_forget"}, []string{e.Actor, e.Port}, "the Down is acknowledged")
			var reply string
			require.NoError(t, wire.Unmarshal(e.Body, &reply))
			require.Equal(t, question.Reply, reply)
		}
		if urgentFirst {
			byControl()
			byControl() // as if that were lost
			byData()
		} else {
			byData()
			byControl()
		}
		require.Equal(t, urgentFirst, testkit.Next(t, downs).OutOfOrder)
		require.Empty(t, downs)
		requireNoWatches(t, a)
		require.Zero(t, a.Stats().Malformed)
	}
}

func TestMonitor_acceptsEndReportsOnlyFromTheActorsProc_ACT8(t *testing.T) {
	srv := bustest.Server(t)
	a, s, thief := start(t, srv, "left", guards()), newStranger(t, srv), newStranger(t, srv)
	downs, cancel := watched(t, a, s.id.Actor("x"))
	defer cancel()
	_, question := s.packet(t)
	asked := make(chan error, 1)
	go func() {
		asked <- second(halt.CallUrgent(testkit.Soon(t), actor.RefOf[*Guard](s.id.Actor("guard")).Via(a), "stop"))
	}()
	request := s.awaitControl(t, wire.Urgent).(*wire.Envelope)
	says := func(by *stranger, reply string) {
		home, err := subjects.ParsePortID(reply)
		require.NoError(t, err)
		by.sendUrgent(t, a.ID(), &wire.Envelope{
			Kind: wire.Failure, Actor: home.Actor.Name, Port: home.Port, Sender: "x",
			Body: actor.EncodeError(actor.ErrStopped),
		})
	}
	says(thief, question.Reply)
	testkit.Until(t, "it is refused", func() bool { return a.Stats().Malformed == 1 })
	says(s, request.Reply) // an error answers no urgent message
	testkit.Until(t, "it is refused", func() bool { return a.Stats().Malformed == 2 })
	require.Empty(t, downs)
	require.Empty(t, asked)
	says(s, question.Reply)
	require.True(t, testkit.Next(t, downs).OutOfOrder)
	a.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: s.id.Mesh.String()})
	require.ErrorIs(t, testkit.Next(t, asked), actor.ErrProcDead)
}

func TestMonitor_controlRequestForAnUnknownActorIsNotAnswered_ACT8(t *testing.T) {
	srv := bustest.Server(t)
	b, s := start(t, srv, "right"), newStranger(t, srv)
	ended, alive := spawn(t, b), spawn(t, b)
	testkit.Next(t, b.StopActor(ended.ID().Name, "enough"))
	ask := func(actor, reply string) {
		s.sendUrgent(t, b.ID(), &wire.Envelope{Kind: wire.Message, Actor: actor, Port: "_down", Sender: "x",
			Reply: reply, Body: []byte{0xa0}})
	}
	at := func(port string) string { return s.id.Actor("x").Port(port).String() }
	ask("later", at("_01"))
	ask(alive.ID().Name, at("_02"))
	ask(ended.ID().Name, b.ID().Actor("x").Port("_03").String()) // is to be answered to another
	ask(ended.ID().Name, at("_04"))
	e := s.awaitControl(t, wire.Urgent).(*wire.Envelope)
	require.Equal(t, []any{wire.Failure, "x", "_04"}, []any{e.Kind, e.Actor, e.Port})
	require.ErrorIs(t, actor.FromWire(e.Body), actor.ErrStopped)
	require.Zero(t, b.Watched(alive.ID().Name)+b.Owed(), "no watch is left")
	require.EqualValues(t, 1, b.Stats().Malformed)
	s.sendUrgent(t, b.ID(), &wire.Envelope{Kind: wire.Message, Actor: alive.ID().Name, Port: "_link", Sender: "x",
		Body: []byte{0xff}})
	s.sendUrgent(t, b.ID(), &wire.Envelope{Kind: wire.Message, Actor: alive.ID().Name, Port: "_forget", Sender: "x",
		Body: []byte{0xff}})
	s.sendUrgent(t, b.ID(), &wire.Envelope{Kind: wire.Message, Actor: alive.ID().Name, Port: "_info", Sender: "x",
		Reply: at("_05"), Body: []byte{0xa0}})
	testkit.Until(t, "they are refused", func() bool { return b.Stats().Malformed == 3 })
}

func TestMonitor_deadProcessRemovesMonitorsOfColocatedProcs(t *testing.T) {
	srv := bustest.Server(t)
	b, first := start(t, srv, "right"), start(t, srv, "left")
	seat := row(t, first, 1)
	ref := spawn(t, b)
	_, err := seat.Monitor(ref.ID(), func(actor.Down) {})
	require.NoError(t, err)
	require.NoError(t, second(add.Call(t.Context(), ref.Via(seat), 1)))
	require.Equal(t, 1, b.Owed())
	b.Members().MarkDown(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: first.ID().Mesh.String()})
	require.Zero(t, b.Owed())
}
