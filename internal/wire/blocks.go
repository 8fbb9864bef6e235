package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
)

// leastLong is a lower bound of the encoded size of a list or a map that needs blocks.
const leastLong = 2 * ownPairs

// inBlocks returns the encoding of v, with its long lists and maps in blocks if v is castnet's own
// (WIRE-7).
func inBlocks(data []byte, v any) ([]byte, error) {
	t := reflect.TypeOf(v)
	if !own(t) {
		return data, nil
	}
	if t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t)
	}
	return cutter{elements: ownElements, pairs: ownPairs}.recut(data, CBOR.planTo(t))
}

// joined is data with its blocks put together; nil when there are none. It takes as much memory as
// data has.
func joined(data []byte, p *plan) ([]byte, error) {
	if len(data) <= leastLong {
		return nil, nil
	}
	if err := codecs.own.lenient.Wellformed(data); err != nil {
		return nil, err
	}
	return cutter{elements: ownElements, pairs: ownPairs, joins: true}.recut(data, p)
}

// cutter walks an encoding along its type, and cuts long lists and maps into blocks, or joins the
// blocks.
type cutter struct {
	cborMeter // only reads
	elements  int
	pairs     int // in a block
	joins     bool

	out  []byte
	from int // in data: everything before it is in out
	err  error
}

// recut is data as it is to be; when it joins and there are no blocks, nil.
func (c cutter) recut(data []byte, p *plan) ([]byte, error) {
	c.data, c.limit = data, math.MaxInt
	switch ok := c.item(p); {
	case c.err != nil:
		return nil, c.err
	case ok && c.out != nil:
		return append(c.out, data[c.from:]...), nil
	case c.joins:
		return nil, nil
	}
	return data, nil
}

// item goes past an item; false: there is nothing more to do.
func (c *cutter) item(p *plan) bool {
	start := c.off
	h, ok := c.head()
	isArray, isMap := h.major == majorArray, h.major == majorMap
	switch {
	case !ok:
		return false
	case isArray && p.form == list && c.joins && c.inBlocks(p):
		return c.join(h, start, majorArray, p.elem)
	case isArray && p.form == table && c.joins:
		return c.join(h, start, majorMap, p.key, p.elem)
	case isArray && p.form == list:
		return c.cut(h, start, p.elem.lists() >= 0, p.elem)
	case isMap && p.form == table:
		return c.cut(h, start, true, p.key, p.elem)
	case isMap && p.form == record && !p.tuple:
		return c.fields(h, p)
	}
	c.off = start
	return c.skipItems(1)
}

// lists is the number of arrays around an item read by p: 0, or 1 if the item is a list. A list
// then differs from its blocks, which have one array more. -1: unknown.
func (p *plan) lists() int {
	if p.apart() {
		return 0
	}
	if p.form == list && p.elem.apart() && p.elem.behind == 0 && p.elem.form != list { // no element is null
		return 1
	}
	return -1
}

// apart reports whether an item read by p is never an array.
func (p *plan) apart() bool {
	switch p.form {
	case number, boolean, text, moment:
		return true
	case record:
		return !p.tuple
	case list:
		return p.elem.kind == reflect.Uint8
	}
	return false
}

// inBlocks reports whether the blocks of a list follow, and not its elements.
func (c *cutter) inBlocks(p *plan) bool {
	within, ahead := p.elem.lists(), c.cborMeter
	first, _ := ahead.head()
	// the first of two blocks is full
	if within < 0 || first.major != majorArray || int(first.arg) != c.elements {
		return false
	}
	h, _ := ahead.head()
	return within == 0 || h.major == majorArray || h.isNull() // null is a list, too
}

func (c *cutter) fields(h cborHead, p *plan) bool {
	for range h.arg {
		f, ok := c.name(p, 0)
		switch {
		case !ok:
			return false
		case f.plan == nil:
			ok = c.skipItems(1)
		default:
			ok = c.item(f.plan)
		}
		if !ok {
			return false
		}
	}
	return true
}

// cut goes past the elements of a list, or the pairs of a map, and cuts them when they are too
// many.
func (c *cutter) cut(h cborHead, start int, may bool, each ...*plan) bool {
	n, size := int(h.arg), c.block(h.major)
	if c.joins || n <= size {
		return c.run(n, each)
	}
	if !may {
		c.err = fmt.Errorf("%d elements of a list that cannot be split: want at most %d", n, size)
		return false
	}
	c.write(start, majorArray, (n+size-1)/size)
	for ; n > 0; n -= size {
		c.write(c.off, h.major, min(n, size))
		if !c.run(min(n, size), each) {
			return false
		}
	}
	return true
}

var errBlocks = errors.New("a list of blocks: want two or more, all but the last full")

// join puts the blocks of a list or a map together.
func (c *cutter) join(h cborHead, start int, major byte, each ...*plan) bool {
	blocks := int(h.arg)
	size := c.block(major)
	all := 0
	c.write(start, major, math.MaxUint32)
	total := len(c.out) - 4
	for left := blocks; left > 0; left-- {
		start = c.off
		h, ok := c.head()
		n := int(h.arg)
		if !ok || h.major != major || blocks < 2 || n < 1 || n > size || left > 1 && n < size {
			c.err = errBlocks
			return false
		}
		c.skipTo(start)
		all += n
		if !c.run(n, each) {
			return false
		}
	}
	binary.BigEndian.PutUint32(c.out[total:], uint32(all))
	return true
}

func (c *cutter) run(n int, each []*plan) bool {
	for range n {
		for _, p := range each {
			if !c.item(p) {
				return false
			}
		}
	}
	return true
}

// block is how much is in one at most.
func (c *cutter) block(major byte) int {
	if major == majorMap {
		return c.pairs
	}
	return c.elements
}

// skipTo omits the data up to end.
func (c *cutter) skipTo(end int) {
	if c.out == nil {
		c.out = make([]byte, 0, len(c.data))
	}
	c.out = append(c.out, c.data[c.from:end]...)
	c.from = c.off
}

// write replaces the data up to end by a head.
func (c *cutter) write(end int, major byte, n int) {
	c.skipTo(end)
	c.out = appendLength(c.out, major<<5, n)
}
