package link

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Inbound is one or more consecutive messages from one sender to one port.
type Inbound struct {
	From     *Peer
	Sender   subjects.Sender // of the packet's subject
	Envelope *wire.Envelope  // of the first
	Data     []byte          // contains the bodies; may be kept
	// at least one; several only when they differ in nothing else. They are used again
	Bodies []BodyRef
}

// BodyRef is the part of a message besides the shared fields. It has no pointers, because there may
// be many.
type BodyRef struct {
	Offset, Size uint32 // where in Data its body lies
}

// Body returns the body in data.
func (lt BodyRef) Body(data []byte) []byte {
	return data[lt.Offset : lt.Offset+lt.Size : lt.Offset+lt.Size]
}

// packetReader holds the messages read from a packet. Messages that differ only in their bodies are
// delivered together. It is reused for every packet.
type packetReader struct {
	links   *Links
	packet  *dataPacket
	next    wire.Envelope
	refused []wire.Refusal

	inbound    Inbound
	first      wire.Envelope // of in
	index      int           // of first
	extendable bool          // others may join first
}

// maxBatch limits the messages that are handed on together.
const maxBatch = 1024

// appendPlain adds the following messages while they match, and returns their number.
func (r *packetReader) appendPlain(es *wire.EnvelopeReader) int {
	all := r.inbound.Bodies
	before := len(all)
	for r.extendable && len(all) < maxBatch {
		at, size, ok := es.NextBody()
		if !ok {
			break
		}
		all = append(all, BodyRef{Offset: uint32(at), Size: uint32(size)})
	}
	r.inbound.Bodies = all
	return len(all) - before
}

// isPlain reports whether a message has nothing of its own but its body.
func isPlain(e *wire.Envelope) bool {
	return e.Kind == wire.Message && e.Reply == "" && e.TTL == 0 && len(e.Ext) == 0
}

// start makes the next message, ending at end in the packet, the first of a new delivery. It skips
// parts of messages, and messages that must not be delivered.
func (r *packetReader) start(index, end int, skip bool) {
	r.first = r.next
	e, s := &r.first, &r.packet.subject
	lt := BodyRef{Offset: uint32(end - len(e.Body)), Size: uint32(len(e.Body))}
	r.inbound.Data = r.packet.data
	r.index = index
	r.extendable = isPlain(e) && !skip
	if e.Kind == wire.Chunk {
		whole, why := r.assemble()
		if !whole && why == nil {
			return
		}
		if why != nil {
			r.refused = addRefusal(r.refused, index, why)
			return
		}
		r.inbound.Data = e.Body
		lt.Offset = 0
		lt.Size = uint32(len(e.Body))
	}
	if s.Kind != subjects.KindFrame {
		e.Actor, e.Port = s.Proc.Actor(s.Actor).LocalName(), s.Port
	}
	if e.TTL > 0 {
		e.TTL = max(e.TTL-r.packet.age, time.Millisecond)
	}
	if !skip {
		r.inbound.Bodies = append(r.inbound.Bodies, lt)
	}
}

// assemble makes a message of its parts; false: there are more to come.
func (r *packetReader) assemble() (whole bool, why []byte) {
	e := &r.first
	actor, port := e.Actor, e.Port // e is overwritten by the assembled message
	if 2*len(e.Body) < len(r.packet.data) {
		e.Body = bytes.Clone(e.Body) // the part does not keep a packet of others
	}
	parts, err := r.links.chunk(r.inbound.From, e)
	if parts == nil && err == nil {
		return false, nil
	}
	if err == nil {
		es := wire.NewEnvelopeReader(join(parts)) // not under the lock: it may be 64 MiB
		published := r.packet.subject.Kind == subjects.KindCast
		if _, ok := es.Next(e); !ok || e.Kind == wire.Chunk || published && e.Kind != wire.Cast {
			cause := es.Err()
			if cause == nil {
				cause = errors.New("want one message, and a cast if it was published to several processes")
			}
			err = fmt.Errorf("cannot decode the message from its parts: %w", cause)
		}
	}
	if err != nil {
		return false, r.links.tooLarge(actor, port, err)
	}
	return true, nil
}

// deliver delivers the messages read.
func (r *packetReader) deliver() {
	all := r.inbound.Bodies
	for at := 0; at < len(all); at++ {
		r.inbound.Bodies = all[at:]
		taken, why := r.links.o.Handler.Deliver(&r.inbound)
		if why == nil {
			break
		}
		at += taken
		r.refused = addRefusal(r.refused, r.index+at, why)
	}
	r.inbound.Bodies = all[:0]
}
