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

// PacketKind is the kind of a packet. Append only (WIRE-4).
type PacketKind byte

const (
	Data PacketKind = 1 // envelopes, in order
	// no rest: N was the last packet so far, and all up to Prev is acknowledged
	Probe PacketKind = 2
	// a copy of a packet sent to many, for one receiver: its subject, its bytes
	Repair          PacketKind = 3
	Fragment        PacketKind = 4 // a part of a packet too large for the bus: see FragmentHead
	LinkState       PacketKind = 5 // control: the state of a link's receiver
	ConfirmRefusals PacketKind = 6 // control: the refusals known to the sender of a link
	ReceiverReset   PacketKind = 7 // control: the receiver refuses the link from its last opening on
	SenderReset     PacketKind = 8 // control: the sender has given up the link
	// control: were these messages delivered? If not, they must not be any more
	FateQuery PacketKind = 9
	FateReply PacketKind = 10 // control: a negative answer to a FateQuery
	Cancel    PacketKind = 11 // control: the caller no longer waits for the answers
	Resume    PacketKind = 12 // control: the receiver reconnected and asks for the last packet
	Goodbye   PacketKind = 13 // the process is about to close its links
	// control: one envelope, a Message, a Value or a Failure, outside the order of data
	Urgent   PacketKind = 14
	lastKind            = Urgent
)

// Head is the beginning of a packet.
type Head struct {
	Kind PacketKind
	// since its messages were encoded, to subtract from their remaining times; whole milliseconds
	Age     time.Duration
	Seq     uint64    // its number in the sender's sequence; 0: none
	PrevSeq uint64    // the number before it on this link; 0: it opens the link
	Ack     *AckState // of the link in the other direction, if the sender had news
}

// AckState is how far the receiver of a link is. All of it only grows, but for Window.
type AckState struct {
	// all up to this number has arrived, and its messages have entered mailboxes or were refused
	Acked         uint64 `cbor:"1,keyasint"`
	ReceivedBytes uint64 `cbor:"2,keyasint"` // bytes received since the link was opened
	Window        uint64 `cbor:"3,keyasint"` // bytes that may be in flight beyond ReceivedBytes
}

// HeadSize is at least the size of any head.
const HeadSize = 4 + 6*binary.MaxVarintLen64

const (
	maxAge   = 365 * 24 * time.Hour
	flagAck  = 1 << 0
	allFlags = flagAck
)

// AppendHead appends the bytes of a head to b. The rest of the packet follows it.
func AppendHead(b []byte, h Head) []byte {
	var flags byte
	if h.Ack != nil {
		flags |= flagAck
	}
	b = append(b, Magic, Version, byte(h.Kind), flags)
	b = binary.AppendUvarint(b, uint64(min(max(h.Age, 0), maxAge)/time.Millisecond))
	b = binary.AppendUvarint(b, h.Seq)
	b = binary.AppendUvarint(b, h.PrevSeq)
	if k := h.Ack; k != nil {
		b = binary.AppendUvarint(b, k.Acked)
		b = binary.AppendUvarint(b, k.ReceivedBytes)
		b = binary.AppendUvarint(b, k.Window)
	}
	return b
}

// IsPacket reports whether data claims to be a packet rather than a foreign message.
func IsPacket(data []byte) bool { return len(data) > 0 && data[0] == Magic }

// DecodeHead decodes the head of a packet; the rest shares data's memory.
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
	h.Seq, h.PrevSeq = r.uvarint("n"), r.uvarint("prev")
	if data[3]&flagAck != 0 {
		h.Ack = &AckState{
			Acked: r.uvarint("acked"), ReceivedBytes: r.uvarint("taken"), Window: r.uvarint("window"),
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

// AppendRepair appends the rest of a Repair after its head.
func AppendRepair(b []byte, subject string, packet []byte) []byte {
	return append(appendString(b, subject), packet...)
}

// DecodeRepair decodes the rest of a Repair. packet shares rest's memory.
func DecodeRepair(rest []byte) (subject string, packet []byte, err error) {
	r := reader{data: rest}
	subject = string(r.bytes("subject"))
	return subject, r.data, r.err
}

// FragmentHead is the place of a Fragment in its packet. The head of the Fragment has the packet's
// N.
type FragmentHead struct{ Offset, Total int }

// AppendFragment appends the rest of a Fragment after its head.
func AppendFragment(b []byte, c FragmentHead, part []byte) []byte {
	b = binary.AppendUvarint(b, uint64(c.Offset))
	b = binary.AppendUvarint(b, uint64(c.Total))
	return append(b, part...)
}

// DecodeFragment decodes the rest of a Fragment. part shares rest's memory, and lies within Total.
func DecodeFragment(rest []byte) (c FragmentHead, part []byte, err error) {
	r := reader{data: rest}
	offset, total := r.uvarint("offset"), r.uvarint("total")
	if r.err != nil {
		return c, nil, r.err
	}
	size := uint64(len(r.data))
	if total > maxTotal || size == 0 || offset > total || size > total-offset {
		return c, nil, fmt.Errorf("packet: a piece of %d bytes at %d of %d", size, offset, total)
	}
	return FragmentHead{int(offset), int(total)}, r.data, nil
}

// maxTotal bounds a peer's claim of a total size, so that it fits an int everywhere.
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
