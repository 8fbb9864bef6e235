package cast

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
)

// What the reducers are called that fold to another type than the answers', and those that are given
// something; it follows in parentheses.
const (
	wordConcat    = "concat"
	wordMerge     = "merge"
	wordCount     = "count"
	wordCountBy   = "count-by"
	wordCollect   = "collect"
	wordTop       = "top"
	wordBottom    = "bottom"
	wordHistogram = "histogram"
)

// maxSpec and maxNested bound what a peer may name.
const (
	maxSpec   = 64 << 10
	maxNested = 8
)

// opener reads an answer of an endpoint: Open of its actor.Answers, or openAs.
type opener func(actor.Answer) (any, error)

// openAs is actor.Open for those that do not know the type.
func openAs[R any](a actor.Answer) (any, error) { return actor.Open[R](a) }

// builtin is a reducer that every proc knows. takes says whether it makes sense of answers of a type; of
// interfaces nobody knows before there are answers.
type builtin struct {
	reducing
	takes func(answer reflect.Type) error
}

// reducerOf finds the reducer of a cast where its answers are folded: one that the endpoint declares, or a
// built-in one.
func reducerOf(name string, answers actor.Answers) (reducing, error) {
	if fold, ok := answers.Fold(name); ok {
		return reducing{lift: answers.Open, open: answers.Open, fold: fold}, nil
	}
	b, err := builtinOf(name, answers.Open)
	return b.reducing, err
}

// builtinOf finds the built-in reducer that a text names: a word (sum), or a word and what it was given
// (top(3), merge(sum)). A label is never of the second kind, so those cannot be mistaken for what an
// endpoint declares.
func builtinOf(text string, read opener) (builtin, error) {
	if len(text) > maxSpec {
		return builtin{}, fmt.Errorf("reducer %.40s…: want at most %d bytes", text, maxSpec)
	}
	if b, ok := plainOf(text, read, 0); ok {
		return b, nil
	}
	word, args, _ := strings.Cut(text, "(")
	args, closed := strings.CutSuffix(args, ")")
	if closed || word == text { // people may leave the parentheses out
		switch word {
		case wordConcat:
			if args == "" {
				b, _ := plainOf(nameConcat, read, 0)
				return b, nil
			}
		case wordCount:
			return counting, noArgs(text, args)
		case wordCollect:
			return listing, noArgs(text, args)
		case wordCountBy:
			return tallying, noArgs(text, args)
		case wordTop, wordBottom:
			return topOf(text, args, read)
		case wordHistogram:
			return histogramOf(text, args, read)
		}
	}
	return builtin{}, fmt.Errorf("reducer %.200q: no such built-in reducer", text)
}

func noArgs(text, args string) error {
	if args != "" {
		return fmt.Errorf("reducer %.200s: it takes nothing in parentheses", text)
	}
	return nil
}

// plainOf finds a built-in reducer that folds answers to one of their own type.
func plainOf(text string, read opener, depth int) (builtin, bool) {
	if fold, ok := builtins[text]; ok {
		return builtin{reducing{lift: read, open: read, fold: fold}, func(t reflect.Type) error { return fits(text, t) }}, true
	}
	inner, ok := strings.CutPrefix(text, wordMerge+"(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !ok || !closed || depth == maxNested {
		return builtin{}, false
	}
	values, ok := plainOf(inner, nil, depth+1)
	return builtin{reducing{lift: read, open: read, fold: merge(text, values.fold)}, func(t reflect.Type) error {
		switch t.Kind() {
		case reflect.Map:
			return values.takes(t.Elem())
		case reflect.Interface:
			return nil
		}
		return misfit(text, "maps", t)
	}}, ok
}

// fits reports whether one of the builtins folds values of a type.
func fits(name string, t reflect.Type) error {
	folds := ""
	switch kind := t.Kind(); {
	case kind == reflect.Interface:
	case name == nameConcat && kind != reflect.Slice:
		folds = "slices"
	case (name == nameAll || name == nameAny) && kind != reflect.Bool:
		folds = "booleans"
	case (name == nameSum || name == nameMin || name == nameMax) && !isNumber(t):
		folds = "numbers"
	}
	if folds != "" {
		return misfit(name, folds, t)
	}
	return nil
}

func isNumber(t reflect.Type) bool {
	zero := reflect.Zero(t)
	return zero.CanInt() || zero.CanUint() || zero.CanFloat()
}

// anything is takes of what does not look at answers.
func anything(reflect.Type) error { return nil }

// counting counts answers. What it folds are ints.
var counting = builtin{reducing{
	lift: func(actor.Answer) (any, error) { return 1, nil },
	open: func(a actor.Answer) (any, error) { return actor.Open[int](a) },
	fold: func(acc, next any) (any, error) { return acc.(int) + next.(int), nil },
}, anything}

// listing keeps every answer. What it folds are []item.
var listing = builtin{reducing{
	lift: func(a actor.Answer) (any, error) {
		raw, err := a.Raw()
		return []item{{raw: raw}}, err
	},
	open: func(a actor.Answer) (any, error) { return actor.Open[[]item](a) },
	fold: func(acc, next any) (any, error) { return slices.Concat(acc.([]item), next.([]item)), nil },
}, anything}

// item is one answer in a list: it travels as it did by itself.
type item struct {
	raw   []byte // nil: it has not travelled
	value any    // once it has been read
}

// MarshalCBOR is the answer as it travels.
func (i item) MarshalCBOR() ([]byte, error) {
	if i.raw != nil {
		return i.raw, nil
	}
	return wire.Marshal(i.value)
}

// UnmarshalCBOR keeps the answer for who knows its type.
func (i *item) UnmarshalCBOR(raw []byte) error {
	*i = item{raw: slices.Clone(raw)}
	return nil
}

// answer is the answer by itself.
func (i item) answer() actor.Answer {
	if i.raw != nil {
		return actor.Encoded(i.raw)
	}
	return actor.Answer{Value: i.value}
}

// foldHalves folds values in order, halves first: what grows as it is folded is then copied a few times and
// not once for each value. There is at least one.
func foldHalves[T any](values []T, fold func(acc, next T) (T, error)) (T, error) {
	if len(values) == 1 {
		return values[0], nil
	}
	half := len(values) / 2
	acc, err := foldHalves(values[:half], fold)
	if err != nil {
		return acc, err
	}
	next, err := foldHalves(values[half:], fold)
	if err != nil {
		return next, err
	}
	return fold(acc, next)
}
