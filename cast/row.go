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

// row is answers one behind the other, in rank order, as they travel; equal ones in a row are kept once.
// Each entry is how many ranks it is of (4 bytes, big endian), how long it is (uvarint), and the answer.
type row struct {
	data []byte
	last int // where the last entry begins
}

// add puts the answer of count ranks behind the others.
func (r *row) add(count uint32, raw []byte) {
	if len(r.data) > 0 {
		if n, answer, _, _ := entryOf(r.data[r.last:]); bytes.Equal(answer, raw) {
			binary.BigEndian.PutUint32(r.data[r.last:], n+count)
			return
		}
	}
	r.last = len(r.data)
	r.data = binary.BigEndian.AppendUint32(r.data, count)
	r.data = binary.AppendUvarint(r.data, uint64(len(raw)))
	r.data = append(r.data, raw...)
}

// join puts another row behind this one.
func (r row) join(next row) row {
	r.data = slices.Clone(r.data) // its last count may change
	for count, answer := range next.entries() {
		r.add(count, answer)
	}
	return r
}

// entryOf reads the first entry.
func entryOf(data []byte) (count uint32, answer, rest []byte, err error) {
	if len(data) < 4 {
		return 0, nil, nil, errRow
	}
	size, n := binary.Uvarint(data[4:])
	if count = binary.BigEndian.Uint32(data); count == 0 || n <= 0 || size > uint64(len(data)-4-n) {
		return 0, nil, nil, errRow
	}
	data = data[4+n:]
	return count, data[:size:size], data[size:], nil
}

// errRow is about a peer's bytes.
var errRow = errors.New("a row of answers that is cut off or counts none")

// entries yields the answers and of how many ranks each is, up to what cannot be read.
func (r row) entries() iter.Seq2[uint32, []byte] {
	return func(yield func(uint32, []byte) bool) {
		for data := r.data; len(data) > 0; {
			count, answer, rest, err := entryOf(data)
			if err != nil || !yield(count, answer) {
				return
			}
			data = rest
		}
	}
}

// openRow reads a row that has travelled.
func openRow(a actor.Answer) (row, error) {
	if r, ok := a.Value.(row); ok {
		return r, nil
	}
	data, err := actor.Open[[]byte](a)
	r := row{data: data}
	for rest := data; len(rest) > 0 && err == nil; {
		r.last = len(data) - len(rest)
		_, _, rest, err = entryOf(rest)
	}
	return r, err
}

// MarshalCBOR is the row as it travels: one byte string.
func (r row) MarshalCBOR() ([]byte, error) { return wire.AppendBytes(nil, r.data), nil }
