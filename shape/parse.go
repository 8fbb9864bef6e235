package shape

import (
	"fmt"
	"strings"
)

// ParseSelection reads the selection language of the package's documentation.
func ParseSelection(base Extent, text string) (Selection, error) {
	if base.err != nil {
		return Selection{}, base.err
	}
	switch strings.TrimSpace(text) {
	case "", "*":
		return Everything(base), nil
	case emptyText:
		return Selection{base: base}, nil
	}
	tree, err := parse(text)
	if err != nil {
		return Selection{}, err
	}
	x := expander{base: base, text: text, budget: budget(len(text))}
	boxes, err := x.expand(tree, chainPos{}, nil)
	if err != nil {
		return Selection{}, err
	}
	return normalize(base, boxes), nil
}

// CheckSelection reports syntax errors of a text, which hold for any extent.
func CheckSelection(text string) error {
	if word := strings.TrimSpace(text); word == "" || word == emptyText {
		return nil
	}
	_, err := parse(text)
	return err
}

// parse reads the whole text.
func parse(text string) (*expr, error) {
	p := parser{text: text}
	tree, err := p.union(0)
	p.skipSpace()
	if err == nil && p.at < len(text) {
		err = p.syntaxError("an operator , & | or the end")
	}
	return tree, err
}

// Select reads a selection that is a single region, such as `host=0:2,gpu=3`.
func Select(base Extent, text string) (Region, error) { return base.Region().Select(text) }

// Select is the part of a region that a selection of its own extent stands for.
func (r Region) Select(text string) (Region, error) {
	s, err := ParseSelection(r.Extent(), text)
	if err != nil {
		return Region{}, err
	}
	if _, err := s.Region(); err != nil {
		return Region{}, err
	}
	return r.subRegion(s.boxes[0]), nil
}

// expr is a parsed selection. An operator has two or more parts, an atom none.
type expr struct {
	op    byte // ',' '&' '|', or one of the atoms '*' 'r' (a range) 'i' (an index)
	parts []*expr

	label            string // of an atom, "" if it goes by its place
	begin, end, step int    // of a range; end -1 is that of the dimension
}

// maxSelectionDepth bounds parentheses in parentheses.
const maxSelectionDepth = 64

type parser struct {
	text string
	at   int
}

func (p *parser) syntaxError(want string) error {
	rest := p.text[p.at:]
	if rest == "" {
		rest = "the end"
	} else if len(rest) > 20 {
		rest = fmt.Sprintf("%q…", rest[:20])
	} else {
		rest = fmt.Sprintf("%q", rest)
	}
	return &Error{What: "selection", Input: p.text, Want: want + " at " + rest}
}

// skipSpace skips white space.
func (p *parser) skipSpace() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// accept reads one character if it comes next.
func (p *parser) accept(c byte) bool {
	p.skipSpace()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) union(nested int) (*expr, error)        { return p.list('|', nested, p.intersection) }
func (p *parser) intersection(nested int) (*expr, error) { return p.list('&', nested, p.chain) }
func (p *parser) chain(nested int) (*expr, error)        { return p.list(',', nested, p.atom) }

// list reads parts joined by an operator; a single part stands for itself.
func (p *parser) list(op byte, nested int, part func(int) (*expr, error)) (*expr, error) {
	first, err := part(nested)
	if err != nil || !p.accept(op) {
		return first, err
	}
	all := &expr{op: op, parts: []*expr{first}}
	for {
		next, err := part(nested)
		if err != nil {
			return nil, err
		}
		all.parts = append(all.parts, next)
		if !p.accept(op) {
			return all, nil
		}
	}
}

// atom reads `[label=]spec` or a union in parentheses.
func (p *parser) atom(nested int) (*expr, error) {
	if p.accept('(') {
		if nested == maxSelectionDepth {
			return nil, p.syntaxError(fmt.Sprintf("at most %d parentheses in each other", maxSelectionDepth))
		}
		in, err := p.union(nested + 1)
		if err == nil && !p.accept(')') {
			err = p.syntaxError("an operator , & | or a )")
		}
		return in, err
	}
	e := &expr{}
	p.skipSpace()
	start := p.at
	if word := p.readWord(); word != "" && p.accept('=') {
		e.label = word
	} else {
		p.at = start
	}
	return e, p.spec(e)
}

// readWord reads what a label or a number is made of.
func (p *parser) readWord() string {
	start := p.at
	for p.at < len(p.text) && isLabelChar(p.text[p.at]) {
		p.at++
	}
	return p.text[start:p.at]
}

// spec reads `*`, an index or a range.
func (p *parser) spec(e *expr) error {
	if p.accept('*') {
		e.op = '*'
		return nil
	}
	return p.numbers(e)
}

// numbers reads an index, or a range: `a:b:s`, of which a, b, or a and b may be left out, and `:s`.
func (p *parser) numbers(e *expr) error {
	p.skipSpace()
	start := p.at
	number := func(def int) (int, bool) {
		p.skipSpace()
		if word := p.readWord(); word != "" {
			return parseInt(word)
		}
		return def, true
	}
	fail := func() error {
		p.at = start
		return p.syntaxError("an index, a:b, a:b:step, * or ( )")
	}
	var ok bool
	e.begin, ok = number(-1)
	if !ok {
		return fail()
	}
	if !p.accept(':') {
		if e.begin < 0 {
			return fail()
		}
		e.op = 'i'
		return nil
	}
	e.op = 'r'
	e.step = 1
	e.begin = max(e.begin, 0)
	e.end, ok = number(-1)
	if !ok {
		return fail()
	}
	if p.accept(':') {
		e.step, ok = number(-1)
		if !ok || e.step < 0 {
			return fail()
		}
	}
	return nil
}
