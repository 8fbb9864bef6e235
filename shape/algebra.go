package shape

import "fmt"

// Union is the ranks that are in either selection. Both must be of equal extents.
func (s Selection) Union(o Selection) (Selection, error) {
	if err := s.checkSameExtent(o); err != nil {
		return Selection{}, err
	}
	return normalize(s.base, append(append(make([]box, 0, len(s.boxes)+len(o.boxes)), s.boxes...), o.boxes...)), nil
}

// Intersect is the ranks that are in both selections. Both must be of equal extents.
func (s Selection) Intersect(o Selection) (Selection, error) {
	if err := s.checkSameExtent(o); err != nil {
		return Selection{}, err
	}
	work := budget(len(s.boxes) + len(o.boxes))
	boxes, ok := intersectAll(s.boxes, o.boxes, &work)
	if !ok {
		return Selection{}, tooManyBoxes("intersection", s.describeSizes(o))
	}
	return normalize(s.base, boxes), nil
}

// Without is the ranks of s that are not in o. Both must be of equal extents.
func (s Selection) Without(o Selection) (Selection, error) {
	if err := s.checkSameExtent(o); err != nil {
		return Selection{}, err
	}
	work := budget(len(s.boxes) + len(o.boxes))
	left := s.boxes
	for _, cut := range o.boxes {
		var next []box
		for _, b := range left {
			pieces := b.subtract(cut)
			if !work.spend(len(pieces)) {
				return Selection{}, tooManyBoxes("difference", s.describeSizes(o))
			}
			next = append(next, pieces...)
		}
		left = next
	}
	return normalize(s.base, append([]box(nil), left...)), nil
}

// checkSameExtent checks that two selections are of one extent.
func (s Selection) checkSameExtent(o Selection) error {
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

// describeSizes tells two selections by their sizes, for errors: their texts may be long.
func (s Selection) describeSizes(o Selection) string {
	return fmt.Sprintf("%d and %d regions", len(s.boxes), len(o.boxes))
}

// intersectAll is the intersection of two unions of boxes; false when it is too much work.
func intersectAll(a, b []box, work *budget) ([]box, bool) {
	var out []box
	for _, left := range a {
		if !work.spend(len(b)) {
			return nil, false
		}
		for _, right := range b {
			if both, ok := left.intersect(right); ok {
				out = append(out, both)
			}
		}
	}
	return out, true
}
