package wire

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Magic is the first byte of every frame. No JSON text and no CBOR map or array starts with it.
const Magic = 0x00

// Version is the version of the frame layout.
const Version = 1

// Kind says what a frame is. Append only (WIRE-4).
type Kind byte

const (
	Message  Kind = 1 // a message to an endpoint or port
	Value    Kind = 2 // an answer; the body is the value
	Failure  Kind = 3 // an answer; the body is an Error
	Cast     Kind = 4 // a message to a region of a mesh; ext holds the cast header
	Bounce   Kind = 5 // control: a message came back; the body is an Error
	Break    Kind = 6 // control: the receiver refuses this link from now on; the body is an Error
	lastKind      = Break
)

// maxTTL bounds the remaining time a frame may claim, so that adding it to a clock never overflows.
const maxTTL = 365 * 24 * time.Hour

// Frame is one castnet message.
type Frame struct {
	Kind   Kind
	N      uint64        // number in the sender's sequence; 0 = not part of a link
	Prev   uint64        // the number before it on this link; 0 = it opens the link
	TTL    time.Duration // time left until the deadline; 0 = none; whole milliseconds
	Sender string        // name of the sending actor in the sender's proc
	Reply  string        // port that wants the answer, as text; "" = nobody
	Ext    []byte        // what a kind carries besides the body
	Body   []byte
}

// Size is at least the number of bytes Append adds: what to reserve.
func (f Frame) Size() int {
	return 3 + 6*binary.MaxVarintLen64 + len(f.Sender) + len(f.Reply) + len(f.Ext) + len(f.Body)
}

// Append appends the frame's bytes to b.
func (f Frame) Append(b []byte) []byte {
	b = append(b, Magic, Version, byte(f.Kind))
	b = binary.AppendUvarint(b, f.N)
	b = binary.AppendUvarint(b, f.Prev)
	b = binary.AppendUvarint(b, ttlMillis(f.TTL))
	b = appendString(b, f.Sender)
	b = appendString(b, f.Reply)
	b = binary.AppendUvarint(b, uint64(len(f.Ext)))
	b = append(b, f.Ext...)
	return append(b, f.Body...)
}

// ttlMillis rounds up, so that a deadline that is not over never travels as "none".
func ttlMillis(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((min(d, maxTTL) + time.Millisecond - 1) / time.Millisecond)
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// IsFrame reports whether data claims to be a frame rather than a foreign message.
func IsFrame(data []byte) bool { return len(data) > 0 && data[0] == Magic }

// Decode reads a frame. Ext and Body share data's memory (WIRE-1).
func Decode(data []byte) (Frame, error) {
	if !IsFrame(data) {
		return Frame{}, fmt.Errorf("frame: want first byte 0x00, got %d bytes without it", len(data))
	}
	if len(data) < 3 {
		return Frame{}, fmt.Errorf("frame: %d bytes, want at least 3", len(data))
	}
	if data[1] != Version {
		return Frame{}, fmt.Errorf("frame: version %d, want %d", data[1], Version)
	}
	f := Frame{Kind: Kind(data[2])}
	if f.Kind < Message || f.Kind > lastKind {
		return Frame{}, fmt.Errorf("frame: unknown kind %d", data[2])
	}
	r := reader{data: data[3:]}
	f.N, f.Prev = r.uvarint("n"), r.uvarint("prev")
	ttl := r.uvarint("ttl")
	f.Sender, f.Reply = string(r.bytes("sender")), string(r.bytes("reply"))
	f.Ext = r.bytes("ext")
	if r.err != nil {
		return Frame{}, r.err
	}
	if ttl > uint64(maxTTL/time.Millisecond) {
		return Frame{}, fmt.Errorf("frame: ttl of %d ms, want at most %d", ttl, maxTTL/time.Millisecond)
	}
	f.TTL = time.Duration(ttl) * time.Millisecond
	f.Body = r.data
	return f, nil
}

// reader takes fields off the front of data and remembers the first error.
type reader struct {
	data []byte
	err  error
}

func (r *reader) uvarint(field string) uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.err = fmt.Errorf("frame: field %s: malformed or missing number", field)
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) bytes(field string) []byte {
	n := r.uvarint(field)
	if r.err != nil {
		return nil
	}
	if n > uint64(len(r.data)) {
		r.err = fmt.Errorf("frame: field %s: length %d, but %d bytes are left", field, n, len(r.data))
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}
