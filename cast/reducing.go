package cast

import (
	"bytes"
	"iter"

	"github.com/castnet-io/castnet/actor"
)

// reducing is a reducer where it is applied, to values whose type is known only at run time.
type reducing struct {
	lift func(actor.Answer) (any, error) // makes one rank's answer what is folded
	open func(actor.Answer) (any, error) // reads what was folded elsewhere
	fold actor.Fold
}

// all folds values, of which some are one rank's own.
func (r reducing) all(values iter.Seq2[actor.Answer, bool]) (acc any, err error) {
	first := true
	for a, own := range values {
		read := r.open
		if own {
			read = r.lift
		}
		v, err := read(a)
		if err != nil {
			return nil, err
		}
		if first {
			acc, first = v, false
		} else if acc, err = r.fold(acc, v); err != nil {
			return nil, err
		}
	}
	return acc, nil
}

// collected is one answer of Count ranks in a row.
type collected struct {
	Count int    `cbor:"1,keyasint"`
	Raw   []byte `cbor:"2,keyasint"`
}

// collecting puts the answers in a row, and equal ones together.
var collecting = reducing{
	lift: func(a actor.Answer) (any, error) {
		raw, err := a.Raw()
		return []collected{{1, raw}}, err
	},
	open: func(a actor.Answer) (any, error) { return actor.Open[[]collected](a) },
	fold: func(acc, next any) (any, error) {
		all := acc.([]collected)
		for _, c := range next.([]collected) {
			if n := len(all); n > 0 && bytes.Equal(all[n-1].Raw, c.Raw) {
				all[n-1].Count += c.Count
			} else {
				all = append(all, c)
			}
		}
		return all, nil
	},
}
