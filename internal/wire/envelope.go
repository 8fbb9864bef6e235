package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// Kind says what an envelope holds. Append only (WIRE-4).
type Kind byte

const (
	Message Kind = 1 // a message to an endpoint or port
	Value   Kind = 2 // an answer; the body is the value
	Failure Kind = 3 // an answer; the body is an Error
	Cast    Kind = 4 // a message to a region of a mesh; ext holds the cast header
	Chunk   Kind = 5 // a part of a larger envelope; see ChunkOf
	Bounce  Kind = 6 // a message that was delivered came back; the body is an Error

	lastEnvelope = Bounce
)

// maxTTL bounds the remaining time an envelope may claim, so that adding it to a clock never overflows.
const maxTTL = 365 * 24 * time.Hour

// Envelope is one message between castnet processes and what surrounds it.
type Envelope struct {
	Kind   Kind
	Wait   bool          // it enters a mailbox that is full: its sender waits until it is taken up
	Actor  string        // the target within the receiver's proc; "" in a packet that holds one, whose subject says it
	Port   string        // the same
	Sender string        // name of the sending actor in the sender's proc
	TTL    time.Duration // time left until the deadline; 0 = none; whole milliseconds
	Reply  string        // port that wants the answer, as text; "" = nobody
	Ext    []byte        // what a kind carries besides the body
	Bytes  bool          // when it is written: Body is what the byte string holds that is the body
	Body   []byte
}

// Len is the size of the body.
func (e *Envelope) Len() int {
	if e.Bytes {
		return bytesHeadLen(len(e.Body)) + len(e.Body)
	}
	return len(e.Body)
}

// Whole is a copy of the body as it is written.
func (e *Envelope) Whole() []byte {
	if e.Bytes {
		return AppendBytes(make([]byte, 0, e.Len()), e.Body)
	}
	return bytes.Clone(e.Body)
}

// The first byte of an envelope: the kind in the low three bits.
const (
	kindMask    = 0x07
	sameTarget  = 1 << 3 // actor, port and sender are those of the envelope before
	hasTTL      = 1 << 4
	hasReply    = 1 << 5
	hasExt      = 1 << 6
	waitsForIt  = 1 << 7
	maxEnvelope = 16 + 3*binary.MaxVarintLen64
)

// Size is at least the number of bytes Append adds.
func (e *Envelope) Size() int {
	return maxEnvelope + len(e.Actor) + len(e.Port) + len(e.Sender) + len(e.Reply) + len(e.Ext) + e.Len()
}

// Append appends the envelope's bytes to b. same says that actor, port and sender are those of the
// envelope before it in the packet.
func (e *Envelope) Append(b []byte, same bool) []byte {
	first := byte(e.Kind)
	if same {
		first |= sameTarget
	}
	ttl := ttlMillis(e.TTL)
	if ttl != 0 {
		first |= hasTTL
	}
	if e.Reply != "" {
		first |= hasReply
	}
	if len(e.Ext) > 0 {
		first |= hasExt
	}
	if e.Wait {
		first |= waitsForIt
	}
	b = append(b, first)
	if !same {
		b = appendString(b, e.Actor)
		b = appendString(b, e.Port)
		b = appendString(b, e.Sender)
	}
	if ttl != 0 {
		b = binary.AppendUvarint(b, ttl)
	}
	if e.Reply != "" {
		b = appendString(b, e.Reply)
	}
	if len(e.Ext) > 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Ext)))
		b = append(b, e.Ext...)
	}
	b = binary.AppendUvarint(b, uint64(e.Len()))
	if e.Bytes {
		return AppendBytes(b, e.Body)
	}
	return append(b, e.Body...)
}

// ttlMillis rounds up, so that a deadline that is not over never travels as "none".
func ttlMillis(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((min(d, maxTTL) + time.Millisecond - 1) / time.Millisecond)
}

// Envelopes reads the envelopes of a Data packet, one after the other.
type Envelopes struct {
	r    reader
	size int // of all
	last Envelope
	any  bool
}

// NewEnvelopes reads what follows the head of a Data packet.
func NewEnvelopes(rest []byte) Envelopes { return Envelopes{r: reader{data: rest}, size: len(rest)} }

// At is where the next envelope begins.
func (es *Envelopes) At() int { return es.size - len(es.r.data) }

// Body reads the next envelope when that is a Message which differs from the one before in its body alone, and
// returns where that lies in what NewEnvelopes was given. Of any other, and of a malformed one, it reads nothing: that
// is Next's.
func (es *Envelopes) Body() (at, size int, wait, ok bool) {
	data := es.r.data
	if len(data) < 2 || data[0]&^waitsForIt != byte(Message)|sameTarget || es.r.err != nil || !es.any {
		return 0, 0, false, false
	}
	n, head := uint64(data[1]), 2
	if n >= 0x80 {
		var read int
		if n, read = binary.Uvarint(data[1:]); read <= 0 {
			return 0, 0, false, false
		}
		head = 1 + read
	}
	if n > uint64(len(data)-head) {
		return 0, 0, false, false
	}
	at = es.At() + head
	es.r.data = data[head+int(n):]
	return at, int(n), data[0]&waitsForIt != 0, true
}

// Next reads the next envelope into e, whose Ext and Body share the packet's memory. same reports that
// actor, port and sender are those of the one before, with the same strings. It returns false at the
// end and after an error, which Err has.
func (es *Envelopes) Next(e *Envelope) (same, ok bool) {
	r := &es.r
	if r.err != nil || len(r.data) == 0 {
		return false, false
	}
	first := r.data[0]
	r.data = r.data[1:]
	// By fields: of most messages in a packet, few change.
	e.Kind, e.Wait, e.TTL, e.Ext = Kind(first&kindMask), first&waitsForIt != 0, 0, nil
	if e.Reply != "" {
		e.Reply = ""
	}
	if e.Kind < Message || e.Kind > lastEnvelope {
		r.err = fmt.Errorf("packet: unknown kind of envelope %d", e.Kind)
		return false, false
	}
	same = first&sameTarget != 0
	switch {
	case !same:
		es.last.Actor, es.last.Port = reused(es.last.Actor, r.bytes("actor")), reused(es.last.Port, r.bytes("port"))
		es.last.Sender, es.any = reused(es.last.Sender, r.bytes("sender")), true
		e.Actor, e.Port, e.Sender = es.last.Actor, es.last.Port, es.last.Sender
	case !es.any:
		r.err = fmt.Errorf("packet: the first envelope has the target of the one before it")
		return false, false
	case e.Actor != es.last.Actor || e.Port != es.last.Port || e.Sender != es.last.Sender: // the caller has changed it
		e.Actor, e.Port, e.Sender = es.last.Actor, es.last.Port, es.last.Sender
	}
	if first&hasTTL != 0 {
		ttl := r.uvarint("ttl")
		if ttl > uint64(maxTTL/time.Millisecond) && r.err == nil {
			r.err = fmt.Errorf("packet: ttl of %d ms, want at most %d", ttl, maxTTL/time.Millisecond)
		}
		e.TTL = time.Duration(ttl) * time.Millisecond
	}
	if first&hasReply != 0 {
		e.Reply = string(r.bytes("reply"))
	}
	if first&hasExt != 0 {
		e.Ext = r.bytes("ext")
	}
	e.Body = r.bytes("body")
	return same, r.err == nil
}

// reused is b as a string: the last one when it has not changed.
func reused(last string, b []byte) string {
	if last == string(b) {
		return last
	}
	return string(b)
}

// Err says what was malformed; nil when all envelopes were read, or will be.
func (es *Envelopes) Err() error { return es.r.err }

// ChunkOf is the ext of a Chunk: which part of which envelope its body is. An ID is used once by a
// sender for one receiver. Put together, the parts are the envelope as Append writes it, its target
// written out. A Total of 0 says that no more parts come.
type ChunkOf struct {
	ID            uint64
	Offset, Total int
}

// Append appends the bytes of c to b.
func (c ChunkOf) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, c.ID)
	b = binary.AppendUvarint(b, uint64(c.Offset))
	return binary.AppendUvarint(b, uint64(c.Total))
}

// DecodeChunk reads the ext of a Chunk whose body has size bytes, and checks that it lies within the
// whole.
func DecodeChunk(ext []byte, size int) (ChunkOf, error) {
	r := reader{data: ext}
	id, offset, total := r.uvarint("chunk id"), r.uvarint("offset"), r.uvarint("total")
	if r.err != nil {
		return ChunkOf{}, r.err
	}
	if total == 0 && offset == 0 && size == 0 {
		return ChunkOf{ID: id}, nil
	}
	if total > maxTotal || size <= 0 || offset > total || uint64(size) > total-offset {
		return ChunkOf{}, fmt.Errorf("packet: a chunk of %d bytes at %d of %d", size, offset, total)
	}
	return ChunkOf{id, int(offset), int(total)}, nil
}
