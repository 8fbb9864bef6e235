package wire

import (
	"encoding/binary"
	"reflect"
	"unicode/utf8"
)

// Major types of CBOR.
const (
	majorUint   = 0
	majorNegint = 1
	majorBytes  = 2
	majorText   = 3
	majorArray  = 4
	majorMap    = 5
	majorSimple = 7
)

// measureCBOR returns a lower bound of the memory for reading data by p, up to the limit. For
// malformed data it covers the part before the error, because the decoder finds that first. unknown
// reports fields in data that a struct does not have.
func measureCBOR(data []byte, p *plan, limit int) (taken int, unknown bool) {
	m := cborMeter{data: data, limit: limit}
	whole := m.item(p, 0)
	return m.taken, whole && m.unknown
}

// cborMeter walks over an item and a type together, and allocates nothing.
type cborMeter struct {
	data    []byte
	off     int
	taken   int
	limit   int
	misfits int
	unknown bool
}

// cborHead is the head of an item: its size and argument.
type cborHead struct {
	major, info byte
	arg         uint64
}

// isNull reports null, or undefined.
func (h cborHead) isNull() bool { return h.major == majorSimple && (h.info == 22 || h.info == 23) }

func (m *cborMeter) head() (h cborHead, ok bool) {
	if m.off >= len(m.data) {
		return h, false
	}
	b := m.data[m.off]
	m.off++
	h = cborHead{b >> 5, b & 31, uint64(b & 31)}
	if h.info < 24 {
		return h, h.major != 6
	}
	rest := m.data[m.off:]
	size := 1 << (h.info - 24)
	if h.info > 27 || len(rest) < size || h.major == 6 {
		return h, false
	}
	m.off += size
	switch size {
	case 1:
		h.arg = uint64(rest[0])
	case 2:
		h.arg = uint64(binary.BigEndian.Uint16(rest))
	case 4:
		h.arg = uint64(binary.BigEndian.Uint32(rest))
	default:
		h.arg = binary.BigEndian.Uint64(rest)
	}
	return h, true
}

// count returns the argument of a string, an array or a map whose elements have at least that many
// bytes.
func (m *cborMeter) count(h cborHead, least int) (n int, ok bool) {
	left := uint64(len(m.data) - m.off)
	return int(h.arg), h.arg <= left/uint64(least)
}

// take adds n bytes of memory, and reports whether the limit holds.
func (m *cborMeter) take(n int) bool {
	m.taken += n
	return m.taken <= m.limit
}

// misfit counts an item of the wrong type.
func (m *cborMeter) misfit(h cborHead) bool {
	m.misfits++
	if h.info < 24 {
		return m.take(misfit)
	}
	if h.info < 27 {
		return m.take(misfit + misfitMore)
	}
	return m.take(misfit + 3*misfitMore) // as many digits as there are
}

// item measures one item; false: there is no more to measure.
func (m *cborMeter) item(p *plan, depth int) bool {
	start := m.off
	h, ok := m.head()
	if !ok {
		return false
	}
	if h.isNull() {
		return true
	}
	if p.behind > 0 {
		m.take(p.behind)
	}
	if p.form == foreign {
		m.off = start
		return m.skipItems(1) && m.take(allocated(m.off-start))
	}
	switch h.major {
	case majorBytes, majorText:
		return m.string(p, h)
	case majorArray:
		return depth < maxNested && m.array(p, h, depth+1)
	case majorMap:
		return depth < maxNested && m.pairs(p, h, depth+1)
	}
	return m.scalar(p, h)
}

// scalar measures a number or a boolean.
func (m *cborMeter) scalar(p *plan, h cborHead) bool {
	truth := h.major == majorSimple && (h.info == 20 || h.info == 21)
	switch {
	case p.form == open && h.arg>>63 != 0 && h.major != majorSimple: // the error has all digits
		return m.misfit(h)
	case p.form == open && (h.major == majorNegint || h.arg > 255):
		return m.take(8)
	case p.form == open:
		return true // Go has the small ones at hand
	case p.form == moment:
		return m.take(2 * misfit)
	case truth && p.form == boolean, p.form == number && !truth && p.holds(h):
		return true
	}
	return m.misfit(h)
}

// holds reports whether a number fits p's kind.
func (p *plan) holds(h cborHead) bool {
	broken := h.major == majorSimple && h.info >= 25
	switch k := p.kind; {
	case h.major == majorNegint && h.arg>>63 != 0:
		return false
	case k >= reflect.Float32:
		return k == reflect.Float64 || h.major != majorSimple || h.info < 27
	case k >= reflect.Uint:
		return !broken && h.major != majorNegint && fits(h.arg, p.bits)
	default:
		return !broken && fits(h.arg, p.bits-1)
	}
}

func fits(n uint64, bits int) bool { return bits >= 64 || n>>bits == 0 }

// string measures a byte string or a text.
func (m *cborMeter) string(p *plan, h cborHead) bool {
	n, ok := m.count(h, 1)
	if !ok {
		return false
	}
	m.off += n
	isText := h.major == majorText
	switch {
	case p.form == moment && isText: // it may be none, and the error has it over and over
		return m.take(wrongTime + 14*n)
	case p.form == moment:
		return m.misfit(h)
	case p.form == open && isText:
		return m.take(min(n, 1)*16 + textMade(n))
	case p.form == open:
		return m.take(24 + allocated(n))
	case isText && p.ownText, !isText && p.ownByte:
		return m.take(allocated(n))
	case isText && p.form == text:
		if n == 1 && m.data[m.off-1] >= utf8.RuneSelf { // an error
			m.take(16)
		}
		return m.take(textMade(n))
	case !isText && p.form == list && p.elem.kind == reflect.Uint8:
		return m.take(allocated(n))
	case !isText && p.form == fixed && p.elem.kind == reflect.Uint8:
		return true
	}
	return m.misfit(h)
}

// textMade is the memory of a text, or of the error for an invalid one. Go allocates nothing for
// texts of one byte.
func textMade(n int) int {
	if n <= 1 {
		return 0
	}
	return allocated(max(n, 16))
}

func (m *cborMeter) array(p *plan, h cborHead, depth int) bool {
	n, ok := m.count(h, 1)
	if !ok {
		return false
	}
	switch {
	case p.form == open:
		m.take(24 + allocated(16*n))
		for range n {
			if !m.item(p, depth) {
				return false
			}
		}
		return true
	case p.form == list:
		m.take(headOf + allocated(n*p.elem.size))
	case p.form == fixed:
	case p.form == record && p.tuple && n == len(p.inOrder):
		for _, f := range p.inOrder {
			if !m.member(f, depth) {
				return false
			}
		}
		return true
	default:
		m.misfit(h)
		return m.skipItems(n)
	}
	for i := range n {
		if p.form == fixed && i >= p.room {
			return m.skipItems(n - i)
		}
		if !m.item(p.elem, depth) {
			return false
		}
	}
	return true
}

func (m *cborMeter) pairs(p *plan, h cborHead, depth int) bool {
	n, ok := m.count(h, 2)
	if !ok {
		return false
	}
	switch {
	case p.form == open:
		m.take(8)
		return m.table(p.elem, n, depth)
	case p.form == table:
		return m.table(p, n, depth)
	case p.form == record && !p.tuple:
		return m.record(p, n, depth)
	}
	m.misfit(h)
	return m.skipItems(2 * n)
}

// table measures n pairs of a map.
func (m *cborMeter) table(p *plan, n, depth int) bool {
	m.take(mapMade(n, p.slot) + n*p.beside)
	if n > 0 {
		m.take(allocated(p.key.size) + allocated(p.elem.size))
	}
	var keys uint64
	again := false
	for range n {
		start, misfits := m.off, m.misfits
		if !m.item(p.key, depth) {
			return false
		}
		mark := uint64(1) << (sum(m.data[start:m.off]) & 63)
		again = again || keys&mark != 0
		keys |= mark
		if m.misfits > misfits { // an invalid key: its value is not read
			if !m.skipItems(1) {
				return false
			}
		} else if !m.item(p.elem, depth) {
			return false
		}
	}
	if again { // duplicate keys are an error
		m.take(misfit + allocated(p.elem.size))
	}
	return true
}

// sum is a cheap hash of short keys.
func sum(key []byte) (s byte) {
	for _, b := range key[:min(len(key), 32)] {
		s = s*31 + b
	}
	return s
}

// record measures n pairs of a struct. It remembers unknown names, because duplicates are errors.
func (m *cborMeter) record(p *plan, n, depth int) bool {
	if len(p.inOrder) > 128 {
		m.take(allocated(len(p.inOrder)))
	}
	strangers := 0
	for range n {
		start := m.off
		f, ok := m.name(p, depth)
		switch {
		case !ok:
			return false
		case f.plan != nil:
			ok = m.member(f, depth)
		default:
			strangers++
			ok = m.take(16+allocated(m.off-start)) && m.skipItems(1)
		}
		if !ok {
			return false
		}
	}
	if strangers > 0 {
		m.unknown = true
		m.take(mapGrown(strangers, 24))
	}
	return m.taken <= m.limit
}

// name goes past a name, and finds the field.
func (m *cborMeter) name(p *plan, depth int) (f member, ok bool) {
	start := m.off
	h, ok := m.head()
	if !ok {
		return f, false
	}
	switch h.major {
	case majorText:
		n, ok := m.count(h, 1)
		if !ok {
			return f, false
		}
		f = p.byName[string(m.data[m.off:m.off+n])]
		m.off += n
	case majorUint, majorNegint:
		if h.arg>>63 == 0 {
			f = p.byNumber[int64(h.arg)^-int64(h.major)]
		} else {
			m.take(3 * misfitMore)
		}
	default: // invalid, but read before the error
		m.off = start
		return f, m.take(misfit+misfitMore) && m.item(anything, depth)
	}
	return f, true
}

// member measures the value of a field.
func (m *cborMeter) member(f member, depth int) bool {
	misfits := m.misfits
	m.take(f.more)
	ok := m.item(f.plan, depth)
	if m.misfits > misfits {
		m.take(f.label) // the error names it
	}
	return ok
}

// skipItems skips items that are not read.
func (m *cborMeter) skipItems(n int) bool {
	for ; n > 0; n-- {
		h, ok := m.head()
		if !ok {
			return false
		}
		switch h.major {
		case majorBytes, majorText:
			size, ok := m.count(h, 1)
			if !ok {
				return false
			}
			m.off += size
		case majorArray, majorMap:
			more, ok := m.count(h, 1)
			if !ok {
				return false
			}
			n += more * (1 + int(h.major-majorArray))
		}
	}
	return true
}
