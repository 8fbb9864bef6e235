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

// packedRuns are many runs in a few bytes each, which a member goes through and does not decode: of each the count
// and, counted from link.Left on, the value, as varints.
type packedRuns []byte

func packRuns(rs []run) (p packedRuns) {
	for _, r := range rs {
		p = binary.AppendUvarint(p, uint64(r.Count))
		p = binary.AppendUvarint(p, r.Value-link.Left)
	}
	return p
}

// at is what at is of the runs.
func (p packedRuns) at(i int) (uint64, bool) {
	for {
		count, n := binary.Uvarint(p)
		if n <= 0 || count == 0 {
			return 0, false
		}
		value, m := binary.Uvarint(p[n:])
		switch {
		case m <= 0:
			return 0, false
		case uint64(i) < count:
			return value + link.Left, true
		}
		i, p = i-int(count), p[n+m:]
	}
}

// number says in a header what each member must have seen before.
func (h *header) number(prevs []run) {
	h.Prevs, h.Numbers = prevs, nil
	if len(prevs) > fewRuns {
		h.Prevs, h.Numbers = []run{}, packRuns(prevs)
	}
}
