package wire

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// form is how a type is read.
type form byte

const (
	other form = iota // nothing is read into it: a channel, an interface with methods
	number
	boolean
	text
	open    // an any: the data decides
	list    // a slice
	fixed   // an array
	table   // a map
	record  // a struct
	moment  // a time, a text in CBOR
	foreign // decoded by a method of its own, not measured
)

// plan is the memory model of a type's values when they are read.
type plan struct {
	form form
	kind reflect.Kind
	name string
	size int // within its container

	behind  int  // the memory of pointers on the way to it
	ownText bool // texts are read by its own method
	ownByte bool // byte strings are
	room    int  // of an array
	bits    int  // of a number
	tuple   bool // a struct encoded as an array

	key, elem *plan
	slot      int // of a map, for a pair
	beside    int // of a map: for each pair, besides its slot
	byName    map[string]member
	byNumber  map[int64]member
	inOrder   []member

	worst   int  // upper bound of the memory per byte of any body
	records bool // there are structs in it, so it may be read twice
	own     bool // castnet's own type
}

// member is a field of a struct.
type member struct {
	*plan
	name  string
	more  int // the embedded structs behind pointers on the way to it
	label int // the memory of its name in an error
}

// The memory of errors for items of the wrong type.
const (
	misfit     = 64  // an item of one byte
	misfitMore = 112 // numbers are quoted
	misfitJSON = 96
	quotedJSON = 160 // and its digits, three times
	wrongTime  = 512
	headOf     = 24 // of a slice allocated by reflection
)

// planner makes plans of types, including recursive ones.
type planner struct {
	format Format
	made   map[reflect.Type]*plan
	seen   map[*plan]bool // by reach
}

func newPlan(f Format, t reflect.Type) *plan {
	pl := planner{f, map[reflect.Type]*plan{}, map[*plan]bool{}}
	top := *pl.plan(t)
	top.worst, top.records = pl.reach(&top)
	top.own = own(t)
	return &top
}

// reach is the highest memory per byte of p and everything within it, and whether there are
// structs. It is rough: it decides only on bodies that need no measuring.
func (pl planner) reach(p *plan) (worst int, records bool) {
	if pl.seen[p] {
		return 0, false
	}
	pl.seen[p] = true
	worst, records = pl.own(p), p.form == record
	with := func(q *plan, held int) {
		if pl.format == JSON {
			held /= 2 // there is a comma between them
		}
		w, r := pl.reach(q)
		worst = max(worst, w, held+pl.own(q))
		records = records || r
	}
	switch {
	case p.form == list && pl.format == JSON:
		with(p.elem, 7*p.elem.size) // outgrown arrays of a slice are garbage
	case p.form == list:
		with(p.elem, p.elem.size+p.elem.size/6+headOf)
	case p.form == fixed:
		with(p.elem, 0)
	case p.form == table:
		with(p.key, 0)
		with(p.elem, 5*p.slot+p.beside)
	}
	for _, m := range p.inOrder {
		with(m.plan, m.more+m.label)
	}
	return worst, records
}

// own is an upper bound of the memory per byte of an item read by p, with all the maps possible in
// an any.
func (pl planner) own(p *plan) int {
	few := pl.format == JSON // each item takes more bytes
	switch {
	case p.form == open && few:
		return p.behind + 80 // {"":…}: 336
	case p.form == open:
		return p.behind + 224 // a1 60 …: 376
	case p.form == record && !few:
		return p.behind + 176 // a1 a0 …: 496, to report an invalid name
	case p.form == table:
		return p.behind + max(mapHead, (mapMade(1, p.slot)+allocated(p.key.size)+allocated(p.elem.size))/2)
	case p.form == moment:
		return p.behind + wrongTime
	case p.form == foreign:
		return p.behind + 16
	case few:
		return p.behind + (misfitJSON+quotedJSON+12)/3
	}
	return p.behind + (misfit+misfitMore)/2
}

// reads reports whether pointers to t have a decoding method.
func reads[I any](t reflect.Type) bool { return reflect.PointerTo(t).Implements(reflect.TypeFor[I]()) }

// foreign reports whether the type decodes all input itself.
func (pl planner) foreign(t reflect.Type) bool {
	if pl.format == JSON {
		return reads[json.Unmarshaler](t)
	}
	return reads[cbor.Unmarshaler](t)
}

func (pl planner) plan(t reflect.Type) *plan {
	if p := pl.made[t]; p != nil {
		return p
	}
	p := &plan{size: int(t.Size()), name: t.String()}
	pl.made[t] = p
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
		p.behind += allocated(int(t.Size()))
	}
	p.kind = t.Kind()
	p.ownText = reads[encoding.TextUnmarshaler](t)
	p.ownByte = pl.format == CBOR && reads[encoding.BinaryUnmarshaler](t)
	switch {
	case pl.foreign(t):
		p.form = foreign
	case t == reflect.TypeFor[time.Time]():
		p.form = moment
	default:
		pl.fill(p, t)
	}
	return p
}

// fill sets the memory of a type read by its kind.
func (pl planner) fill(p *plan, t reflect.Type) {
	switch t.Kind() {
	case reflect.Bool:
		p.form = boolean
	case reflect.String:
		p.form = text
	case reflect.Interface:
		if t.NumMethod() == 0 {
			p.form = open
			p.elem = pl.plan(reflect.TypeFor[map[string]any]())
		}
	case reflect.Slice:
		p.form = list
		p.elem = pl.plan(t.Elem())
	case reflect.Array:
		p.form = fixed
		p.elem = pl.plan(t.Elem())
		p.room = t.Len()
	case reflect.Map:
		if pl.format == JSON && !isName(t.Key()) {
			return
		}
		p.form = table
		p.key = pl.plan(t.Key())
		p.elem = pl.plan(t.Elem())
		pl.pairs(p)
	case reflect.Struct:
		p.form = record
		pl.members(p, t)
	default:
		if t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 {
			p.form = number
			p.bits = t.Bits()
		}
	}
}

// isName reports whether encoding/json makes keys of the type.
func isName(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr ||
		reads[encoding.TextUnmarshaler](t)
}

// pairs sets the memory of a map's pair: large values are behind a pointer.
func (pl planner) pairs(p *plan) {
	const large = 128
	for _, held := range []*plan{p.key, p.elem} {
		size := max(held.size, 1)
		if size > large {
			p.beside += allocated(size)
			size = 8
		}
		p.slot += (size + 7) &^ 7
	}
	if pl.format == JSON {
		p.beside += allocated(p.key.size)
	}
}

// found is a field as its tag has it.
type found struct {
	reflect.StructField
	name   string
	tagged bool
	number bool
	more   int
}

// members finds the fields of a struct as the decoders do: of those with one name the outermost,
// and of these the one with a tag.
func (pl planner) members(p *plan, t reflect.Type) {
	p.byName, p.byNumber = map[string]member{}, map[int64]member{}
	p.tuple = pl.format == CBOR && isTuple(t)
	seen := map[reflect.Type]bool{}
	named := map[string]bool{}
	for level := []found{{StructField: reflect.StructField{Type: t}}}; len(level) > 0; {
		var here, next []found
		for i, s := range level {
			st := pointee(s.Type)
			again := func(o found) bool { return pointee(o.Type) == st }
			if seen[st] || slices.ContainsFunc(level[:i], again) || slices.ContainsFunc(level[i+1:], again) {
				continue
			}
			for f := range st.Fields() {
				pl.field(f, s.more, &here, &next)
			}
		}
		for _, f := range unambiguous(here, named) {
			p.add(f, pl.plan(f.Type))
		}
		for _, s := range level {
			seen[pointee(s.Type)] = true
		}
		level = next
	}
}

func pointee(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

func (p *plan) add(f found, q *plan) {
	m := member{plan: q, name: f.name, more: f.more, label: allocated(len(p.name) + 1 + len(f.name))}
	p.inOrder = append(p.inOrder, m)
	if n, err := strconv.ParseInt(f.name, 10, 64); f.number && err == nil {
		p.byNumber[n] = m
	} else if !f.number {
		p.byName[f.name] = m
	}
}

// field adds a field to the current level, or an embedded struct to the next level.
func (pl planner) field(f reflect.StructField, more int, here, next *[]found) {
	inner := pointee(f.Type)
	if f.Anonymous && inner != f.Type {
		more += allocated(int(inner.Size()))
	}
	embedded := f.Anonymous && inner.Kind() == reflect.Struct
	tag := f.Tag.Get("json")
	if own := f.Tag.Get("cbor"); pl.format == CBOR && own != "" {
		tag = own
	}
	if tag == "-" || !f.IsExported() && !embedded {
		return
	}
	name, options, _ := strings.Cut(tag, ",")
	if embedded && name == "" {
		*next = append(*next, found{StructField: f, more: more})
		return
	}
	one := found{StructField: f, name: name, tagged: name != "", more: more}
	one.number = pl.format == CBOR && strings.Contains(","+options+",", ",keyasint,")
	if name == "" {
		one.name = f.Name
	}
	*here = append(*here, one)
}

// unambiguous returns the fields of a level whose names are unique there and unused on the levels
// above.
func unambiguous(here []found, named map[string]bool) (kept []found) {
	best := map[string][]found{}
	for _, f := range here {
		key := f.name + "\x00" + strconv.FormatBool(f.number)
		if rivals := best[key]; len(rivals) == 0 || rivals[0].tagged == f.tagged {
			best[key] = append(rivals, f)
		} else if f.tagged {
			best[key] = []found{f}
		}
	}
	for _, f := range here {
		key := f.name + "\x00" + strconv.FormatBool(f.number)
		if named[key] {
			continue
		}
		if rivals := best[key]; len(rivals) == 1 && rivals[0].tagged == f.tagged {
			kept = append(kept, f)
		}
	}
	for key := range best {
		named[key] = true
	}
	return kept
}

// isTuple reports whether the struct's tag requests an array.
func isTuple(t reflect.Type) bool {
	f, ok := t.FieldByName("_")
	return ok && strings.Contains(","+f.Tag.Get("cbor")+",", ",toarray,")
}

// anything is the plan of an any.
var anything = newPlan(CBOR, reflect.TypeFor[any]())
