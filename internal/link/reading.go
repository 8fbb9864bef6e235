package link

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Inbound is a message that came, or several in a row that are posted by one sender to one port.
type Inbound struct {
	From     *Peer
	Envelope *wire.Envelope // of the first
	Data     []byte         // what the bodies lie in; whoever keeps it may
	Letters  []Letter       // at least one; several only when they differ in nothing else. They are used again
}

// Letter is what is a message's own. It has no pointers: there may be many of them.
type Letter struct {
	At, Size uint32 // where in Data its body lies
	Wait     uint32 // what Links.Taken is told once it is taken up or refused; 0: nothing
}

// Body is that of a letter, which lies in data.
func (lt Letter) Body(data []byte) []byte { return data[lt.At : lt.At+lt.Size : lt.At+lt.Size] }

// reading is what the data pump has read of a packet: messages are handed on together that differ in
// nothing but their bodies. It is used again for every packet.
type reading struct {
	links   *Links
	packet  *letters
	next    wire.Envelope
	refused []wire.Refusal

	in    Inbound
	first wire.Envelope // of in
	index int           // of first
	plain bool          // others may join first
}

// maxRun is how many messages are handed on together at most.
const maxRun = 1024

// join adds the next messages to those before them, as long as they are like them, and says how many.
func (r *reading) join(es *wire.Envelopes) int {
	before, all := len(r.in.Letters), r.in.Letters
	for r.plain && len(all) < maxRun {
		at, size, wait, ok := es.Body()
		if !ok {
			break
		}
		lt := Letter{At: uint32(at), Size: uint32(size)}
		if wait {
			lt.Wait = uint32(size + messageCost)
			r.packet.waits += uint64(lt.Wait)
		}
		all = append(all, lt)
	}
	r.in.Letters = all
	return len(all) - before
}

// plain reports whether a message has nothing of its own but its body.
func plain(e *wire.Envelope) bool {
	return e.Kind == wire.Message && e.Reply == "" && e.TTL == 0 && len(e.Ext) == 0
}

// begin makes the next message, which ends there in the packet, the first of those that are handed on, unless it is only
// a part of one, or must not be delivered.
func (r *reading) begin(index, end int, skip bool) {
	r.first = r.next
	e, s := &r.first, &r.packet.subject
	lt := Letter{At: uint32(end - len(e.Body)), Size: uint32(len(e.Body))}
	if e.Wait {
		lt.Wait = uint32(waitCost(e)) // of the last part: of the whole
	}
	r.in.Data = r.packet.data
	r.index, r.plain = index, plain(e) && !skip
	if e.Kind == wire.Chunk {
		whole, why := r.assemble()
		if !whole && why == nil {
			return
		}
		if why != nil {
			r.packet.waits += uint64(lt.Wait)
			r.refuse(index, lt.Wait, why)
			return
		}
		r.in.Data, lt.At, lt.Size = e.Body, 0, uint32(len(e.Body))
	}
	r.packet.waits += uint64(lt.Wait)
	if s.Kind != subjects.KindFrame {
		e.Actor, e.Port = s.Proc.Actor(s.Actor).Within(), s.Port
	}
	if e.TTL > 0 {
		e.TTL = max(e.TTL-r.packet.age, time.Millisecond)
	}
	if skip {
		r.links.Taken(r.in.From, uint64(lt.Wait))
		return
	}
	r.in.Letters = append(r.in.Letters, lt)
}

// assemble makes a message of its parts; false: there are more to come.
func (r *reading) assemble() (whole bool, why []byte) {
	e := &r.first
	actor, port := e.Actor, e.Port // e becomes what the parts make
	made, err := r.links.chunk(r.in.From, e)
	if made == nil && err == nil {
		return false, nil
	}
	if err == nil {
		es := wire.NewEnvelopes(made)
		if _, ok := es.Next(e); !ok || e.Kind == wire.Chunk {
			err = fmt.Errorf("its parts make no message: %w", es.Err())
		}
	}
	if err != nil {
		return false, r.links.tooLarge(actor, port, err)
	}
	return true, nil
}

// deliver hands on what was read.
func (r *reading) deliver() {
	all := r.in.Letters
	for at := 0; at < len(all); at++ {
		r.in.Letters = all[at:]
		taken, why := r.links.o.Handler.Deliver(&r.in)
		if why == nil {
			break
		}
		at += taken
		r.refuse(r.index+at, all[at].Wait, why)
	}
	r.in.Letters = all[:0]
}

func (r *reading) refuse(index int, wait uint32, why []byte) {
	r.refused = refuse(r.refused, index, why)
	r.links.Taken(r.in.From, uint64(wait))
}
