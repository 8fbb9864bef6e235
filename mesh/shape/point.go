package shape

import "strconv"

// Point is a place in an extent. The zero Point is the one of the unit extent.
type Point struct {
	rank   int
	extent Extent
}

// Rank is the point's position in rank order.
func (p Point) Rank() int { return p.rank }

// Extent is what the point is a place in.
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
