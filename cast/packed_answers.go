package cast

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
)

// packedAnswers is answers one behind the other, in rank order, as they travel; equal ones in a row
// are kept once. Each entry is how many ranks it is of (4 bytes, big endian), how long it is
// (uvarint), and the answer.
type packedAnswers struct {
	data      []byte
	lastEntry int // where the last entry begins
}

// add puts the answer of count ranks behind the others.
func (r *packedAnswers) add(count uint32, raw []byte) {
	if len(r.data) > 0 {
		if n, answer, _, _ := nextEntry(r.data[r.lastEntry:]); bytes.Equal(answer, raw) {
			binary.BigEndian.PutUint32(r.data[r.lastEntry:], n+count)
			return
		}
	}
	r.lastEntry = len(r.data)
	r.data = binary.BigEndian.AppendUint32(r.data, count)
	r.data = binary.AppendUvarint(r.data, uint64(len(raw)))
	r.data = append(r.data, raw...)
}

// join puts another row behind this one.
func (r packedAnswers) join(next packedAnswers) packedAnswers {
	r.data = slices.Clone(r.data) // its last count may change
	for count, answer := range next.entries() {
		r.add(count, answer)
	}
	return r
}

// nextEntry reads the first entry.
func nextEntry(data []byte) (count uint32, answer, rest []byte, err error) {
	if len(data) < 4 {
		return 0, nil, nil, errPackedAnswers
	}
	size, n := binary.Uvarint(data[4:])
	count = binary.BigEndian.Uint32(data)
	if count == 0 || n <= 0 || size > uint64(len(data)-4-n) {
		return 0, nil, nil, errPackedAnswers
	}
	data = data[4+n:]
	return count, data[:size:size], data[size:], nil
}

// errPackedAnswers is about a peer's bytes.
var errPackedAnswers = errors.New("malformed row of answers: truncated, or an entry of no ranks")

// entries yields the answers, each with its number of ranks, up to the first invalid one.
func (r packedAnswers) entries() iter.Seq2[uint32, []byte] {
	return func(yield func(uint32, []byte) bool) {
		for data := r.data; len(data) > 0; {
			count, answer, rest, err := nextEntry(data)
			if err != nil || !yield(count, answer) {
				return
			}
			data = rest
		}
	}
}

// decodePackedAnswers decodes a received row.
func decodePackedAnswers(a actor.Answer) (packedAnswers, error) {
	if r, ok := a.Value.(packedAnswers); ok {
		return r, nil
	}
	data, err := actor.DecodeAnswer[[]byte](a)
	r := packedAnswers{data: data}
	for rest := data; len(rest) > 0 && err == nil; {
		r.lastEntry = len(data) - len(rest)
		_, _, rest, err = nextEntry(rest)
	}
	return r, err
}

// MarshalCBOR is the row as it travels: one byte string.
func (r packedAnswers) MarshalCBOR() ([]byte, error) { return wire.AppendBytes(nil, r.data), nil }
