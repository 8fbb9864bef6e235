package cast

import (
	"iter"

	"github.com/castnet-io/castnet/actor"
)

// reducing is a reducer where it is applied, to values whose type is known only at run time.
type reducing struct {
	lift func(actor.Answer) (any, error) // makes one rank's answer what is folded
	open func(actor.Answer) (any, error) // reads what was folded elsewhere
	fold actor.Fold
	all  func(iter.Seq2[actor.Answer, bool]) (any, error) // folds many at once; nil: two by two
}

// each folds values, in order, of which some are one rank's own; none make nil.
func (r reducing) each(values iter.Seq2[actor.Answer, bool]) (any, error) {
	if r.all != nil {
		return r.all(values)
	}
	var all []any
	for a, own := range values {
		read := r.open
		if own {
			read = r.lift
		}
		v, err := read(a)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return foldHalves(all, r.fold)
}

// collecting puts the answers in a row. What it folds are rows.
var collecting = reducing{
	lift: func(a actor.Answer) (any, error) {
		raw, err := a.Raw()
		if err != nil {
			return nil, err
		}
		var r row
		r.add(1, raw)
		return r, nil
	},
	open: func(a actor.Answer) (any, error) { return openRow(a) },
	fold: func(acc, next any) (any, error) { return acc.(row).join(next.(row)), nil },
	all:  inRow,
}

// inRow is what collecting makes of many, at once.
func inRow(values iter.Seq2[actor.Answer, bool]) (any, error) {
	var r row
	for a, own := range values {
		if !own {
			part, err := openRow(a)
			if err != nil {
				return nil, err
			}
			for count, answer := range part.entries() {
				r.add(count, answer)
			}
			continue
		}
		raw, err := a.Raw()
		if err != nil {
			return nil, err
		}
		r.add(1, raw)
	}
	return r, nil
}
