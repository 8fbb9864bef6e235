package wire

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// The bodies of control packets are CBOR, but for that of an Urgent, which is an Envelope; their heads have nothing
// but the kind.

// StateOf is the body of a State: all that the receiver of a link has to say, complete each time.
type StateOf struct {
	Progress Progress `cbor:"1,keyasint"`
	// Missing asks for packets of the link, as pairs of numbers: after the first, up to the second.
	Missing []uint64 `cbor:"2,keyasint,omitempty"`
	// Refused are messages that entered no mailbox, the oldest that the sender has not confirmed: among
	// them all of packets up to Progress.Acked. Refusals of a link are counted; First is the number of the
	// first here.
	First   uint64    `cbor:"4,keyasint,omitempty"`
	Refused []Refusal `cbor:"5,keyasint,omitempty"`
	// Former is how many bytes of messages that wait for room came before the link was opened, and are not
	// taken up.
	Former uint64 `cbor:"6,keyasint,omitempty"`
}

// Refusal says of Count messages in a row, of packet N from the Index-th on, why they came back.
type Refusal struct {
	N     uint64 `cbor:"1,keyasint"`
	Index int    `cbor:"2,keyasint"`
	Count int    `cbor:"3,keyasint"`
	Why   []byte `cbor:"4,keyasint"` // an Error
}

// ConfirmOf is the body of a Confirm: the refusals before number Next are known.
type ConfirmOf struct {
	Next uint64 `cbor:"1,keyasint"`
}

// BreakOf is the body of a Break and of a Gone: the link is over up to number N, and why.
type BreakOf struct {
	N    uint64 `cbor:"1,keyasint"`
	Text string `cbor:"2,keyasint"`
	// Closed says of a Gone that its sender has closed all links, and opens none. Peers that have no such
	// field say it with ClosedText.
	Closed bool `cbor:"3,keyasint,omitempty"`
}

// ClosedText is the Text of a Gone whose sender has closed all links.
const ClosedText = "this process has closed its links"

// QueryOf is the body of a Query and of a Verdict: messages of packet N.
type QueryOf struct {
	N       uint64 `cbor:"1,keyasint"`
	Indexes []int  `cbor:"2,keyasint"` // pairs: the index of the first, and how many in a row
}

// CancelOf is the body of a Cancel: the reply ports of calls that are given up.
type CancelOf struct {
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

// DecodeControl reads a control packet into the body of its kind: a *StateOf, *ConfirmOf, *BreakOf,
// *QueryOf, *CancelOf or *Envelope; nil for a Resume.
func DecodeControl(data []byte) (kind PacketKind, body any, err error) {
	return DecodeControlCounting(data, nil)
}

// DecodeControlCounting is DecodeControl, and counts a body with unknown fields as UnmarshalCounting
// does.
func DecodeControlCounting(data []byte, unknown *atomic.Uint64) (kind PacketKind, body any, err error) {
	h, rest, err := DecodeHead(data)
	if err != nil {
		return 0, nil, err
	}
	switch h.Kind {
	case State:
		body = &StateOf{}
	case Confirm:
		body = &ConfirmOf{}
	case Break, Gone:
		body = &BreakOf{}
	case Query, Verdict:
		body = &QueryOf{}
	case Cancel:
		body = &CancelOf{}
	case Resume:
		return Resume, nil, nil
	case Urgent:
		e, err := decodeUrgent(rest)
		if err != nil {
			return 0, nil, err
		}
		return Urgent, e, nil
	default:
		return 0, nil, fmt.Errorf("packet: kind %d is not of the control lane", h.Kind)
	}
	if err := UnmarshalCounting(rest, body, unknown); err != nil {
		return 0, nil, err
	}
	return h.Kind, body, nil
}

// AppendUrgent appends a packet with one message, or one answer, for the control lane.
func AppendUrgent(b []byte, e *Envelope) []byte {
	return e.Append(AppendHead(b, Head{Kind: Urgent}), false)
}

func decodeUrgent(rest []byte) (*Envelope, error) {
	es, e := NewEnvelopes(rest), new(Envelope)
	_, ok := es.Next(e)
	switch {
	case es.Err() != nil:
		return nil, es.Err()
	case !ok || len(es.r.data) > 0 || e.Kind != Message && e.Kind != Value && e.Kind != Failure:
		return nil, errors.New("packet: want one message or one answer, and nothing else")
	}
	return e, nil
}
