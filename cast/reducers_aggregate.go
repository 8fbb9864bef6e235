package cast

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/wire"
)

// Names of the reducers with parameters, or with a result of another type than the answers. The
// parameters follow in parentheses.
const (
	kindConcat    = "concat"
	kindMerge     = "merge"
	kindCount     = "count"
	kindCountBy   = "count-by"
	kindCollect   = "collect"
	kindTop       = "top"
	kindBottom    = "bottom"
	kindHistogram = "histogram"
)

// maxSpec and maxNestedReducers bound what a peer may name.
const (
	maxSpec           = 64 << 10
	maxNestedReducers = 8
)

// answerReader reads an answer of an endpoint: Decode of its actor.AnswerType, or openAs.
type answerReader func(actor.Answer) (any, error)

// openAs is actor.Open without a known type.
func openAs[R any](a actor.Answer) (any, error) { return actor.DecodeAnswer[R](a) }

// builtin is a reducer known to every proc. takes checks the type of the answers; for interfaces
// the check needs an answer.
type builtin struct {
	untypedReducer
	accepts func(answer reflect.Type) error
}

// findReducer finds the reducer of a cast at the place of folding: a declared or a built-in one.
func findReducer(name string, answers actor.AnswerType) (untypedReducer, error) {
	if fold, ok := answers.Fold(name); ok {
		return untypedReducer{lift: answers.Decode, open: answers.Decode, fold: fold}, nil
	}
	b, err := parseBuiltin(name, answers.Decode)
	return b.untypedReducer, err
}

// parseBuiltin finds a built-in reducer by its text: a word (sum), or a word with parameters
// (top(3), merge(sum)). A label has no parentheses, so no declared reducer is mistaken for the
// second kind.
func parseBuiltin(text string, read answerReader) (builtin, error) {
	if len(text) > maxSpec {
		return builtin{}, fmt.Errorf("reducer %.40s…: want at most %d bytes", text, maxSpec)
	}
	if b, ok := parseSameType(text, read, 0); ok {
		return b, nil
	}
	word, args, _ := strings.Cut(text, "(")
	args, closed := strings.CutSuffix(args, ")")
	if closed || word == text { // people may leave the parentheses out
		switch word {
		case kindConcat:
			if args == "" {
				b, _ := parseSameType(nameConcat, read, 0)
				return b, nil
			}
		case kindCount:
			return countReducer, noArgs(text, args)
		case kindCollect:
			return listReducer, noArgs(text, args)
		case kindCountBy:
			return countByReducer, noArgs(text, args)
		case kindTop, kindBottom:
			return topOf(text, args, read)
		case kindHistogram:
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

// parseSameType finds a built-in reducer whose result has the type of the answers.
func parseSameType(text string, read answerReader, depth int) (builtin, bool) {
	if fold, ok := builtins[text]; ok {
		return builtin{untypedReducer{lift: read, open: read, fold: fold, numbers: numbers[text]},
			func(t reflect.Type) error { return checkAnswerType(text, t) }}, true
	}
	inner, ok := strings.CutPrefix(text, kindMerge+"(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !ok || !closed || depth == maxNestedReducers {
		return builtin{}, false
	}
	values, ok := parseSameType(inner, nil, depth+1)
	return builtin{untypedReducer{lift: read, open: read, fold: merge(text, values.fold)},
		func(t reflect.Type) error {
			switch t.Kind() {
			case reflect.Map:
				return values.accepts(t.Elem())
			case reflect.Interface:
				return nil
			}
			return typeMismatch(text, "maps", t)
		}}, ok
}

// checkAnswerType reports whether one of the builtins folds values of a type.
func checkAnswerType(name string, t reflect.Type) error {
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
		return typeMismatch(name, folds, t)
	}
	return nil
}

func isNumber(t reflect.Type) bool {
	zero := reflect.Zero(t)
	return zero.CanInt() || zero.CanUint() || zero.CanFloat()
}

// acceptAny is takes for reducers that ignore the answers.
func acceptAny(reflect.Type) error { return nil }

// countReducer counts answers into ints.
var countReducer = builtin{untypedReducer{
	lift: func(actor.Answer) (any, error) { return 1, nil },
	open: func(a actor.Answer) (any, error) { return actor.DecodeAnswer[int](a) },
	fold: func(acc, next any) (any, error) { return acc.(int) + next.(int), nil },
}, acceptAny}

// listReducer collects every answer into []item.
var listReducer = builtin{untypedReducer{
	lift: func(a actor.Answer) (any, error) {
		raw, err := a.Raw()
		return []item{{raw: raw}}, err
	},
	open: func(a actor.Answer) (any, error) { return actor.DecodeAnswer[[]item](a) },
	fold: func(acc, next any) (any, error) { return slices.Concat(acc.([]item), next.([]item)), nil },
}, acceptAny}

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

// UnmarshalCBOR keeps the answer encoded, for a reader with its type.
func (i *item) UnmarshalCBOR(raw []byte) error {
	*i = item{raw: slices.Clone(raw)}
	return nil
}

// answer is the answer by itself.
func (i item) answer() actor.Answer {
	if i.raw != nil {
		return actor.EncodedAnswer(i.raw)
	}
	return actor.Answer{Value: i.value}
}

// foldPairwise folds values in order, halves first, so that a growing value is copied a few times
// and not once for each value. There is at least one.
func foldPairwise[T any](values []T, fold func(acc, next T) (T, error)) (T, error) {
	if len(values) == 1 {
		return values[0], nil
	}
	half := len(values) / 2
	acc, err := foldPairwise(values[:half], fold)
	if err != nil {
		return acc, err
	}
	next, err := foldPairwise(values[half:], fold)
	if err != nil {
		return next, err
	}
	return fold(acc, next)
}
