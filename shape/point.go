package shape

import (
	"fmt"
	"strconv"
	"strings"
)

// Point is a place in an extent. The zero Point is the one of the unit extent.
type Point struct {
	rank   int
	extent Extent
}

// Rank is the point's position in rank order.
func (p Point) Rank() int { return p.rank }

// Extent returns the extent of the point.
func (p Point) Extent() Extent { return p.extent }

// Coords is one coordinate per dimension.
func (p Point) Coords() []int {
	coords := make([]int, len(p.extent.dims))
	rest := p.rank
	for i := len(coords) - 1; i >= 0; i-- {
		size := p.extent.dims[i].Size
		coords[i], rest = rest%size, rest/size
	}
	return coords
}

// Coord is the coordinate along one dimension; false when there is no such dimension.
func (p Point) Coord(label string) (int, bool) {
	i := p.extent.index(label)
	if i < 0 {
		return 0, false
	}
	return p.Coords()[i], true
}

// String is such as `host=0/2,gpu=3/4`; empty in the unit extent.
func (p Point) String() string {
	var b []byte
	for i, c := range p.Coords() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, p.extent.dims[i].Label...), '=')
		b = append(strconv.AppendInt(b, int64(c), 10), '/')
		b = strconv.AppendInt(b, int64(p.extent.dims[i].Size), 10)
	}
	return string(b)
}

// ParsePoint reads the text form (SHP-4).
func ParsePoint(text string) (Point, error) {
	p := Point{}
	for part := range splitList(text) {
		label, place, ok := strings.Cut(part, "=")
		coord, size, ok2 := strings.Cut(place, "/")
		c, good := parseInt(coord)
		n, good2 := parseInt(size)
		if !ok || !ok2 || !good || !good2 {
			return Point{}, &Error{What: "point", Input: text,
				Want: "label=coordinate/size,label=coordinate/size…, such as host=0/2,gpu=3/4"}
		}
		p.extent = p.extent.With(label, n)
		if p.extent.err != nil {
			return Point{}, fmt.Errorf("point %.200q: %w", text, p.extent.err)
		}
		if c >= n {
			return Point{}, &Error{What: "point", Input: text,
				Want: fmt.Sprintf("a coordinate of %s from 0 to %d", label, n-1)}
		}
		p.rank = p.rank*n + c
	}
	return p, nil
}

// MarshalText is the text form.
func (p Point) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the text form.
func (p *Point) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePoint(string(text))
	return err
}
