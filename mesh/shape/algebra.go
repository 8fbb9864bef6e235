package shape

import "fmt"

// Union is the ranks that are in either selection. Both must be of equal extents.
func (s Selection) Union(o Selection) (Selection, error) {
	if err := s.same(o); err != nil {
		return Selection{}, err
	}
	return normal(s.base, append(append(make([]box, 0, len(s.boxes)+len(o.boxes)), s.boxes...), o.boxes...)), nil
}

// Intersect is the ranks that are in both selections. Both must be of equal extents.
func (s Selection) Intersect(o Selection) (Selection, error) {
	if err := s.same(o); err != nil {
		return Selection{}, err
	}
	work := budget(len(s.boxes) + len(o.boxes))
	boxes, ok := meetAll(s.boxes, o.boxes, &work)
	if !ok {
		return Selection{}, tooMuch("intersection", s.sizes(o))
	}
	return normal(s.base, boxes), nil
}

// Without is the ranks of s that are not in o. Both must be of equal extents.
func (s Selection) Without(o Selection) (Selection, error) {
	if err := s.same(o); err != nil {
		return Selection{}, err
	}
	work := budget(len(s.boxes) + len(o.boxes))
	left := s.boxes
	for _, cut := range o.boxes {
		var next []box
		for _, b := range left {
			pieces := b.minus(cut)
			if !work.spend(len(pieces)) {
				return Selection{}, tooMuch("difference", s.sizes(o))
			}
			next = append(next, pieces...)
		}
		left = next
	}
	return normal(s.base, append([]box(nil), left...)), nil
}

// same checks that two selections are of one extent.
func (s Selection) same(o Selection) error {
	switch {
	case s.base.err != nil:
		return s.base.err
	case o.base.err != nil:
		return o.base.err
	case !s.base.Equal(o.base):
		return &Error{What: "selection of", Input: o.base.String(), Want: "one of " + s.base.String()}
	}
	return nil
}

// sizes tells two selections by their sizes, for errors: their texts may be long.
func (s Selection) sizes(o Selection) string {
	return fmt.Sprintf("%d and %d regions", len(s.boxes), len(o.boxes))
}

// meetAll is the intersection of two unions of boxes; false when it is too much work.
func meetAll(a, b []box, work *budget) ([]box, bool) {
	var out []box
	for _, left := range a {
		if !work.spend(len(b)) {
			return nil, false
		}
		for _, right := range b {
			if both, ok := left.meet(right); ok {
				out = append(out, both)
			}
		}
	}
	return out, true
}
