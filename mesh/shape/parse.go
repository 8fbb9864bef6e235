package shape

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// ParseSelection reads the selection language of the package's documentation. The error for a text
// with `?` wraps ErrRandom.
func ParseSelection(base Extent, text string) (Selection, error) {
	return DrawSelection(base, text, nil)
}

// DrawSelection is ParseSelection, and puts a random index of its dimension for each `?`. It is
// drawn once, here: the selection says which it was.
func DrawSelection(base Extent, text string, from *rand.Rand) (Selection, error) {
	if base.err != nil {
		return Selection{}, base.err
	}
	switch strings.TrimSpace(text) {
	case "", "*":
		return Everything(base), nil
	case nothing:
		return Selection{base: base}, nil
	}
	tree, err := parse(text, from)
	if err != nil {
		return Selection{}, err
	}
	x := expander{base: base, text: text, budget: budget(len(text))}
	boxes, err := x.expand(tree, place{}, nil)
	if err != nil {
		return Selection{}, err
	}
	return normal(base, boxes), nil
}

// CheckSelection reports what is wrong with a text whatever the extent: with its syntax.
func CheckSelection(text string) error {
	if word := strings.TrimSpace(text); word == "" || word == nothing {
		return nil
	}
	_, err := parse(text, nil)
	return err
}

// parse reads the whole text.
func parse(text string, from *rand.Rand) (*expr, error) {
	p := parser{text: text, from: from}
	tree, err := p.union(0)
	if p.space(); err == nil && p.at < len(text) {
		err = p.bad("an operator , & | or the end")
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
	if _, err = s.Region(); err != nil {
		return Region{}, err
	}
	return r.cut(s.boxes[0]), nil
}

// expr is a parsed selection. An operator has two or more parts, an atom none.
type expr struct {
	op    byte // ',' '&' '|', or one of the atoms '*' '?' 'r' (a range) 'i' (an index)
	parts []*expr

	label           string // of an atom, "" if it goes by its place
	begin, end, hop int    // of a range; end -1 is that of the dimension
	draw            uint64
}

// maxNested bounds parentheses in parentheses.
const maxNested = 64

type parser struct {
	text string
	at   int
	from *rand.Rand
}

func (p *parser) bad(want string) error {
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

// space skips white space.
func (p *parser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take reads one character if it comes next.
func (p *parser) take(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) union(nested int) (*expr, error) { return p.list('|', nested, p.inter) }
func (p *parser) inter(nested int) (*expr, error) { return p.list('&', nested, p.chain) }
func (p *parser) chain(nested int) (*expr, error) { return p.list(',', nested, p.atom) }

// list reads parts joined by an operator; a single part stands for itself.
func (p *parser) list(op byte, nested int, part func(int) (*expr, error)) (*expr, error) {
	first, err := part(nested)
	if err != nil || !p.take(op) {
		return first, err
	}
	all := &expr{op: op, parts: []*expr{first}}
	for {
		next, err := part(nested)
		if err != nil {
			return nil, err
		}
		if all.parts = append(all.parts, next); !p.take(op) {
			return all, nil
		}
	}
}

// atom reads `[label=]spec` or a union in parentheses.
func (p *parser) atom(nested int) (*expr, error) {
	if p.take('(') {
		if nested == maxNested {
			return nil, p.bad(fmt.Sprintf("at most %d parentheses in each other", maxNested))
		}
		in, err := p.union(nested + 1)
		if err == nil && !p.take(')') {
			err = p.bad("an operator , & | or a )")
		}
		return in, err
	}
	e := &expr{}
	p.space()
	start := p.at
	if word := p.word(); word != "" && p.take('=') {
		e.label = word
	} else {
		p.at = start
	}
	return e, p.spec(e)
}

// word reads what a label or a number is made of.
func (p *parser) word() string {
	start := p.at
	for p.at < len(p.text) && isWord(p.text[p.at]) {
		p.at++
	}
	return p.text[start:p.at]
}

// spec reads `*`, `?`, an index or a range.
func (p *parser) spec(e *expr) error {
	switch {
	case p.take('*'):
		e.op = '*'
	case p.take('?'):
		if p.from == nil {
			return &Error{What: "selection", Input: p.text, Want: "no ? where nothing is drawn", cause: ErrRandom}
		}
		e.op, e.draw = '?', p.from.Uint64()
	default:
		return p.numbers(e)
	}
	return nil
}

// numbers reads an index, or a range: `a:b:s`, of which a, b, or a and b may be left out, and `:s`.
func (p *parser) numbers(e *expr) error {
	p.space()
	start := p.at
	number := func(def int) (int, bool) {
		p.space()
		if word := p.word(); word != "" {
			return parseInt(word)
		}
		return def, true
	}
	fail := func() error {
		p.at = start
		return p.bad("an index, a:b, a:b:step, *, ? or ( )")
	}
	var ok bool
	if e.begin, ok = number(-1); !ok {
		return fail()
	}
	if !p.take(':') {
		if e.op = 'i'; e.begin < 0 {
			return fail()
		}
		return nil
	}
	e.op, e.hop, e.begin = 'r', 1, max(e.begin, 0)
	if e.end, ok = number(-1); !ok {
		return fail()
	}
	if p.take(':') {
		if e.hop, ok = number(-1); !ok || e.hop < 0 {
			return fail()
		}
	}
	return nil
}
