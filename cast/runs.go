package cast

import (
	"encoding/binary"

	"github.com/castnet-io/castnet/internal/link"
)

// run is one value for Count ranks in a row.
type run struct {
	Count int    `cbor:"1,keyasint"`
	Value uint64 `cbor:"2,keyasint"`
}

// at is the value at a position of the runs; false when they are too short or malformed.
func at(rs []run, i int) (uint64, bool) {
	for _, r := range rs {
		if r.Count < 1 {
			return 0, false
		}
		if i < r.Count {
			return r.Value, true
		}
		i -= r.Count
	}
	return 0, false
}

// withRun adds a value for some ranks behind the others.
func withRun(rs []run, count int, value uint64) []run {
	if last := len(rs) - 1; count > 0 && last >= 0 && rs[last].Value == value {
		rs[last].Count += count
	} else if count > 0 {
		rs = append(rs, run{count, value})
	}
	return rs
}

// fewRuns is how many travel as they are.
const fewRuns = 16

// packedRuns are runs of a few bytes each, which a member scans without decoding. Each has, as
// varints, its count and its value, counted from link.Left on.
type packedRuns []byte

func packRuns(rs []run) (p packedRuns) {
	for _, r := range rs {
		p = binary.AppendUvarint(p, uint64(r.Count))
		p = binary.AppendUvarint(p, r.Value-link.NotIncluded)
	}
	return p
}

// at is the value at index i, like at of unpacked runs.
func (p packedRuns) at(i int) (uint64, bool) {
	for {
		count, n := binary.Uvarint(p)
		if n <= 0 || count == 0 {
			return 0, false
		}
		value, m := binary.Uvarint(p[n:])
		if m <= 0 {
			return 0, false
		}
		if uint64(i) < count {
			return value + link.NotIncluded, true
		}
		i -= int(count)
		p = p[n+m:]
	}
}

// setPrevs sets in a header the number that each member must have seen before.
func (h *header) setPrevs(prevs []run) {
	h.Prevs = prevs
	h.PackedPrevs = nil
	if len(prevs) > fewRuns {
		h.Prevs = []run{}
		h.PackedPrevs = packRuns(prevs)
	}
}
