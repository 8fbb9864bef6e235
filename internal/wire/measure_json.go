package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"unicode/utf8"
)

// maxDeep is how many levels encoding/json reads.
const maxDeep = 10_000

// measureJSON is measureCBOR for a JSON text.
func measureJSON(data []byte, p *plan, limit int) (taken int) {
	m := jsonMeter{data: data, limit: limit}
	m.value(p, 0)
	return m.taken
}

// jsonMeter walks over a value and a type together.
type jsonMeter struct {
	data  []byte
	off   int
	taken int
	limit int
}

func (m *jsonMeter) take(n int) bool {
	m.taken += n
	return m.taken <= m.limit
}

// next returns the next byte after spaces, without consuming it; 0 at the end.
func (m *jsonMeter) next() byte {
	for m.off < len(m.data) {
		switch c := m.data[m.off]; c {
		case ' ', '\t', '\n', '\r':
			m.off++
		default:
			return c
		}
	}
	return 0
}

// more consumes a comma, or the end of a container; ok reports one of the two.
func (m *jsonMeter) more(end byte) (more, ok bool) {
	c := m.next()
	m.off++
	return c == ',', c == ',' || c == end
}

// quoted is the next text with its quotes.
func (m *jsonMeter) quoted() (raw []byte, escaped, ok bool) {
	if m.next() != '"' {
		return nil, false, false
	}
	start := m.off
	for m.off++; m.off < len(m.data); m.off++ {
		switch m.data[m.off] {
		case '\\':
			escaped = true
			m.off++
		case '"':
			m.off++
			return m.data[start:m.off], escaped, true
		}
	}
	return nil, false, false
}

// value measures one value. Without a plan the value is skipped; false: the measuring is over.
func (m *jsonMeter) value(p *plan, depth int) bool {
	if depth > maxDeep {
		return false
	}
	c := m.next()
	start := m.off
	if p != nil && c != 'n' {
		m.take(p.behind)
		if p.form == foreign {
			return m.value(nil, depth) && m.take(allocated(m.off-start))
		}
	}
	switch c {
	case 0:
		return false
	case '{':
		return m.object(p, depth+1)
	case '[':
		return m.array(p, depth+1)
	case '"':
		raw, escaped, ok := m.quoted()
		return ok && m.text(p, raw, escaped)
	}
	if n := bytes.IndexAny(m.data[m.off:], ",]} \t\n\r"); n >= 0 {
		m.off += n
	} else {
		m.off = len(m.data)
	}
	return m.off > start && m.literal(p, m.data[start:m.off])
}

// literal measures a number in its written form, or another literal.
func (m *jsonMeter) literal(p *plan, raw []byte) bool {
	isNumber := raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
	switch {
	case p == nil, raw[0] == 'n':
		return true
	case p.form == open && !isNumber, p.form == boolean && !isNumber:
		return true
	case p.form == open && m.take(8+textMade(len(raw))) && fitsFloat(raw, 64):
		return true
	case p.form == number && isNumber && p.holdsJSON(raw):
		return true
	case isNumber && (p.form == number || !fitsFloat(raw, 64)): // an any reports numbers it cannot hold
		return m.take(misfitJSON + quotedJSON + 3*len(raw))
	}
	return m.take(misfitJSON + len(raw))
}

// holdsJSON reports whether a number fits p's kind.
func (p *plan) holdsJSON(raw []byte) bool {
	if p.kind >= reflect.Float32 {
		return fitsFloat(raw, p.bits)
	}
	bits := p.bits
	if p.kind < reflect.Uint {
		bits--
		raw = bytes.TrimPrefix(raw, []byte("-"))
	}
	n := uint64(0)
	for _, c := range raw {
		if c < '0' || c > '9' || n > (1<<63)/10 {
			return false
		}
		n = n*10 + uint64(c-'0')
	}
	return fits(n, bits)
}

// fitsFloat reports whether a number is surely within the range of a float.
func fitsFloat(raw []byte, bits int) bool {
	most := 30
	exponent := 0
	if bits == 64 {
		most = 290
	}
	digits, e := raw, bytes.IndexAny(raw, "eE")
	if e >= 0 {
		digits = raw[:e]
		for _, c := range raw[e+1:] {
			if c == '-' {
				break
			}
			if c >= '0' && c <= '9' && exponent < most {
				exponent = exponent*10 + int(c-'0')
			}
		}
	}
	return len(digits)+exponent <= most
}

// unquote measures a text that differs from its written form.
func (m *jsonMeter) unquote(raw []byte, escaped bool) {
	if !utf8.Valid(raw) { // each wrong byte becomes three, in a growing buffer
		m.take(allocated(12 * len(raw)))
	} else if escaped {
		m.take(allocated(len(raw) + 8))
	}
}

// text measures a text as it is written.
func (m *jsonMeter) text(p *plan, raw []byte, escaped bool) bool {
	m.unquote(raw, escaped)
	n := len(raw) - 2
	switch {
	case p == nil:
		return true
	case p.form == open:
		return m.take(min(n, 1)*32 + textMade(n))
	case p.form == text, p.ownText, p.form == list && p.elem.kind == reflect.Uint8:
		return m.take(textMade(n))
	}
	return m.take(misfitJSON)
}

func (m *jsonMeter) array(p *plan, depth int) bool {
	m.off++
	var elem *plan
	size := 0
	if p != nil {
		switch p.form {
		case open:
			elem, size = p, 16
			m.take(24)
		case list:
			elem, size = p.elem, p.elem.size
		case fixed:
			elem = p.elem
		default:
			m.take(misfitJSON)
		}
	}
	n := 0
	if m.next() == ']' {
		m.off++
		return m.take(headOf)
	}
	for more := true; more; n++ {
		if p != nil && p.form == fixed && n == p.room {
			elem = nil
		}
		ok := m.value(elem, depth)
		if ok {
			more, ok = m.more(']')
		}
		if !ok {
			m.take(grown(n, size))
			return false
		}
	}
	return m.take(grown(n, size))
}

func (m *jsonMeter) object(p *plan, depth int) bool {
	m.off++
	t := p
	if p != nil && p.form == open {
		t = p.elem
	}
	if t != nil && t.form != table && t.form != record {
		m.take(misfitJSON)
		t = nil
	}
	if m.next() == '}' {
		m.off++
		return t == nil || t.form != table || m.take(mapHead)
	}
	n := 0
	for more := true; more; n++ {
		raw, escaped, ok := m.quoted()
		if !ok {
			return false
		}
		elem := m.key(t, raw, escaped, p == t)
		if m.next() != ':' {
			return false
		}
		m.off++
		if !m.value(elem, depth) {
			return false
		}
		more, ok = m.more('}')
		if !ok {
			return false
		}
	}
	if t != nil && t.form == table {
		m.take(mapGrown(n, t.slot) + allocated(t.elem.size))
	}
	return m.taken <= m.limit
}

// key measures a key and returns the plan of its value; nil: the value is skipped.
func (m *jsonMeter) key(t *plan, raw []byte, escaped, typed bool) *plan {
	inner := raw[1 : len(raw)-1]
	m.unquote(raw, escaped)
	if t == nil {
		return nil
	}
	if t.form == table {
		m.take(textMade(len(inner)))
		if typed {
			m.take(t.beside)
		}
		return t.elem
	}
	if f, ok := t.byName[string(inner)]; ok && !escaped {
		m.take(f.more)
		return f.plan
	}
	m.take(misfitJSON + 2*len(raw))
	name := string(inner)
	if escaped {
		m.take(2*misfitJSON + 2*len(raw))
		if json.Unmarshal(raw, &name) != nil {
			return nil
		}
	}
	for _, f := range t.inOrder {
		if strings.EqualFold(f.name, name) {
			m.take(f.more)
			return f.plan
		}
	}
	return nil
}
