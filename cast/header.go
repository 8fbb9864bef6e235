package cast

import (
	"fmt"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
)

// mode says what becomes of the answers.
type mode uint8

const (
	modePost mode = 0 // there are none
	modeEach mode = 1 // each rank answers home
	modeFold mode = 2 // each host folds and answers home
)

// header is the ext of a Cast frame. Keys are append-only (WIRE-4). Ranks are view ranks.
type header struct {
	Region  shape.Region `cbor:"1,keyasint"`
	Prevs   []run        `cbor:"2,keyasint"`           // each member's prev on its link
	Skip    []span       `cbor:"3,keyasint,omitempty"` // known to be gone: not meant
	Mode    mode         `cbor:"4,keyasint"`
	Home    string       `cbor:"5,keyasint,omitempty"` // the port the answers go to
	Reducer string       `cbor:"6,keyasint,omitempty"`
}

// run is one value for Count ranks in a row.
type run struct {
	Count int    `cbor:"1,keyasint"`
	Value uint64 `cbor:"2,keyasint"`
}

// span is Count ranks from First on.
type span struct {
	First int `cbor:"1,keyasint"`
	Count int `cbor:"2,keyasint"`
}

// rest is the ext of an answer: whose it is, and, when it is a host's, of whom it is made.
type rest struct {
	Home     string    `cbor:"1,keyasint,omitempty"` // to a folder: which cast
	Rank     int       `cbor:"2,keyasint"`           // of one rank
	Folded   bool      `cbor:"3,keyasint,omitempty"` // of a host: the two below say for whom
	Answered []span    `cbor:"4,keyasint,omitempty"`
	Failed   []failure `cbor:"5,keyasint,omitempty"`
}

// failure is a rank and why it has no value.
type failure struct {
	Rank  int    `cbor:"1,keyasint"`
	Error []byte `cbor:"2,keyasint"` // a wire.Error
}

// runs encodes values run by run.
func runs(values []uint64) []run {
	var out []run
	for _, v := range values {
		if n := len(out); n > 0 && out[n-1].Value == v {
			out[n-1].Count++
		} else {
			out = append(out, run{1, v})
		}
	}
	return out
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

// spans encodes ascending ranks interval by interval.
func spans(ranks []int) []span {
	var out []span
	for _, r := range ranks {
		if n := len(out); n > 0 && out[n-1].First+out[n-1].Count == r {
			out[n-1].Count++
		} else {
			out = append(out, span{r, 1})
		}
	}
	return out
}

func contains(ss []span, rank int) bool {
	for _, s := range ss {
		if rank >= s.First && rank-s.First < s.Count {
			return true
		}
	}
	return false
}

// open decodes the header of a cast and finds this proc's place in it; false for a proc outside the
// region, or one that is not meant.
func (h *header) open(ext []byte, base int) (view int, member bool, err error) {
	if err := wire.UnmarshalControl(ext, h, nil); err != nil {
		return 0, false, err
	}
	if h.Mode > modeFold {
		return 0, false, fmt.Errorf("cast header: unknown mode %d", h.Mode)
	}
	view, in := h.Region.ViewRank(base)
	return view, in && !contains(h.Skip, view), nil
}

// prev is what the member of a rank must have seen before: see link.Cast.
func (h *header) prev(view int) (uint64, error) {
	prev, ok := at(h.Prevs, view)
	if !ok {
		return 0, fmt.Errorf("cast header: no prev for rank %d of %d", view, h.Region.NumRanks())
	}
	return prev, nil
}
