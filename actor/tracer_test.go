package actor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

// startTraced is start for a proc with a tracer.
func startTraced(t *testing.T, srv *embed.Server, label string, book *testproc.Spans) *actor.Proc {
	t.Helper()
	id, err := subjects.NewHostID(label)
	require.NoError(t, err)
	p, _ := testproc.Start(t, srv, testproc.Options{Options: actor.Options{ID: id.Proc(), Tracer: book,
		Coordinator: func(actor.Event) {}}}, hikers(), boxes())
	return p
}

func TestSpans_ofEachVerbAndPlaceAreParentAndChild_DEL12(t *testing.T) {
	srv := bustest.Server(t)
	book := &testproc.Spans{}
	a := startTraced(t, srv, "left", book)
	b := startTraced(t, srv, "right", book)
	seen := make(chan actor.Trace, 10)
	for place, to := range map[string]actor.Ref[*Hiker]{
		"its proc": hike(t, a, seen), "its proc, by ID": actor.RefOf[*Hiker](hike(t, a, seen).ID()).Via(a),
		"another process": hike(t, b, seen).Via(a),
	} {
		for verb, send := range map[string]func() error{
			"Call": func() error {
				_, err := look.Call(t.Context(), to, actor.None{})
				return err
			},
			"Send":     func() error { return look.Send(t.Context(), to, actor.None{}) },
			"SendWait": func() error { return look.SendWait(t.Context(), to, actor.None{}) },
		} {
			t.Run(verb+" to an actor of "+place, func(t *testing.T) {
				book.Clear()
				require.NoError(t, send())
				handled := testkit.Next(t, seen)
				all := book.Ended(t, 2)
				want := []actor.OperationKind{actor.OpPost, actor.OpHandle}
				if verb == "Call" {
					want = []actor.OperationKind{actor.OpAsk, actor.OpAnswer}
				}
				require.Equal(t, want, testproc.Kinds(all))
				require.Zero(t, all[0].Parent)
				require.Equal(t, all[0].Own, all[1].Parent)
				require.Equal(t, all[1].Own, handled, "what the handler sends is a child of its span")
				for _, s := range all {
					require.Equal(t, "look", s.Op.Endpoint)
					require.Equal(t, to.ID(), s.Op.Actor)
					require.Equal(t, "client", s.Op.Sender.Name)
					require.NoError(t, s.Outcome.Err)
					require.Equal(t, 1, s.Ends)
				}
			})
		}
	}
}

func TestSpans_areForwardedByHandlers_DEL12(t *testing.T) {
	srv := bustest.Server(t)
	book := &testproc.Spans{}
	a := startTraced(t, srv, "left", book)
	b := startTraced(t, srv, "right", book)
	from, to := hike(t, a, nil), hike(t, b, make(chan actor.Trace, 1))
	_, err := hop.Call(t.Context(), from, hopping{"Call", actor.RefOf[*Hiker](to.ID())})
	require.NoError(t, err)
	all := book.Ended(t, 4)
	require.Equal(t, []actor.OperationKind{actor.OpAsk, actor.OpAnswer, actor.OpAsk, actor.OpAnswer}, testproc.Kinds(all))
	for i := range all[1:] {
		require.Equal(t, all[i].Own, all[i+1].Parent)
	}
}

func TestSpans_handlerOfAnUntracedMessageBeginsNone_DEL12(t *testing.T) {
	srv := bustest.Server(t)
	book := &testproc.Spans{}
	silent := start(t, srv, "left", hikers())
	p := startTraced(t, srv, "right", book)
	seen := make(chan actor.Trace, 1)
	first, second := hike(t, p, nil), hike(t, p, seen)
	for _, how := range []string{"Call", "Send", "a derived context", "Go"} {
		_, err := hop.Call(t.Context(), first.Via(silent), hopping{how, second})
		require.NoError(t, err)
		require.Zero(t, testkit.Next(t, seen))
	}
	unsampled := actor.WithTrace(t.Context(), traceOf(t, otherParent))
	_, err := look.Call(unsampled, second.Via(silent), actor.None{})
	require.NoError(t, err)
	require.Equal(t, otherParent, testkit.Next(t, seen).String(), "it is passed on as it is")
	require.Empty(t, book.Ended(t, 0))
}

func TestSpans_haveErrorsPanicsAndDeferredAnswers_DEL12(t *testing.T) {
	book := &testproc.Spans{}
	p := startTraced(t, bustest.Server(t), "alone", book)
	ref := spawn(t, p)
	broken := errors.New("it is broken")
	_, err := do.Call(t.Context(), ref, func(*actor.Context, *Box) (int64, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
	all := book.Ended(t, 2)
	require.ErrorIs(t, all[0].Outcome.Err, broken)
	require.ErrorIs(t, all[1].Outcome.Err, broken)

	book.Clear()
	later, done := make(chan *actor.Deferred[int64], 1), make(chan error, 1)
	go func() {
		_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
			later <- actor.Defer[int64](ctx)
			return 0, nil
		})
		done <- err
	}()
	d := testkit.Next(t, later)
	_, err = add.Call(t.Context(), ref, 1) // the handler has returned
	require.NoError(t, err)
	require.Len(t, book.Ended(t, 2), 2, "of the second call")
	d.Reply(5, nil)
	require.NoError(t, testkit.Next(t, done))
	require.Len(t, book.Ended(t, 4), 4)

	book.Clear()
	_, err = do.Call(t.Context(), ref, func(*actor.Context, *Box) (int64, error) { panic("at once") })
	require.ErrorIs(t, err, actor.ErrPanic)
	for _, s := range book.Ended(t, 2) {
		require.ErrorIs(t, s.Outcome.Err, actor.ErrPanic)
	}
}

func TestSpans_tracerFindsItsOwnSpanInTheHandler_DEL12(t *testing.T) {
	book := &testproc.Spans{}
	p := startTraced(t, bustest.Server(t), "alone", book)
	ref := spawn(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	found := make(chan *testproc.Span, 2)
	look := func(ctx *actor.Context, _ *Box) (int64, error) {
		s, _ := ctx.Value(testproc.SpanKey{}).(*testproc.Span)
		found <- s
		if end, has := ctx.Deadline(); has && time.Until(end) < time.Minute {
			return 0, errors.New("its deadline is another")
		}
		return 0, ctx.Err()
	}
	_, err := do.Call(ctx, ref, look)
	require.NoError(t, err)
	require.Equal(t, actor.OpAnswer, testkit.Next(t, found).Op.Kind)
	require.NoError(t, do.Send(ctx, ref, look))
	require.Equal(t, actor.OpHandle, testkit.Next(t, found).Op.Kind)
}

func TestSpans_plainClientHasOneUpToItsAnswer_DEL12(t *testing.T) {
	srv := bustest.Server(t)
	book := &testproc.Spans{}
	p, f := startTraced(t, srv, "alone", book), newForger(t, srv)
	seen := make(chan actor.Trace, 2)
	at := hike(t, p, seen).ID()
	m := bus.Msg{Subject: f.space.Port(at.Port("look"), subjects.Anon()), Header: bus.Header{}}
	m.Header.Set(actor.HeaderTrace, parent)
	reply, err := f.Data().Request(testkit.Soon(t), m)
	require.NoError(t, err)
	require.Equal(t, parent, reply.Header.Get("traceparent"))
	all := book.Ended(t, 1)
	require.Equal(t, []actor.OperationKind{actor.OpServe}, testproc.Kinds(all))
	require.Equal(t, parent, all[0].Parent.String())
	require.Equal(t, all[0].Own, testkit.Next(t, seen))
	require.True(t, all[0].Op.Awaited)

	m.Subject = f.space.Port(at.Port("absent"), subjects.Anon())
	_, err = f.Data().Request(testkit.Soon(t), m)
	require.NoError(t, err)
	require.ErrorIs(t, book.Ended(t, 2)[1].Outcome.Err, actor.ErrNoEndpoint)
}

func TestSpans_packetOfASampledMessageHasItsTrace_DEL12(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left", hikers()), start(t, srv, "right", hikers())
	ref := hike(t, b, make(chan actor.Trace, 10)).Via(a)
	seen := make(chan bus.Msg, 100)
	_, err := bustest.Open(t, srv).Data().Subscribe(">", func(m bus.Msg) { seen <- m })
	require.NoError(t, err)
	for _, text := range []string{parent, otherParent, ""} {
		trace := actor.Trace{}
		if text != "" {
			trace = traceOf(t, text)
		}
		_, err := look.Call(actor.WithTrace(testkit.Soon(t), trace), ref, actor.None{})
		require.NoError(t, err)
		want := text
		if text == otherParent { // it is not sampled
			want = ""
		}
		at := testkit.Next(t, seen)
		for at.Subject != a.Space().Port(ref.ID().Port("look"), a.Sender()) {
			at = testkit.Next(t, seen)
		}
		require.Equal(t, want, at.Header.Get("traceparent"))
	}
}
