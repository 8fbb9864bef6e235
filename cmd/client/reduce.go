package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/cli"
)

// reducerNames are the reducers every proc knows, in the order help shows them.
func reducerNames() []string { return []string{"sum", "min", "max", "all", "any"} }

// reducerNamed is a built-in reducer over values whose type only the procs know. Each host folds
// typed values with its own; what is folded here is one value per host.
func reducerNamed(name string) (actor.Reducer[any], error) {
	folds := map[string]func(a, b any) (any, error){
		"sum": func(a, b any) (any, error) {
			return foldNumbers("sum", a, b, func(x, y int64) int64 { return x + y }, func(x, y float64) float64 { return x + y })
		},
		"min": func(a, b any) (any, error) {
			return foldNumbers("min", a, b, func(x, y int64) int64 { return min(x, y) }, func(x, y float64) float64 { return min(x, y) })
		},
		"max": func(a, b any) (any, error) {
			return foldNumbers("max", a, b, func(x, y int64) int64 { return max(x, y) }, func(x, y float64) float64 { return max(x, y) })
		},
		"all": func(a, b any) (any, error) {
			return foldBools("all", a, b, func(x, y bool) bool { return x && y })
		},
		"any": func(a, b any) (any, error) {
			return foldBools("any", a, b, func(x, y bool) bool { return x || y })
		},
	}
	fold, ok := folds[name]
	if !ok {
		return actor.Reducer[any]{}, cli.Usagef("--reduce %q: want one of %s", name, strings.Join(reducerNames(), ", "))
	}
	return actor.NewReducer(name, fold), nil
}

// foldNumbers folds two decoded numbers. An endpoint's answers are of one type, so integers meet
// integers; one that answers both kinds gets a float.
func foldNumbers(name string, a, b any, ints func(x, y int64) int64, floats func(x, y float64) float64) (any, error) {
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return ints(x, y), nil
		}
	}
	x, ok := asFloat(a)
	y, ok2 := asFloat(b)
	if !ok || !ok2 {
		return nil, wrongKind(name, "numbers", a, b)
	}
	return floats(x, y), nil
}

func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func foldBools(name string, a, b any, fold func(x, y bool) bool) (any, error) {
	x, ok := a.(bool)
	y, ok2 := b.(bool)
	if !ok || !ok2 {
		return nil, wrongKind(name, "booleans", a, b)
	}
	return fold(x, y), nil
}

// wrongKind shows the two answers that a reducer makes no sense of.
func wrongKind(name, want string, values ...any) error {
	var shown []string
	for _, v := range values {
		text := fmt.Sprint(v)
		if raw, err := encodeValue(v); err == nil {
			text = string(raw)
		}
		shown = append(shown, shorten(text, 40))
	}
	return fmt.Errorf("--reduce %s folds %s, and the hosts answered %s", name, want, strings.Join(slices.Compact(shown), " and "))
}
