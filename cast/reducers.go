package cast

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/castnet-io/castnet/actor"
)

// The built-in reducers need no declaration: every proc knows them by name, for every answer type
// they make sense of.
const (
	nameSum    = "sum"
	nameMin    = "min"
	nameMax    = "max"
	nameAll    = "all"
	nameAny    = "any"
	nameConcat = "concat()"
)

// numbers fold values of the common numeric types. The map is never written to.
var numbers = map[string]*ops{
	nameSum: {sum[int], sum[int64], sum[float64]},
	nameMin: {lower[int], lower[int64], lower[float64]},
	nameMax: {upper[int], upper[int64], upper[float64]},
}

// builtins fold values of a type known only at run time. The map is never written to.
var builtins = map[string]actor.Fold{
	nameSum: numeric(nameSum, add, numbers[nameSum]),
	nameMin: numeric(nameMin, lesser, numbers[nameMin]),
	nameMax: numeric(nameMax, greater, numbers[nameMax]),
	nameAll: func(a, b any) (any,
		error) {
		return logical(nameAll, a, b, func(x, y bool) bool { return x && y })
	},
	nameAny: func(a, b any) (any,
		error) {
		return logical(nameAny, a, b, func(x, y bool) bool { return x || y })
	},
	nameConcat: concat,
}

// Sum adds numbers. Integers wrap around as Go's do.
func Sum[T actor.Number]() actor.Reducer[T] {
	return actor.BuiltinReducer(nameSum, func(a, b T) (T, error) { return a + b, nil })
}

// Min keeps the smallest number.
func Min[T actor.Number]() actor.Reducer[T] {
	return actor.BuiltinReducer(nameMin, func(a, b T) (T, error) { return min(a, b), nil })
}

// Max keeps the largest number.
func Max[T actor.Number]() actor.Reducer[T] {
	return actor.BuiltinReducer(nameMax, func(a, b T) (T, error) { return max(a, b), nil })
}

// All is true when every rank returns true.
func All[T ~bool]() actor.Reducer[T] {
	return actor.BuiltinReducer(nameAll, func(a, b T) (T, error) { return a && b, nil })
}

// Any is true when at least one rank returns true.
func Any[T ~bool]() actor.Reducer[T] {
	return actor.BuiltinReducer(nameAny, func(a, b T) (T, error) { return a || b, nil })
}

// Concat puts slices one behind the other, in rank order.
func Concat[S ~[]E, E any]() actor.Reducer[S] {
	return actor.BuiltinReducer(nameConcat, func(a, b S) (S, error) { return slices.Concat(a, b), nil })
}

// Merge makes one map of all, and folds values of the same key in rank order:
//
//	cast.Merge[map[string]int](cast.Sum[int]())
//
// For a user's own reducer the endpoint must declare the Merge: its name is "merge-" and that of
// the reducer.
func Merge[M ~map[K]V, K comparable, V any](values actor.Reducer[V]) actor.Reducer[M] {
	fold := func(a, b M) (M, error) {
		out := make(M, max(len(a), len(b)))
		for k, v := range a {
			out[k] = v
		}
		for k, v := range b {
			if old, both := out[k]; both {
				var err error
				v, err = values.Fold(old, v)
				if err != nil {
					return nil, err
				}
			}
			out[k] = v
		}
		return out, nil
	}
	if values.Err() != nil {
		return actor.NewReducer[M]("merge-"+values.Name(), nil) // refused by name, or for its missing function
	}
	if values.Builtin() {
		return actor.BuiltinReducer(kindMerge+"("+values.Name()+")", fold)
	}
	return actor.NewReducer("merge-"+values.Name(), fold)
}

// concat is Concat for values of a type known only at run time.
func concat(a, b any) (any, error) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if err := checkSameType(nameConcat, x, y); err != nil {
		return nil, err
	}
	if x.Kind() != reflect.Slice {
		return nil, typeMismatch(nameConcat, "slices", x.Type())
	}
	out := reflect.MakeSlice(x.Type(), 0, x.Len()+y.Len())
	return reflect.AppendSlice(reflect.AppendSlice(out, x), y).Interface(), nil
}

// merge is Merge for values of a type known only at run time.
func merge(name string, values actor.Fold) actor.Fold {
	return func(a, b any) (any, error) {
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		if err := checkSameType(name, x, y); err != nil {
			return nil, err
		}
		if x.Kind() != reflect.Map {
			return nil, typeMismatch(name, "maps", x.Type())
		}
		out := reflect.MakeMapWithSize(x.Type(), max(x.Len(), y.Len()))
		for k, v := range x.Seq2() {
			out.SetMapIndex(k, v)
		}
		for k, v := range y.Seq2() {
			if old := out.MapIndex(k); old.IsValid() {
				folded, err := values(old.Interface(), v.Interface())
				if err != nil {
					return nil, fmt.Errorf("reducer %s: %w", name, err)
				}
				v = reflect.ValueOf(folded)
			}
			out.SetMapIndex(k, v)
		}
		return out.Interface(), nil
	}
}

// checkSameType refuses values of different types, and untyped values.
func checkSameType(name string, x, y reflect.Value) error {
	if x.IsValid() && y.IsValid() && x.Type() == y.Type() {
		return nil
	}
	return fmt.Errorf("reducer %s: answers of different types, %s and %s", name, typeName(x), typeName(y))
}

func typeName(v reflect.Value) string {
	if !v.IsValid() {
		return "nil"
	}
	return v.Type().String()
}

// typeMismatch names the types that a reducer folds.
func typeMismatch(name, folds string, got reflect.Type) error {
	return fmt.Errorf("reducer %s folds %s, got %s", name, folds, got)
}

// ops fold numbers of the common types.
type ops struct {
	ints   func(a, b int) int
	int64s func(a, b int64) int64
	floats func(a, b float64) float64
}

// foldAll folds values of one common type; false if they have another, or several.
func (o *ops) foldAll(all []any) (acc any, ok bool) {
	switch all[0].(type) {
	case int:
		return foldNumbers(all, o.ints)
	case int64:
		return foldNumbers(all, o.int64s)
	case float64:
		return foldNumbers(all, o.floats)
	}
	return nil, false
}

func foldNumbers[T any](all []any, fold func(a, b T) T) (any, bool) {
	values := make([]T, len(all))
	for i, v := range all {
		n, ok := v.(T)
		if !ok {
			return nil, false
		}
		values[i] = n
	}
	acc, err := foldPairwise(values, func(a, b T) (T, error) { return fold(a, b), nil })
	return acc, err == nil
}

func sum[T actor.Number](a, b T) T   { return a + b }
func lower[T actor.Number](a, b T) T { return min(a, b) }
func upper[T actor.Number](a, b T) T { return max(a, b) }

// numeric folds two values of one numeric type.
func numeric(name string, fold func(dst, x, y reflect.Value) bool, quick *ops) actor.Fold {
	return func(a, b any) (any, error) {
		switch a := a.(type) {
		case int:
			if b, ok := b.(int); ok {
				return quick.ints(a, b), nil
			}
		case int64:
			if b, ok := b.(int64); ok {
				return quick.int64s(a, b), nil
			}
		case float64:
			if b, ok := b.(float64); ok {
				return quick.floats(a, b), nil
			}
		}
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		if f, g, mixed := mixedNumbers(x, y); mixed {
			return quick.floats(f, g), nil
		}
		if err := checkSameType(name, x, y); err != nil {
			return nil, err
		}
		dst := reflect.New(x.Type()).Elem()
		if !fold(dst, x, y) {
			return nil, typeMismatch(name, "numbers", x.Type())
		}
		return dst.Interface(), nil
	}
}

// mixedNumbers reads a whole and a fractional number. Untyped answers mix them: many JSON encoders
// omit a zero fraction.
func mixedNumbers(x, y reflect.Value) (f, g float64, ok bool) {
	switch {
	case !x.IsValid() || !y.IsValid():
		return 0, 0, false
	case x.Kind() == reflect.Int64 && y.Kind() == reflect.Float64:
		return float64(x.Int()), y.Float(), true
	case x.Kind() == reflect.Float64 && y.Kind() == reflect.Int64:
		return x.Float(), float64(y.Int()), true
	}
	return 0, 0, false
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

// lesser is Min for values of a type known only at run time.
func lesser(dst, x, y reflect.Value) bool {
	switch {
	case x.CanInt():
		dst.SetInt(min(x.Int(), y.Int()))
	case x.CanUint():
		dst.SetUint(min(x.Uint(), y.Uint()))
	case x.CanFloat():
		dst.SetFloat(min(x.Float(), y.Float()))
	default:
		return false
	}
	return true
}

// greater is Max for values of a type known only at run time.
func greater(dst, x, y reflect.Value) bool {
	switch {
	case x.CanInt():
		dst.SetInt(max(x.Int(), y.Int()))
	case x.CanUint():
		dst.SetUint(max(x.Uint(), y.Uint()))
	case x.CanFloat():
		dst.SetFloat(max(x.Float(), y.Float()))
	default:
		return false
	}
	return true
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
