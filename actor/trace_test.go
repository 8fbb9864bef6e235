package actor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// The examples of W3C Trace Context.
const (
	parent      = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	otherParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

func traceOf(t testing.TB, traceparent string) actor.Trace {
	t.Helper()
	trace, err := actor.ParseTrace(traceparent)
	require.NoError(t, err)
	return trace
}

func TestTrace_roundTripsAsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.Byte(), 24, 24).Draw(t, "IDs")
		trace := actor.Trace{TraceID: [16]byte(some), SpanID: [8]byte(some[16:]),
			Flags: rapid.ByteMax(3).Draw(t, "flags")}
		back, err := actor.ParseTrace(trace.String())
		require.Equal(t, trace.IsValid(), err == nil)
		if err == nil {
			require.Equal(t, trace, back)
			require.Len(t, trace.String(), len(parent))
		}
	})
	require.Equal(t, parent, traceOf(t, parent).String())
	require.Empty(t, actor.Trace{}.String())
}

func TestTrace_isParsedAsW3CHasIt_DEL11(t *testing.T) {
	const ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for _, good := range []string{"00-" + ids + "01", "cc-" + ids + "01", "01-" + ids + "01-",
		"01-" + ids + "01-what the future holds", "00-" + ids + "fd"} {
		require.Equal(t, parent, traceOf(t, good).String(), good)
	}
	for _, bad := range []string{
		"", "00", "-", "00-" + ids, "00-" + ids + "1", "00-" + ids + "01-", "00-" + ids + "01-more",
		"00-" + ids + "01.",
		"01-" + ids + "01.more", "ff-" + ids + "01", "0-" + ids + "01", "000-" + ids + "01", "0g-" + ids + "01",
		"00-" + strings.ToUpper(ids) + "01", "00-" + ids + "0G", " 00-" + ids + "01", "00-" + ids + "01 ",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0af7651916cd43dd8448eb211c8031-9cb7ad6b7169203331-01",
	} {
		trace, err := actor.ParseTrace(bad)
		require.ErrorContains(t, err, "traceparent", "%q", bad)
		require.Zero(t, trace)
		require.Zero(t, actor.TraceIn(bus.Header{"traceparent": {bad}}), "%q", bad)
	}
	for _, h := range []bus.Header{nil, {}, {"tracestate": {parent}}, {"traceparent": {parent, parent}},
		{"traceparent": {parent}, "Traceparent": {parent}}, {"traceparent": {}}} {
		require.Zero(t, actor.TraceIn(h), h)
	}
	require.Equal(t, parent, actor.TraceIn(bus.Header{"TraceParent": {parent}}).String())
}

// Hiker is an actor that notes the traces of its messages, and sends some itself.
type Hiker struct{ seen chan actor.Trace }

var (
	hiker = actor.NewType[*Hiker, chan actor.Trace]("hiker")
	look  = actor.NewEndpoint[*Hiker, actor.None, string]("look")
	hop   = actor.NewEndpoint[*Hiker, hopping, actor.None]("hop")
	alarm = actor.NewEndpoint[*Hiker, actor.None, string]("alarm")
)

// hopping is by which verb to send to whom.
type hopping struct {
	How string
	To  actor.Ref[*Hiker]
}

func (h *Hiker) look(ctx *actor.Context, _ actor.None) (string, error) {
	h.seen <- ctx.Trace()
	return ctx.Trace().String(), nil
}

func (h *Hiker) alarm(ctx *actor.Context, _ actor.None) (string, error) {
	return ctx.Trace().String(), nil
}

func (h *Hiker) hop(ctx *actor.Context, m hopping) (_ actor.None, err error) {
	switch m.How {
	case "Call":
		_, err = look.Call(ctx, m.To, actor.None{})
	case "Send":
		err = look.Send(ctx, m.To, actor.None{})
	case "SendWait":
		err = look.SendWait(ctx, m.To, actor.None{})
	case "SendAfter":
		_, err = look.SendAfter(ctx, time.Millisecond, m.To, actor.None{})
	case "a derived context":
		derived, cancel := context.WithTimeout(ctx, testkit.Patience)
		defer cancel()
		_, err = look.Call(derived, m.To, actor.None{})
	case "Go":
		ctx.Go(func(work context.Context) func(*actor.Context) {
			if err := look.Send(work, m.To, actor.None{}); err != nil {
				panic(err)
			}
			return nil
		})
	}
	return actor.None{}, err
}

func hikers() actor.Def {
	made := func(_ *actor.Context, seen chan actor.Trace) (*Hiker, error) { return &Hiker{seen}, nil }
	return hiker.Define(made,
		look.Handle((*Hiker).look), hop.Handle((*Hiker).hop), alarm.Handle((*Hiker).alarm).Urgent())
}

func hike(t testing.TB, p *actor.Proc, seen chan actor.Trace) actor.Ref[*Hiker] {
	t.Helper()
	ref, err := actor.Spawn(t.Context(), p, hiker, "hiker", seen)
	require.NoError(t, err)
	return ref
}

func TestTrace_isThatOfTheHandledMessageForEachVerbAndPlace_DEL11(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left", hikers()), start(t, srv, "right", hikers())
	seen := make(chan actor.Trace, 10)
	from, here := hike(t, a, nil), hike(t, a, seen)
	for place, to := range map[string]actor.Ref[*Hiker]{
		"of its proc": here, "of its proc by ID": actor.RefOf[*Hiker](here.ID()),
		"of its process": hike(t, row(t, a, 1, hikers()), seen), "of another process": hike(t, b, seen),
	} {
		for _, how := range []string{"Call", "Send", "SendWait", "SendAfter", "a derived context", "Go"} {
			t.Run(how+" to an actor "+place, func(t *testing.T) {
				for _, trace := range []actor.Trace{traceOf(t, parent), {}, traceOf(t, otherParent)} {
					_, err := hop.Call(actor.WithTrace(testkit.Soon(t), trace), from, hopping{how, to})
					require.NoError(t, err)
					require.Equal(t, trace, testkit.Next(t, seen))
				}
			})
		}
	}
}

func TestTrace_isThatOfAnUrgentMessage_DEL11(t *testing.T) {
	srv := bustest.Server(t)
	a, b := start(t, srv, "left", hikers()), start(t, srv, "right", hikers())
	ref := hike(t, b, nil).Via(a)
	for _, trace := range []actor.Trace{traceOf(t, parent), {}} {
		got, err := alarm.CallUrgent(actor.WithTrace(testkit.Soon(t), trace), ref, actor.None{})
		require.NoError(t, err)
		require.Equal(t, trace.String(), got)
	}
}

func TestTrace_keptContextKeepsItsTrace_DEL11(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	traces := []actor.Trace{traceOf(t, parent), {}, traceOf(t, otherParent), traceOf(t, parent), {}}
	kept := make(chan context.Context, len(traces))
	release := blocked(t, ref) // so that one batch has all
	for _, trace := range traces {
		require.NoError(t, do.Send(actor.WithTrace(t.Context(), trace), ref,
			func(ctx *actor.Context, _ *Box) (int64, error) {
				kept <- ctx
				return 0, nil
			}))
	}
	release()
	_, err := add.Call(testkit.Soon(t), ref, 1)
	require.NoError(t, err)
	for _, trace := range traces {
		require.Equal(t, trace, actor.TraceOf(testkit.Next(t, kept)))
	}
}

func TestTrace_isTakenAwayByTheZeroTrace_DEL11(t *testing.T) {
	traced := actor.WithTrace(t.Context(), traceOf(t, parent))
	require.Equal(t, parent, actor.TraceOf(traced).String())
	require.Zero(t, actor.TraceOf(actor.WithTrace(traced, actor.Trace{})))
	require.Zero(t, actor.TraceOf(t.Context()))
	half := actor.Trace{TraceID: traceOf(t, parent).TraceID}
	require.Zero(t, actor.TraceOf(actor.WithTrace(traced, half)), "an invalid one is none")
}

func TestTrace_ofAPlainClientIsInTheHandlerAndTheReply_DEL11(t *testing.T) {
	srv := bustest.Server(t)
	p, f := start(t, srv, "alone", hikers()), newForger(t, srv)
	at := hike(t, p, make(chan actor.Trace, 10)).ID()
	for given, want := range map[string]string{parent: parent, "": "", "00-1": "", strings.ToUpper(parent): ""} {
		for port, body := range map[string]string{"look": `"` + want + `"`, "absent": ""} {
			m := bus.Msg{Subject: f.space.Port(at.Port(port), subjects.Anon()), Header: bus.Header{}}
			if given != "" {
				m.Header.Set(actor.HeaderTrace, given)
			}
			reply, err := f.Data().Request(testkit.Soon(t), m)
			require.NoError(t, err)
			require.Equal(t, want, reply.Header.Get("traceparent"))
			if body != "" {
				require.Equal(t, body, string(reply.Data))
			}
		}
	}
}

func TestTrace_goesToThePortOfAPlainClient_DEL11(t *testing.T) {
	srv := bustest.Server(t)
	p, client := start(t, srv, "alone"), bustest.Open(t, srv)
	got := make(chan bus.Msg, 10)
	_, err := client.Data().Subscribe("my.results", func(m bus.Msg) { got <- m })
	require.NoError(t, err)
	to, err := actor.ForeignPort[int]("my.results")
	require.NoError(t, err)
	_, err = feed.Call(actor.WithTrace(testkit.Soon(t), traceOf(t, parent)), spawn(t, p), to)
	require.NoError(t, err)
	require.Equal(t, parent, testkit.Next(t, got).Header.Get("traceparent"))
}

func TestTrace_malformedOneIsACountedPacket_WIRE1(t *testing.T) {
	srv := bustest.Server(t)
	p, f := start(t, srv, "alone"), newForger(t, srv)
	ref, from := spawn(t, p), senderOf(newHost(t, "peer").Proc())
	for i, ext := range []string{"short", strings.Repeat("\x01", 26), strings.Repeat("\x00", 25)} {
		e := wire.Envelope{Kind: wire.Message, Sender: "x", Ext: []byte(ext), Body: []byte{1}}
		f.send(t, ref.ID().Port("add"), from, packet(uint64(i+1), uint64(i), e))
		testkit.Until(t, "it is counted", func() bool { return p.Stats().Malformed == uint64(i+1) })
	}
	n, err := add.Call(testkit.Soon(t), ref, 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, n, "none of them was handled")
}
