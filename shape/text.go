package shape

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// String is the text form `[OFFSET+]label=size/stride,…`.
func (r Region) String() string {
	if r.err != nil {
		return "broken region: " + r.err.Error()
	}
	var b []byte
	if r.offset != 0 {
		b = append(strconv.AppendInt(b, int64(r.offset), 10), '+')
	}
	for i, d := range r.dims {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, d.label...), '=')
		b = append(strconv.AppendInt(b, int64(d.size), 10), '/')
		b = strconv.AppendInt(b, int64(d.stride), 10)
	}
	return string(b)
}

const wantRegion = "[OFFSET+]label=size/stride,label=size/stride…, such as 2+host=2/4,gpu=4/1"

// ParseRegion reads the text form (SHP-4). It accepts what slicing an extent can make and nothing
// else: each stride must jump over everything the faster dimensions span.
func ParseRegion(text string) (Region, error) {
	r, dims := Region{}, text
	if offset, rest, ok := strings.Cut(text, "+"); ok {
		n, good := parseInt(offset)
		if !good || n == 0 {
			return Region{}, &Error{What: "region", Input: text, Want: wantRegion}
		}
		r.offset, dims = n, rest
	}
	e := Extent{} // takes the labels and sizes, to check them as every extent is checked
	for part := range splitList(dims) {
		label, tail, ok := strings.Cut(part, "=")
		size, stride, ok2 := strings.Cut(tail, "/")
		n, good := parseInt(size)
		s, good2 := parseInt(stride)
		if !ok || !ok2 || !good || !good2 || s < 1 {
			return Region{}, &Error{What: "region", Input: text, Want: wantRegion}
		}
		e = e.With(label, n)
		if e.err != nil {
			return Region{}, fmt.Errorf("region %.200q: %w", text, e.err)
		}
		r.dims = append(r.dims, regionDim{label, n, s})
	}
	if want := r.nestingError(); want != "" {
		return Region{}, &Error{What: "region", Input: text, Want: want}
	}
	return r, nil
}

// nestingError is the error in the offset and strides, "" if they nest. Nesting lets ViewRank
// remove the coordinates one by one (SHP-1).
func (r Region) nestingError() string {
	span := 0 // the largest distance within the dimensions so far, the fastest first
	for _, d := range slices.Backward(r.dims) {
		if d.size == 1 {
			continue // its stride is never taken
		}
		if d.stride <= span {
			return fmt.Sprintf("a stride above %d for %s", span, d.label)
		}
		if d.stride > (MaxRanks-1-span)/(d.size-1) {
			return fmt.Sprintf("ranks below %d", MaxRanks)
		}
		span += d.stride * (d.size - 1)
	}
	if r.offset > MaxRanks-1-span {
		return fmt.Sprintf("ranks below %d", MaxRanks)
	}
	return ""
}

// MarshalText is the text form.
func (r Region) MarshalText() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads the text form.
func (r *Region) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRegion(string(text))
	return err
}

// splitList yields the parts of a comma separated list; the empty text has none.
func splitList(text string) iter.Seq[string] {
	if text == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(text, ",")
}

// parseInt reads a number up to MaxRanks, without sign or leading zeros.
func parseInt(s string) (int, bool) {
	if s == "" || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		digit := int(c) - '0'
		if digit < 0 || digit > 9 || n > (MaxRanks-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}
