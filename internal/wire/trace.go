package wire

import (
	"errors"
	"fmt"
)

// Trace is a W3C trace context: 16 bytes of trace ID, 8 bytes of span ID, and the flags. It is the
// ext of a Message, and a field in the header of a cast.
type Trace [25]byte

// DecodeTrace decodes a trace. It shares the memory of b.
func DecodeTrace(b []byte) (*Trace, error) {
	if len(b) != len(Trace{}) {
		return nil, fmt.Errorf("a trace of %d bytes, want %d", len(b), len(Trace{}))
	}
	t := (*Trace)(b)
	if !t.isValid() {
		return nil, errors.New("a trace with an ID of zeros")
	}
	return t, nil
}

// isValid reports whether neither ID is zero.
func (t *Trace) isValid() bool {
	return [16]byte(t[:16]) != [16]byte{} && [8]byte(t[16:]) != [8]byte{}
}

// Headers of a packet with a sampled message. The servers on its way report it as hops.
const (
	HeaderTrace     = "traceparent"
	HeaderTraceDest = "Nats-Trace-Dest"
)

// Hops is the trace that the servers on the way of a packet take part in.
type Hops struct {
	Trace *Trace
	Dest  string // the subject of their reports; "": that of the servers' accounts
}

// flagSampled is the flag of a sampled trace.
const flagSampled = 1

// IsSampled reports whether the trace is sampled; false without one.
func (t *Trace) IsSampled() bool { return t != nil && t[len(t)-1]&flagSampled != 0 }

// String is the trace as a traceparent.
func (t *Trace) String() string { return fmt.Sprintf("00-%x-%x-%02x", t[:16], t[16:24], t[24]) }

// hops returns the trace for the servers; nil: the message is not sampled.
func (e *Envelope) hops() *Hops {
	if e.Hops != nil || e.Kind != Message {
		return e.Hops
	}
	if t := e.CopyTrace(); t.IsSampled() {
		return &Hops{Trace: t}
	}
	return nil
}

// AddHops returns the trace of a packet that the message is added to. The first one counts.
func (e *Envelope) AddHops(h *Hops) *Hops {
	if h != nil || e.Hops == nil && len(e.Ext) == 0 {
		return h
	}
	return e.hops()
}

// CopyTrace is a copy of the trace of a Message; nil if it has none.
func (e *Envelope) CopyTrace() *Trace {
	if len(e.Ext) == 0 {
		return nil
	}
	t := Trace(e.Ext)
	return &t
}
