package cast

import (
	"encoding/binary"

	"github.com/castnet-io/castnet/internal/link"
)

// runs is one value for each rank from 0 on, as a member reads it in place: two varints for each
// run of ranks, their number and the value. The value is counted from link.NotIncluded on.
type runs []byte

// at is the value of a rank; false when the runs are too short or malformed.
func (r runs) at(rank int) (uint64, bool) {
	for {
		count, n := binary.Uvarint(r)
		if n <= 0 || count == 0 {
			return 0, false
		}
		value, m := binary.Uvarint(r[n:])
		if m <= 0 {
			return 0, false
		}
		if uint64(rank) < count {
			return value + link.NotIncluded, true
		}
		rank -= int(count)
		r = r[n+m:]
	}
}

// runsWriter writes runs one behind the other. It joins those of equal values.
type runsWriter struct {
	written runs
	end     int // the first rank without a value
	count   int // of the last run
	value   uint64
}

// fill gives the ranks from the end up to before another rank a value.
func (w *runsWriter) fill(end int, value uint64) {
	if end <= w.end {
		return
	}
	if value != w.value {
		w.flush()
		w.value = value
	}
	w.count += end - w.end
	w.end = end
}

// flush writes the last run.
func (w *runsWriter) flush() {
	if w.count > 0 {
		w.written = binary.AppendUvarint(w.written, uint64(w.count))
		w.written = binary.AppendUvarint(w.written, w.value-link.NotIncluded)
		w.count = 0
	}
}

// runs are those that were written.
func (w *runsWriter) runs() runs {
	w.flush()
	return w.written
}
