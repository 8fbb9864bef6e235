package shape

import (
	"cmp"
	"fmt"
	"strconv"
)

// maxWork bounds the boxes made, and the pairs of boxes compared, by one operation beyond the size
// of its input: (0|1),(0|1),… doubles with each part.
const maxWork = 1 << 17

// budget counts that work down.
type budget int

// spend takes n of the budget; false when it is used up.
func (b *budget) spend(n int) bool {
	*b -= budget(n)
	return *b > -maxWork
}

func tooManyBoxes(text string) error {
	return &Error{What: "selection", Input: text,
		Want: fmt.Sprintf("at most %d regions when it is multiplied out", maxWork)}
}

// expander multiplies a parsed selection out into boxes.
type expander struct {
	base   Extent
	text   string
	budget budget
}

// chainPos is the position in a chain: the next dimension, and the dimensions named before.
type chainPos struct {
	dim  int
	used uint32
}

// continuation is the rest of the chains around an expression.
type continuation struct {
	e    *expr
	next *continuation
}

// expand is the boxes of an expression and of what follows it. A union in a chain is as if the
// rest of the chain stood behind each of its parts, and so is an intersection.
func (x *expander) expand(e *expr, at chainPos, then *continuation) ([]box, error) {
	switch e.op {
	case ',':
		for i := len(e.parts) - 1; i > 0; i-- {
			then = &continuation{e.parts[i], then}
		}
		return x.expand(e.parts[0], at, then)
	case '|':
		var all []box
		for _, part := range e.parts {
			boxes, err := x.expand(part, at, then)
			if err != nil {
				return nil, err
			}
			all = append(all, boxes...)
		}
		return sortUnique(all), nil
	case '&':
		all, err := x.expand(e.parts[0], at, then)
		for _, part := range e.parts[1:] {
			if err != nil {
				return nil, err
			}
			boxes, failed := x.expand(part, at, then)
			if failed != nil {
				return nil, failed
			}
			all, err = x.intersect(all, boxes)
		}
		return all, err
	}
	return x.atom(e, at, then)
}

func (x *expander) intersect(a, b []box) ([]box, error) {
	both, ok := intersectAll(a, b, &x.budget)
	if !ok {
		return nil, tooManyBoxes(x.text)
	}
	return sortUnique(both), nil
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

// atom is the boxes of what follows an atom, cut down along the atom's dimension.
func (x *expander) atom(e *expr, at chainPos, then *continuation) ([]box, error) {
	grid := x.base.grid()
	if e.label != "" {
		at.dim = x.base.index(e.label)
		if at.dim < 0 {
			return nil, &Error{What: "dimension", Input: e.label, Want: "one of: " + x.base.labels()}
		}
	}
	if at.dim >= len(grid) {
		return nil, &Error{What: "selection", Input: x.text,
			Want: fmt.Sprintf("no part beyond the last dimension of %q", x.base)}
	}
	d := grid[at.dim]
	if at.used&(1<<at.dim) != 0 {
		return nil, &Error{What: "selection", Input: x.text, Want: "each dimension once: " + d.name() +
			" appears twice"}
	}
	s, err := e.span(d)
	if err != nil {
		return nil, err
	}
	boxes := []box{wholeBox(grid)}
	if then != nil {
		boxes, err = x.expand(then.e, chainPos{at.dim + 1, at.used | 1<<at.dim}, then.next)
		if err != nil {
			return nil, err
		}
	}
	if !x.budget.spend(1 + len(boxes)) {
		return nil, tooManyBoxes(x.text)
	}
	for _, b := range boxes {
		b[at.dim] = s // whole until now: along a chain a dimension is spoken of once
	}
	return boxes, nil
}

// span is an atom's part of a dimension. An end beyond the size means the size.
func (e *expr) span(d Dim) (span, error) {
	switch e.op {
	case '*':
		return span{0, d.Size, 1}, nil
	case 'i':
		if e.begin >= d.Size {
			return span{}, &Error{What: "index of " + d.name(), Input: strconv.Itoa(e.begin),
				Want: fmt.Sprintf("0 to %d", d.Size-1)}
		}
		return span{e.begin, 1, 1}, nil
	}
	end := e.end
	if end < 0 {
		end = d.Size
	}
	return d.span(e.begin, end, e.step)
}

// name is the label for errors; the dimension that an extent without dimensions counts as has none.
func (d Dim) name() string { return cmp.Or(d.Label, "the unit extent") }

// span is the indices begin, begin+step, … before end, which may be beyond the size.
func (d Dim) span(begin, end, step int) (span, error) {
	want := ""
	switch {
	case step < 1:
		want = "a step of at least 1"
	case begin < 0 || begin >= d.Size:
		want = fmt.Sprintf("a begin from 0 to %d", d.Size-1)
	case end <= begin:
		want = "an end after the begin"
	}
	if want != "" {
		return span{}, &Error{
			What:  fmt.Sprintf("slice of %s (size %d)", d.name(), d.Size),
			Input: fmt.Sprintf("%d:%d:%d", begin, end, step),
			Want:  want,
		}
	}
	return newSpan(begin, (min(end, d.Size)-begin-1)/step+1, step), nil
}
