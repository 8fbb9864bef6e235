package cast

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/castnet-io/castnet/actor"
)

// The built-in reducers need no declaration: every proc knows them by name, for every answer type
// they make sense of.
const (
	nameSum = "sum"
	nameMin = "min"
	nameMax = "max"
	nameAll = "all"
	nameAny = "any"
)

// builtins fold values whose type is known only at run time. It is never written to.
var builtins = map[string]actor.Fold{
	nameSum: func(a, b any) (any, error) { return numeric(nameSum, a, b, add) },
	nameMin: func(a, b any) (any, error) { return numeric(nameMin, a, b, pick(-1)) },
	nameMax: func(a, b any) (any, error) { return numeric(nameMax, a, b, pick(1)) },
	nameAll: func(a, b any) (any, error) { return logical(nameAll, a, b, func(x, y bool) bool { return x && y }) },
	nameAny: func(a, b any) (any, error) { return logical(nameAny, a, b, func(x, y bool) bool { return x || y }) },
}

// Sum adds numbers. Integers wrap around as Go's do.
func Sum[T actor.Number]() actor.Reducer[T] {
	return actor.NewReducer(nameSum, func(a, b T) (T, error) { return a + b, nil })
}

// Min keeps the smallest number.
func Min[T actor.Number]() actor.Reducer[T] {
	return actor.NewReducer(nameMin, func(a, b T) (T, error) { return min(a, b), nil })
}

// Max keeps the largest number.
func Max[T actor.Number]() actor.Reducer[T] {
	return actor.NewReducer(nameMax, func(a, b T) (T, error) { return max(a, b), nil })
}

// All is true when every rank says true.
func All[T ~bool]() actor.Reducer[T] {
	return actor.NewReducer(nameAll, func(a, b T) (T, error) { return a && b, nil })
}

// Any is true when at least one rank says true.
func Any[T ~bool]() actor.Reducer[T] {
	return actor.NewReducer(nameAny, func(a, b T) (T, error) { return a || b, nil })
}

// numeric folds two values of one numeric type.
func numeric(name string, a, b any, fold func(dst, x, y reflect.Value) bool) (any, error) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if !x.IsValid() || !y.IsValid() || x.Type() != y.Type() {
		return nil, fmt.Errorf("reducer %s: answers of different types, %T and %T", name, a, b)
	}
	dst := reflect.New(x.Type()).Elem()
	if !fold(dst, x, y) {
		return nil, fmt.Errorf("reducer %s folds numbers, got %T", name, a)
	}
	return dst.Interface(), nil
}

func add(dst, x, y reflect.Value) bool {
	switch {
	case x.CanInt():
		dst.SetInt(x.Int() + y.Int())
	case x.CanUint():
		dst.SetUint(x.Uint() + y.Uint())
	case x.CanFloat():
		dst.SetFloat(x.Float() + y.Float())
	default:
		return false
	}
	return true
}

// pick keeps the value that compares to the other as sign says.
func pick(sign int) func(dst, x, y reflect.Value) bool {
	return func(dst, x, y reflect.Value) bool {
		var c int
		switch {
		case x.CanInt():
			c = cmp.Compare(x.Int(), y.Int())
		case x.CanUint():
			c = cmp.Compare(x.Uint(), y.Uint())
		case x.CanFloat():
			c = cmp.Compare(x.Float(), y.Float())
		default:
			return false
		}
		if c == sign {
			dst.Set(x)
		} else {
			dst.Set(y)
		}
		return true
	}
}

func logical(name string, a, b any, fold func(x, y bool) bool) (any, error) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() != reflect.Bool || y.Kind() != reflect.Bool {
		return nil, fmt.Errorf("reducer %s folds booleans, got %T and %T", name, a, b)
	}
	dst := reflect.New(x.Type()).Elem()
	dst.SetBool(fold(x.Bool(), y.Bool()))
	return dst.Interface(), nil
}
