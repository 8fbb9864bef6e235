package link

import "github.com/castnet-io/castnet/internal/wire"

// parts is an encoded message on its way in parts. Room for the heads of a packet is in front of
// each, so a part leaves from its place.
type parts struct {
	buf   []byte
	room  int         // in front of each part
	size  int         // of each part but the last
	total int         // size of the encoded message
	body  int         // of that: the body
	id    uint64      // of the message
	cast  *sharedCast // of several members, who share the parts: each sends copies; nil: of one
}

// encodeParts encodes a message into parts of a size. It copies the body once.
func encodeParts(to *Target, e *wire.Envelope, size int) *parts {
	e.Actor, e.Port = to.Actor, to.Port
	chunk := wire.Envelope{Actor: e.Actor, Port: e.Port, Sender: e.Sender,
		Ext: make([]byte, wire.MaxChunkHead)}
	prefix := e.AppendPrefix(nil, false)
	w := &parts{room: headroom + chunk.Size(), size: size, total: len(prefix) + len(e.Body),
		body: e.BodyLen()}
	room := make([]byte, w.room)
	var pieces [][]byte
	for at := 0; at < w.total; at += size {
		ofBody := at - len(prefix)
		pieces = append(pieces, room, within(prefix, at, at+size), within(e.Body, ofBody, ofBody+size))
	}
	w.buf = join(pieces)
	return w
}

// within is the part of b between two offsets.
func within(b []byte, from, to int) []byte {
	return b[min(max(from, 0), len(b)):min(max(to, 0), len(b))]
}

// toEnd is the number of bytes from an offset to the end of its part.
func (w *parts) toEnd(at int) int { return min(w.size-at%w.size, w.total-at) }

// bytes are n bytes of the message, within one part.
func (w *parts) bytes(at, n int) []byte {
	start := (at/w.size+1)*w.room + at
	return w.buf[start : start+n : start+n]
}

// packet is n bytes of the message behind the heads of a packet. It copies them if the room for
// heads is not free.
func (w *parts) packet(heads []byte, at, n int) []byte {
	if w.cast != nil || at%w.size != 0 {
		return append(heads, w.bytes(at, n)...)
	}
	start := (at/w.size+1)*w.room + at - len(heads)
	copy(w.buf[start:], heads)
	end := start + len(heads) + n
	return w.buf[start:end:end]
}
