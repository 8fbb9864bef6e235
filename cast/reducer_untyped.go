package cast

import (
	"iter"

	"github.com/castnet-io/castnet/actor"
)

// untypedReducer is a reducer where it is applied, to values whose type is known only at run time.
type untypedReducer struct {
	lift     func(actor.Answer) (any, error) // makes one rank's answer what is folded
	open     func(actor.Answer) (any, error) // reads what was folded elsewhere
	fold     actor.Fold
	foldMany func(iter.Seq2[actor.Answer, bool]) (any, error) // folds many at once; nil: two by two
	numbers  *ops                                             // the same for common numbers; nil: others
}

// foldAll folds values in order; some are one rank's own. No values give nil.
func (r untypedReducer) foldAll(values iter.Seq2[actor.Answer, bool]) (any, error) {
	if r.foldMany != nil {
		return r.foldMany(values)
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
	if r.numbers != nil {
		acc, ok := r.numbers.foldAll(all)
		if ok {
			return acc, nil
		}
	}
	return foldPairwise(all, r.fold)
}

// packReducer packs the answers into rows.
var packReducer = untypedReducer{
	lift: func(a actor.Answer) (any, error) {
		raw, err := a.Raw()
		if err != nil {
			return nil, err
		}
		var r packedAnswers
		r.add(1, raw)
		return r, nil
	},
	open:     func(a actor.Answer) (any, error) { return decodePackedAnswers(a) },
	fold:     func(acc, next any) (any, error) { return acc.(packedAnswers).join(next.(packedAnswers)), nil },
	foldMany: packAnswers,
}

// packAnswers packs many answers at once.
func packAnswers(values iter.Seq2[actor.Answer, bool]) (any, error) {
	var r packedAnswers
	var raw []byte
	for a, own := range values {
		if !own {
			part, err := decodePackedAnswers(a)
			if err != nil {
				return nil, err
			}
			for count, answer := range part.entries() {
				r.add(count, answer)
			}
			continue
		}
		encoded, err := a.AppendRaw(raw[:0])
		if err != nil {
			return nil, err
		}
		r.add(1, encoded)
		raw = encoded
	}
	return r, nil
}
