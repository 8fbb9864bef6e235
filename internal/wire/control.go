package wire

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// The bodies of control packets are CBOR, except for an Urgent, whose body is an Envelope. Their
// heads hold the kind only.

// LinkStateBody is the body of a LinkState: the complete state of a link's receiver.
type LinkStateBody struct {
	Progress AckState `cbor:"1,keyasint"`
	// Missing requests packets of the link, as pairs of numbers: after the first, up to the second.
	Missing []uint64 `cbor:"2,keyasint,omitempty"`
	// Refused lists messages that entered no mailbox, from the oldest unconfirmed one, including
	// all of packets up to Progress.Acked. Refusals of a link are numbered; FirstRefusal is the
	// number of the first one here.
	FirstRefusal uint64    `cbor:"4,keyasint,omitempty"`
	Refusals     []Refusal `cbor:"5,keyasint,omitempty"`
}

// Refusal is the refusal of Count consecutive messages, from the Index-th of packet N on, with its
// reason.
type Refusal struct {
	Seq   uint64 `cbor:"1,keyasint"`
	Index int    `cbor:"2,keyasint"`
	Count int    `cbor:"3,keyasint"`
	Why   []byte `cbor:"4,keyasint"` // an Error
}

// ConfirmBody is the body of a Confirm: the refusals before number Next are known.
type ConfirmBody struct {
	Next uint64 `cbor:"1,keyasint"`
}

// ResetBody is the body of a ReceiverReset and of a SenderReset: the link is over up to number N,
// with the reason.
type ResetBody struct {
	Seq  uint64 `cbor:"1,keyasint"`
	Text string `cbor:"2,keyasint"`
	// Closed marks a reset whose sender has closed all links, and opens none. Peers without the
	// field use ClosedText.
	Closed bool `cbor:"3,keyasint,omitempty"`
	// Last, of a ReceiverReset, is the last number that the receiver takes for used. A SenderReset
	// with it disowns this number: another process has used it, and the last true one is Seq.
	Last uint64 `cbor:"4,keyasint,omitempty"`
}

// ClosedText is the Text of a reset whose sender has closed all links.
const ClosedText = "this process has closed its links"

// FateQueryBody is the body of a FateQuery and of a FateReply: messages of packet N.
type FateQueryBody struct {
	Seq     uint64 `cbor:"1,keyasint"`
	Indexes []int  `cbor:"2,keyasint"` // pairs: the index of the first, and how many in a row
}

// CancelBody is the body of a Cancel: the reply ports of abandoned calls.
type CancelBody struct {
	Replies []string `cbor:"1,keyasint"`
}

// AppendControl appends a control packet.
func AppendControl(b []byte, kind PacketKind, body any) ([]byte, error) {
	encoded, err := Marshal(body)
	if err != nil {
		return b, err
	}
	return append(AppendHead(b, Head{Kind: kind}), encoded...), nil
}

// DecodeControl reads a control packet into the body of its kind: a *StateBody, *ConfirmBody,
// *ResetBody, *QueryBody, *CancelBody or *Envelope; nil for a Resume.
func DecodeControl(data []byte) (kind PacketKind, body any, err error) {
	return DecodeControlCounting(data, nil)
}

// DecodeControlCounting is DecodeControl, and counts a body with unknown fields as
// UnmarshalCounting does.
func DecodeControlCounting(data []byte, unknown *atomic.Uint64) (kind PacketKind, body any, err error) {
	h, rest, err := DecodeHead(data)
	if err != nil {
		return 0, nil, err
	}
	switch h.Kind {
	case LinkState:
		body = &LinkStateBody{}
	case ConfirmRefusals:
		body = &ConfirmBody{}
	case ReceiverReset, SenderReset:
		body = &ResetBody{}
	case FateQuery, FateReply:
		body = &FateQueryBody{}
	case Cancel:
		body = &CancelBody{}
	case Resume:
		return Resume, nil, nil
	case Urgent:
		e, err := decodeUrgent(rest)
		if err != nil {
			return 0, nil, err
		}
		return Urgent, e, nil
	default:
		return 0, nil, fmt.Errorf("packet: kind %d is not for the control connection", h.Kind)
	}
	if err := UnmarshalCounting(rest, body, unknown); err != nil {
		return 0, nil, err
	}
	return h.Kind, body, nil
}

// AppendUrgent appends a packet with one message, or one answer, for the control connection.
func AppendUrgent(b []byte, e *Envelope) []byte {
	return e.Append(AppendHead(b, Head{Kind: Urgent}), false)
}

func decodeUrgent(rest []byte) (*Envelope, error) {
	es := NewEnvelopeReader(rest)
	e := new(Envelope)
	_, ok := es.Next(e)
	if es.Err() != nil {
		return nil, es.Err()
	}
	if !ok || len(es.r.data) > 0 || e.Kind != Message && e.Kind != Value && e.Kind != Failure {
		return nil, errors.New("packet: want one message or one answer, and nothing else")
	}
	return e, nil
}
