package polyglot

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// packetVector is the bytes of one packet between two castnet processes, and their meaning.
type packetVector struct {
	Name   string         `json:"name"`
	Hex    string         `json:"hex"`
	Says   map[string]any `json:"says"`
	Bodies []cborVector   `json:"cbor,omitempty"`
}

// cborVector is a piece of CBOR in a packet: any decoder decodes it to the same value. Numbered
// keys of maps are texts here, and bytes are hex.
type cborVector struct {
	Rule  string `json:"rule"` // of wire.cddl
	Hex   string `json:"hex"`
	Value any    `json:"value"`
}

// The structs below copy private ones of package cast: TestCDDL compares them.

type header struct {
	Region         shape.Region `cbor:"1,keyasint"`
	Prevs          runs         `cbor:"2,keyasint,omitempty"`
	Skip           shape.Ranks  `cbor:"3,keyasint,omitempty"`
	Mode           mode         `cbor:"4,keyasint"`
	ReplyPort      string       `cbor:"5,keyasint,omitempty"`
	Reducer        string       `cbor:"6,keyasint,omitempty"`
	Arity          int          `cbor:"7,keyasint,omitempty"`
	Asked          shape.Ranks  `cbor:"8,keyasint,omitempty"`
	SingleRoot     bool         `cbor:"9,keyasint,omitempty"`
	ProgressMillis int          `cbor:"10,keyasint,omitempty"`
	Gens           runs         `cbor:"11,keyasint,omitempty"`
	PartialValues  bool         `cbor:"12,keyasint,omitempty"`
	Trace          []byte       `cbor:"13,keyasint,omitempty"`
}

type replyHeader struct {
	Cast        string        `cbor:"1,keyasint,omitempty"`
	Rank        int           `cbor:"2,keyasint"`
	Folded      bool          `cbor:"3,keyasint,omitempty"`
	Parts       []shape.Ranks `cbor:"4,keyasint,omitempty"`
	Failed      []failure     `cbor:"5,keyasint,omitempty"`
	Declined    bool          `cbor:"6,keyasint,omitempty"`
	RerouteRank int           `cbor:"7,keyasint,omitempty"`
	Settled     shape.Ranks   `cbor:"8,keyasint,omitempty"`
}

type failure struct {
	Ranks shape.Ranks `cbor:"1,keyasint"`
	Error []byte      `cbor:"2,keyasint"`
}

type (
	runs []byte
	mode uint8
)

// The names in packets of the vectors.
const (
	counterName = "counter-0c8h4w2n6v1ye"
	caller      = "agent"
	home        = "laptop-2m9qx1k4h0t7c/0.0/client:_0a"
)

func packetVectors(t *testing.T) []packetVector {
	five := must(wire.Marshal(5))
	send := wire.Envelope{Kind: wire.Message, Actor: counterName, Port: "add", Sender: caller,
		TTL: 30 * time.Second, Body: five}
	call := wire.Envelope{Kind: wire.Message, Wait: true, Actor: counterName, Port: "add", Sender: caller,
		Reply: home, Body: five}
	traceID := must(hex.DecodeString("0af7651916cd43dd8448eb211c80319c" + "b7ad6b7169203331" + "01"))
	traced := send
	traced.Ext = traceID
	region := must(shape.Select(shape.Of("host", 2).With("gpu", 4), "gpu=0:2"))
	casting := must(wire.Marshal(header{
		Region: region, Prevs: runs{4, 8}, Skip: shape.Interval(1, 1), Mode: 2, ReplyPort: home, Reducer: "sum",
	}))
	castingTraced := must(wire.Marshal(header{Region: region, Mode: 0, Trace: traceID}))
	toAll := wire.Envelope{Kind: wire.Cast, TTL: time.Minute, Ext: casting, Body: five}
	sentToAll := wire.Envelope{Kind: wire.Cast, Ext: castingTraced, Body: five}
	overflow := must(wire.Marshal(wire.Error{Code: 1, Text: "does not fit", Actor: counterName,
		Endpoint: "add"}))
	one := wire.Envelope{Kind: wire.Value, Port: "_0a",
		Ext: must(wire.Marshal(replyHeader{Rank: 3})), Body: five}
	failed := wire.Envelope{Kind: wire.Failure, Port: "_0a", Ext: must(wire.Marshal(replyHeader{Rank: 2})),
		Body: overflow}
	folded := wire.Envelope{Kind: wire.Value, Port: "_0a", Body: must(wire.Marshal([][]byte{five})),
		Ext: must(wire.Marshal(replyHeader{Folded: true, Parts: []shape.Ranks{shape.Interval(0, 2)},
			Failed: []failure{{shape.Interval(2, 1), overflow}}}))}
	gathered := wire.Envelope{Kind: wire.Value, Port: "_0a",
		Body: gatheredBody(rowOf(2, five) + rowOf(1, must(wire.Marshal("hi")))),
		Ext:  must(wire.Marshal(replyHeader{Folded: true, Parts: []shape.Ranks{shape.Interval(4, 3)}}))}
	ended := wire.Envelope{Kind: wire.Failure, Actor: "client", Port: "_0a", Sender: counterName, Body: overflow}
	chunk := wire.Envelope{Kind: wire.Chunk, Ext: wire.ChunkHead{ID: 9, Offset: 4, Total: 6}.Append(nil),
		Body: []byte{1, 2}}

	head := wire.Head{Kind: wire.Data, Age: 3 * time.Millisecond, Seq: 300, PrevSeq: 299}
	withKnown := head
	withKnown.Ack = &wire.AckState{Acked: 12, ReceivedBytes: 4096, Window: 1 << 20}
	data := func(h wire.Head, es ...wire.Envelope) []byte {
		b := wire.AppendHead(nil, h)
		for i, e := range es {
			b = e.Append(b, i > 0 && e.Actor == es[i-1].Actor && e.Port == es[i-1].Port && e.Sender == es[i-1].Sender)
		}
		return b
	}
	control := func(kind wire.PacketKind, body any) []byte { return must(wire.AppendControl(nil, kind, body)) }
	only := func(kind wire.PacketKind) []byte {
		return wire.AppendHead(nil, wire.Head{Kind: kind, Seq: 300, PrevSeq: 299})
	}
	state := wire.LinkStateBody{Progress: *withKnown.Ack, Missing: []uint64{5, 7}, FirstRefusal: 3,
		Refusals: []wire.Refusal{{Seq: 4, Index: 0, Count: 2, Why: overflow}}}

	vs := []packetVector{
		{Name: "a send", Hex: hex.EncodeToString(data(head, send))},
		{Name: "a send with a trace", Hex: hex.EncodeToString(data(head, traced))},
		{Name: "two calls that wait for room, and word of the other way",
			Hex: hex.EncodeToString(data(withKnown, call, call))},
		{Name: "a cast: gpu=0:2 of host=2,gpu=4, folded by sum", Hex: hex.EncodeToString(data(head, toAll))},
		{Name: "a cast with a trace, which nobody answers", Hex: hex.EncodeToString(data(head, sentToAll))},
		{Name: "answers of ranks 3 and 2 to a cast", Hex: hex.EncodeToString(data(head, one, failed))},
		{Name: "an answer of ranks 0 and 1 folded into one, rank 2 failed",
			Hex: hex.EncodeToString(data(head, folded))},
		{Name: "the answers of a host to a gather: those of ranks 4 and 5 are equal",
			Hex: hex.EncodeToString(data(head, gathered))},
		{Name: "a part of an envelope of 6 bytes", Hex: hex.EncodeToString(data(head, chunk))},
		{Name: "a beat", Hex: hex.EncodeToString(only(wire.Probe))},
		{Name: "a repair", Hex: hex.EncodeToString(wire.AppendRepair(only(wire.Repair), "castnet.v1.default.k.x",
			[]byte{0, 2, 2, 0, 0, 1, 0}))},
		{Name: "a piece", Hex: hex.EncodeToString(
			wire.AppendFragment(only(wire.Fragment), wire.FragmentHead{Offset: 2, Total: 5}, []byte("abc")))},
		{Name: "what a receiver has", Hex: hex.EncodeToString(control(wire.LinkState, state))},
		{Name: "refusals before number 4 are known",
			Hex: hex.EncodeToString(control(wire.ConfirmRefusals, wire.ConfirmBody{Next: 4}))},
		{Name: "a receiver breaks the link",
			Hex: hex.EncodeToString(control(wire.ReceiverReset, wire.ResetBody{Seq: 9, Text: "who are you?"}))},
		{Name: "a sender gives the link up",
			Hex: hex.EncodeToString(control(wire.SenderReset, wire.ResetBody{Seq: 9, Text: "closed"}))},
		{Name: "a sender closes all its links",
			Hex: hex.EncodeToString(control(wire.SenderReset,
				wire.ResetBody{Seq: 9, Text: wire.ClosedText, Closed: true}))},
		{Name: "were messages 0 to 1 of packet 9 delivered?",
			Hex: hex.EncodeToString(control(wire.FateQuery, wire.FateQueryBody{Seq: 9, Indexes: []int{0, 2}}))},
		{Name: "they were not", Hex: hex.EncodeToString(
			control(wire.FateReply, wire.FateQueryBody{Seq: 9, Indexes: []int{0, 2}}))},
		{Name: "nobody waits for the answer",
			Hex: hex.EncodeToString(control(wire.Cancel, wire.CancelBody{Replies: []string{home}}))},
		{Name: "the receiver was away",
			Hex: hex.EncodeToString(wire.AppendHead(nil, wire.Head{Kind: wire.Resume}))},
		{Name: "a question that waits for no data", Hex: hex.EncodeToString(wire.AppendUrgent(nil, &call))},
		{Name: "the end of an actor, whose word waits for no data",
			Hex: hex.EncodeToString(wire.AppendUrgent(nil, &ended))},
		{Name: "goodbye", Hex: hex.EncodeToString(only(wire.Goodbye))},
	}
	for i := range vs {
		vs[i].read(t)
	}
	return vs
}

// rowOf is the name in packet.abnf of the forms of ranks and str in a row.
func rowOf(count byte, answer []byte) string {
	return string([]byte{0, 0, 0, count, byte(len(answer))}) + string(answer)
}

// gatheredBody is the body of an answer to a gather: gathered of wire.cddl, for one part.
func gatheredBody(row string) []byte {
	return must(wire.Marshal([][]byte{must(wire.Marshal([]byte(row)))}))
}

// read sets the meaning of the bytes, by the decoders.
func (v *packetVector) read(t *testing.T) {
	data := must(hex.DecodeString(v.Hex))
	h, left, err := wire.DecodeHead(data)
	require.NoError(t, err, v.Name)
	v.Says = map[string]any{"kind": h.Kind, "age_ms": h.Age.Milliseconds(), "n": h.Seq, "prev": h.PrevSeq}
	if k := h.Ack; k != nil {
		v.Says["known"] = []uint64{k.Acked, k.ReceivedBytes, k.Window}
	}
	switch h.Kind {
	case wire.Data, wire.Urgent:
		v.readEnvelopes(t, left)
	case wire.Probe, wire.Goodbye, wire.Resume:
		require.Empty(t, left, v.Name)
	case wire.Repair:
		subject, packet, err := wire.DecodeRepair(left)
		require.NoError(t, err)
		v.Says["subject"], v.Says["packet"] = subject, hex.EncodeToString(packet)
	case wire.Fragment:
		cut, part, err := wire.DecodeFragment(left)
		require.NoError(t, err)
		v.Says["offset"], v.Says["total"], v.Says["part"] = cut.Offset, cut.Total, hex.EncodeToString(part)
	default:
		_, _, err := wire.DecodeControl(data)
		require.NoError(t, err, v.Name)
		rule := map[wire.PacketKind]string{wire.LinkState: "link-state-body", wire.ConfirmRefusals: "confirm-body",
			wire.ReceiverReset: "reset-body",
			wire.SenderReset:   "reset-body", wire.FateQuery: "fate-query-body", wire.FateReply: "fate-query-body",
			wire.Cancel: "cancel-body"}[h.Kind]
		v.Bodies = append(v.Bodies, cborOf(t, rule, left))
	}
}

func (v *packetVector) readEnvelopes(t *testing.T, left []byte) {
	var all []map[string]any
	es, e := wire.NewEnvelopeReader(left), wire.Envelope{}
	for {
		same, ok := es.Next(&e)
		if !ok {
			break
		}
		says := map[string]any{"kind": e.Kind, "same": same, "wait": e.Wait, "actor": e.Actor, "port": e.Port,
			"sender": e.Sender,
			"ttl_ms": e.TTL.Milliseconds(), "reply": e.Reply, "ext": hex.EncodeToString(e.Ext),
			"body": hex.EncodeToString(e.Body)}
		switch e.Kind {
		case wire.Message:
			if trace := e.CopyTrace(); trace != nil {
				says["trace"] = []string{hex.EncodeToString(trace[:16]), hex.EncodeToString(trace[16:24]),
					hex.EncodeToString(trace[24:])}
			}
		case wire.Cast:
			v.Bodies = append(v.Bodies, cborOf(t, "header", e.Ext))
		case wire.Chunk:
			c, err := wire.DecodeChunk(e.Ext, len(e.Body))
			require.NoError(t, err)
			says["chunk"] = []uint64{c.ID, uint64(c.Offset), uint64(c.Total)}
		case wire.Value, wire.Failure:
			if len(e.Ext) > 0 { // of a cast
				v.Bodies = append(v.Bodies, cborOf(t, "reply-header", e.Ext))
			}
		}
		if e.Kind == wire.Value {
			v.Bodies = append(v.Bodies, cborOf(t, "any", e.Body)) // what any CBOR is in RFC 8610
		}
		if e.Kind == wire.Failure {
			v.Bodies = append(v.Bodies, cborOf(t, "error", e.Body))
		}
		all = append(all, says)
	}
	require.NoError(t, es.Err(), v.Name)
	v.Says["envelopes"] = all
}

func cborOf(t *testing.T, rule string, data []byte) cborVector {
	t.Helper()
	var v any
	require.NoError(t, cbor.Unmarshal(data, &v), "%s: %x", rule, data)
	return cborVector{rule, hex.EncodeToString(data), plain(v)}
}

// plain is a decoded value in the terms of JSON.
func plain(v any) any {
	switch v := v.(type) {
	case []byte:
		return hex.EncodeToString(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case map[any]any:
		out := map[string]any{}
		for k, x := range v {
			out[fmt.Sprint(k)] = plain(x)
		}
		return out
	}
	return v
}

// gatherTravelsAsThePacketsSay looks at the bus while a host sends equal answers of its two ranks
// home.
func gatherTravelsAsThePacketsSay(t *testing.T, r *rig) {
	b, err := bus.Open(t.Context(), bus.FromEnv(r.getenv))
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(context.Background())) }()
	want := gatheredBody(rowOf(2, must(wire.Marshal(0))))
	seen := make(chan struct{}, 2)
	_, err = b.Data().Subscribe(subjects.Space{}.String()+".f.>", func(m bus.Msg) {
		h, left, err := wire.DecodeHead(m.Data)
		if err != nil || h.Kind != wire.Data {
			return
		}
		es, e := wire.NewEnvelopeReader(left), wire.Envelope{}
		for _, ok := es.Next(&e); ok; _, ok = es.Next(&e) {
			if e.Kind == wire.Value && bytes.Equal(e.Body, want) && len(seen) < cap(seen) {
				seen <- struct{}{}
			}
		}
	})
	require.NoError(t, err)
	r.request(t, gatewayOf+"demo.counter.reset.u-anon.x", "")
	for range 2 {
		select {
		case <-seen:
		case <-time.After(testkit.Patience):
			require.Fail(t, "no host sent a gather in the form of packet.abnf")
		}
	}
}
