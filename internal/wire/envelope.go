package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// Kind is the kind of an envelope. Append only (WIRE-4).
type Kind byte

const (
	Message Kind = 1 // a message to an endpoint or port
	Value   Kind = 2 // an answer; the body is the value
	Failure Kind = 3 // an answer; the body is an Error
	Cast    Kind = 4 // a message to a region of a mesh; ext holds the cast header
	Chunk   Kind = 5 // a part of a larger envelope; see ChunkOf
	Bounce  Kind = 6 // a dead letter; the body is an Error

	maxKind = Bounce
)

// maxTTL bounds the remaining time in an envelope, so that adding it to a clock never overflows.
const maxTTL = 365 * 24 * time.Hour

// Envelope is one message between castnet processes with its metadata.
type Envelope struct {
	Kind Kind
	Wait bool // it enters even a full mailbox: SendWait
	// the target within the receiver's proc; "" in a packet of one message, whose subject has it
	Actor  string
	Port   string        // the same
	Sender string        // name of the sending actor in the sender's proc
	TTL    time.Duration // time left until the deadline; 0 = none; whole milliseconds
	Reply  string        // port for the answer, as text; "" = none
	Ext    []byte        // data of the kind besides the body: of a Message its Trace, if it has one
	Bytes  bool          // when encoding: Body is the content of the byte string in the body
	Body   []byte

	Hops *Hops // of a cast that is sent, for the headers of its packet; nil: none
}

// BodyLen is the size of the body.
func (e *Envelope) BodyLen() int {
	if e.Bytes {
		return bytesHeadLen(len(e.Body)) + len(e.Body)
	}
	return len(e.Body)
}

// CopyBody is a copy of the body as it is written.
func (e *Envelope) CopyBody() []byte {
	if e.Bytes {
		return AppendBytes(make([]byte, 0, e.BodyLen()), e.Body)
	}
	return bytes.Clone(e.Body)
}

// The first byte of an envelope: the kind in the low three bits.
const (
	kindMask         = 0x07
	flagSameTarget   = 1 << 3 // actor, port and sender are those of the envelope before
	flagTTL          = 1 << 4
	flagReply        = 1 << 5
	flagExt          = 1 << 6
	flagWait         = 1 << 7
	envelopeOverhead = 16 + 3*binary.MaxVarintLen64
)

// Size is at least the number of bytes Append adds.
func (e *Envelope) Size() int {
	return envelopeOverhead + len(e.Actor) + len(e.Port) + len(e.Sender) + len(e.Reply) + len(e.Ext) +
		e.BodyLen()
}

// Append appends the envelope's bytes to b. same means that actor, port and sender equal those of
// the envelope before it in the packet.
func (e *Envelope) Append(b []byte, same bool) []byte {
	return append(e.AppendPrefix(b, same), e.Body...)
}

// AppendPrefix appends all of the envelope that lies before Body.
func (e *Envelope) AppendPrefix(b []byte, same bool) []byte {
	first := byte(e.Kind)
	if same {
		first |= flagSameTarget
	}
	ttl := ttlMillis(e.TTL)
	if ttl != 0 {
		first |= flagTTL
	}
	if e.Reply != "" {
		first |= flagReply
	}
	if len(e.Ext) > 0 {
		first |= flagExt
	}
	if e.Wait {
		first |= flagWait
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
	b = binary.AppendUvarint(b, uint64(e.BodyLen()))
	if e.Bytes {
		return appendLength(b, 0x40, len(e.Body))
	}
	return b
}

// ttlMillis rounds up, so that an open deadline never travels as "none".
func ttlMillis(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((min(d, maxTTL) + time.Millisecond - 1) / time.Millisecond)
}

// EnvelopeReader reads the envelopes of a Data packet, one after the other.
type EnvelopeReader struct {
	r    reader
	size int // of all
	last Envelope
	any  bool
	same byte // the first byte of a Message like the last envelope
}

// NewEnvelopeReader reads the rest of a Data packet after its head.
func NewEnvelopeReader(rest []byte) EnvelopeReader {
	return EnvelopeReader{r: reader{data: rest}, size: len(rest)}
}

// Offset is the offset of the next envelope.
func (es *EnvelopeReader) Offset() int { return es.size - len(es.r.data) }

// NextBody reads the next envelope if it is a Message and differs from the one before in its body
// only. It returns the body's place in the data of NewEnvelopeReader. It leaves any other or
// malformed envelope to Next.
func (es *EnvelopeReader) NextBody() (at, size int, ok bool) {
	data := es.r.data
	if len(data) < 2 || data[0] != es.same || es.r.err != nil || !es.any {
		return 0, 0, false
	}
	n := uint64(data[1])
	head := 2
	if n >= 0x80 {
		var read int
		n, read = binary.Uvarint(data[1:])
		if read <= 0 {
			return 0, 0, false
		}
		head = 1 + read
	}
	if n > uint64(len(data)-head) {
		return 0, 0, false
	}
	at = es.Offset() + head
	es.r.data = data[head+int(n):]
	return at, int(n), true
}

func (es *EnvelopeReader) copyTarget(e *Envelope) {
	e.Actor = es.last.Actor
	e.Port = es.last.Port
	e.Sender = es.last.Sender
}

// Next reads the next envelope into e. Its Ext and Body share the packet's memory. same reports
// that actor, port and sender equal those of the one before, with the same strings. Next returns
// false at the end and after an error; see Err.
func (es *EnvelopeReader) Next(e *Envelope) (same, ok bool) {
	r := &es.r
	if r.err != nil || len(r.data) == 0 {
		return false, false
	}
	first := r.data[0]
	r.data = r.data[1:]
	// By fields: of most messages in a packet, few change.
	e.Kind = Kind(first & kindMask)
	e.Wait = first&flagWait != 0
	es.same = byte(Message) | flagSameTarget | first&flagWait
	e.TTL = 0
	e.Ext = nil
	if e.Reply != "" {
		e.Reply = ""
	}
	if e.Kind < Message || e.Kind > maxKind {
		r.err = fmt.Errorf("packet: unknown kind of envelope %d", e.Kind)
		return false, false
	}
	same = first&flagSameTarget != 0
	switch {
	case !same:
		es.last.Actor = internString(es.last.Actor, r.bytes("actor"))
		es.last.Port = internString(es.last.Port, r.bytes("port"))
		es.last.Sender = internString(es.last.Sender, r.bytes("sender"))
		es.any = true
		es.copyTarget(e)
	case !es.any:
		r.err = fmt.Errorf("packet: the first envelope refers to an earlier target")
		return false, false
	case e.Actor != es.last.Actor || e.Port != es.last.Port || e.Sender != es.last.Sender:
		es.copyTarget(e) // the caller has changed it
	}
	if first&flagTTL != 0 {
		ttl := r.uvarint("ttl")
		if ttl > uint64(maxTTL/time.Millisecond) && r.err == nil {
			r.err = fmt.Errorf("packet: ttl of %d ms, want at most %d", ttl, maxTTL/time.Millisecond)
		}
		e.TTL = time.Duration(ttl) * time.Millisecond
	}
	if first&flagReply != 0 {
		e.Reply = string(r.bytes("reply"))
	}
	if first&flagExt != 0 {
		e.Ext = r.bytes("ext")
		if e.Kind == Message && r.err == nil {
			if _, err := DecodeTrace(e.Ext); err != nil {
				r.err = fmt.Errorf("packet: field ext: %w", err)
			}
		}
	}
	e.Body = r.bytes("body")
	return same, r.err == nil
}

// internString is b as a string: the last one when it has not changed.
func internString(last string, b []byte) string {
	if last == string(b) {
		return last
	}
	return string(b)
}

// Err returns the decoding error; nil if there was none so far.
func (es *EnvelopeReader) Err() error { return es.r.err }

// ChunkHead is the ext of a Chunk: the part's place in its envelope. A sender uses an ID once for
// one receiver. Joined, the parts are the envelope in the form of Append, with its target. A Total
// of 0 means that no more parts come. In a published packet of a cast, the cast header follows.
type ChunkHead struct {
	ID            uint64
	Offset, Total int
}

// MaxChunkHead is the size of the largest ChunkHead.
const MaxChunkHead = 3 * binary.MaxVarintLen64

// Append appends the bytes of c to b.
func (c ChunkHead) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, c.ID)
	b = binary.AppendUvarint(b, uint64(c.Offset))
	return binary.AppendUvarint(b, uint64(c.Total))
}

// DecodeChunk decodes the ext of a Chunk whose body has size bytes, and checks that the part lies
// within the whole.
func DecodeChunk(ext []byte, size int) (ChunkHead, error) {
	r := reader{data: ext}
	id := r.uvarint("chunk id")
	offset := r.uvarint("offset")
	total := r.uvarint("total")
	if r.err != nil {
		return ChunkHead{}, r.err
	}
	if total == 0 && offset == 0 && size == 0 {
		return ChunkHead{ID: id}, nil
	}
	if total > maxTotal || size <= 0 || offset > total || uint64(size) > total-offset {
		return ChunkHead{}, fmt.Errorf("packet: a chunk of %d bytes at %d of %d", size, offset, total)
	}
	return ChunkHead{id, int(offset), int(total)}, nil
}

// AfterChunkHead is the rest of the ext of a Chunk.
func AfterChunkHead(ext []byte) []byte {
	r := reader{data: ext}
	for range 3 {
		r.uvarint("chunk head")
	}
	return r.data
}
