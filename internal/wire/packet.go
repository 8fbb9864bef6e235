package wire

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Magic is the first byte of every packet. No JSON text and no CBOR map or array starts with it.
const Magic = 0x00

// Version is the version of the packet layout.
const Version = 2

// PacketKind says what a packet is. Append only (WIRE-4).
type PacketKind byte

const (
	Data     PacketKind = 1  // envelopes, in order
	Beat     PacketKind = 2  // nothing, but that N was the last so far and all up to Prev is acknowledged
	Repair   PacketKind = 3  // a packet that was sent to many, for one who missed it: its subject, its bytes
	Piece    PacketKind = 4  // a part of a packet that is too large for the bus: see Cut
	State    PacketKind = 5  // control: what the receiver of a link has
	Confirm  PacketKind = 6  // control: which refusals the sender of a link knows
	Break    PacketKind = 7  // control: the receiver refuses the link from its last opening on
	Gone     PacketKind = 8  // control: the sender has given up the link
	Query    PacketKind = 9  // control: were these messages delivered? If not they shall not be
	Verdict  PacketKind = 10 // control: the answer to a Query that says no
	Cancel   PacketKind = 11 // control: nobody waits for the answers any more
	Resume   PacketKind = 12 // control: the receiver was away; what was the last?
	Bye      PacketKind = 13 // the process is about to close its links
	Urgent   PacketKind = 14 // control: one envelope, a Message, a Value or a Failure, that waits for no data and is in no order
	lastKind            = Urgent
)

// Head is the beginning of a packet.
type Head struct {
	Kind  PacketKind
	Age   time.Duration // since its messages were written: what their remaining times lose; whole milliseconds
	N     uint64        // its number in the sender's sequence; 0: none
	Prev  uint64        // the number before it on this link; 0: it opens the link
	Known *Progress     // of the link the other way, when the sender had something to say
}

// Progress is how far the receiver of a link is. All of it only grows, but for Window.
type Progress struct {
	Acked  uint64 `cbor:"1,keyasint"` // all up to this number has arrived, and its messages have entered mailboxes or were refused
	Taken  uint64 `cbor:"2,keyasint"` // bytes that arrived since the link was opened
	Window uint64 `cbor:"3,keyasint"` // how many more than Taken may be on the way
	Waited uint64 `cbor:"4,keyasint"` // bytes of messages that wait for room which were taken up
}

// HeadSize is at least the size of any head.
const HeadSize = 4 + 7*binary.MaxVarintLen64

const (
	maxAge   = 365 * 24 * time.Hour
	hasKnown = 1 << 0
	allFlags = hasKnown
)

// AppendHead appends the bytes of a head to b. The rest of the packet follows it.
func AppendHead(b []byte, h Head) []byte {
	var flags byte
	if h.Known != nil {
		flags |= hasKnown
	}
	b = append(b, Magic, Version, byte(h.Kind), flags)
	b = binary.AppendUvarint(b, uint64(min(max(h.Age, 0), maxAge)/time.Millisecond))
	b = binary.AppendUvarint(b, h.N)
	b = binary.AppendUvarint(b, h.Prev)
	if k := h.Known; k != nil {
		b = binary.AppendUvarint(b, k.Acked)
		b = binary.AppendUvarint(b, k.Taken)
		b = binary.AppendUvarint(b, k.Window)
		b = binary.AppendUvarint(b, k.Waited)
	}
	return b
}

// IsPacket reports whether data claims to be a packet rather than a foreign message.
func IsPacket(data []byte) bool { return len(data) > 0 && data[0] == Magic }

// DecodeHead reads the head of a packet; rest, which shares data's memory, follows it.
func DecodeHead(data []byte) (h Head, rest []byte, err error) {
	if !IsPacket(data) {
		return h, nil, fmt.Errorf("packet: want first byte 0x00, got %d bytes without it", len(data))
	}
	if len(data) < 4 {
		return h, nil, fmt.Errorf("packet: %d bytes, want at least 4", len(data))
	}
	if data[1] != Version {
		return h, nil, fmt.Errorf("packet: version %d, want %d", data[1], Version)
	}
	h.Kind = PacketKind(data[2])
	if h.Kind < Data || h.Kind > lastKind {
		return h, nil, fmt.Errorf("packet: unknown kind %d", data[2])
	}
	if data[3]&^allFlags != 0 {
		return h, nil, fmt.Errorf("packet: unknown flags %#x", data[3])
	}
	r := reader{data: data[4:]}
	age := r.uvarint("age")
	h.N, h.Prev = r.uvarint("n"), r.uvarint("prev")
	if data[3]&hasKnown != 0 {
		h.Known = &Progress{
			Acked: r.uvarint("acked"), Taken: r.uvarint("taken"), Window: r.uvarint("window"), Waited: r.uvarint("waited"),
		}
	}
	if r.err != nil {
		return Head{}, nil, r.err
	}
	if age > uint64(maxAge/time.Millisecond) {
		return Head{}, nil, fmt.Errorf("packet: age of %d ms, want at most %d", age, maxAge/time.Millisecond)
	}
	h.Age = time.Duration(age) * time.Millisecond
	return h, r.data, nil
}

// AppendRepair appends what follows the head of a Repair.
func AppendRepair(b []byte, subject string, packet []byte) []byte {
	return append(appendString(b, subject), packet...)
}

// DecodeRepair reads what follows the head of a Repair. packet shares rest's memory.
func DecodeRepair(rest []byte) (subject string, packet []byte, err error) {
	r := reader{data: rest}
	subject = string(r.bytes("subject"))
	return subject, r.data, r.err
}

// Cut says which part of a packet a Piece carries. The head of the Piece has the packet's N.
type Cut struct{ Offset, Total int }

// AppendPiece appends what follows the head of a Piece.
func AppendPiece(b []byte, c Cut, part []byte) []byte {
	b = binary.AppendUvarint(b, uint64(c.Offset))
	b = binary.AppendUvarint(b, uint64(c.Total))
	return append(b, part...)
}

// DecodePiece reads what follows the head of a Piece. part shares rest's memory, and lies within
// Total.
func DecodePiece(rest []byte) (c Cut, part []byte, err error) {
	r := reader{data: rest}
	offset, total := r.uvarint("offset"), r.uvarint("total")
	if r.err != nil {
		return c, nil, r.err
	}
	size := uint64(len(r.data))
	if total > maxTotal || size == 0 || offset > total || size > total-offset {
		return c, nil, fmt.Errorf("packet: a piece of %d bytes at %d of %d", size, offset, total)
	}
	return Cut{int(offset), int(total)}, r.data, nil
}

// maxTotal bounds what a peer may claim that something has in all: it is an int everywhere.
const maxTotal = 1<<31 - 1

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
		r.err = fmt.Errorf("packet: field %s: malformed or missing number", field)
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
		r.err = fmt.Errorf("packet: field %s: length %d, but %d bytes are left", field, n, len(r.data))
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}
