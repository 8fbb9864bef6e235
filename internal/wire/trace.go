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

// CopyTrace is a copy of the trace of a Message; nil if it has none.
func (e *Envelope) CopyTrace() *Trace {
	if len(e.Ext) == 0 {
		return nil
	}
	t := Trace(e.Ext)
	return &t
}
