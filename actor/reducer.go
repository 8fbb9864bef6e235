package actor

import (
	"fmt"
	"reflect"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Fold combines two answers of one endpoint, the earlier rank's first.
type Fold func(acc, next any) (any, error)

// Reducer folds answers of type R into one on their way home. It must be associative; answers are
// folded in rank order, so it need not be commutative. It leaves its arguments unchanged, because
// after a failure they are folded again.
type Reducer[R any] struct {
	reducerSpec
	fold func(acc, next R) (R, error)
}

// reducerSpec is the untyped part of a reducer.
type reducerSpec struct {
	name    string
	builtin bool // by every process: it needs no declaration
	folds   bool // it has a function
}

// NewReducer names a way to fold. Folding processes look it up by this name: declare it on the
// endpoint (NewEndpoint).
func NewReducer[R any](name string, fold func(acc, next R) (R, error)) Reducer[R] {
	return Reducer[R]{reducerSpec{name: name, folds: fold != nil}, fold}
}

// BuiltinReducer is for packages that extend the runtime (cast): a reducer known to every process
// without a declaration. Its name need not be a label, so it cannot clash with a declared one.
func BuiltinReducer[R any](name string, fold func(acc, next R) (R, error)) Reducer[R] {
	return Reducer[R]{reducerSpec{name, true, fold != nil}, fold}
}

// Builtin reports whether every process knows the reducer without a declaration.
func (r reducerSpec) Builtin() bool { return r.builtin }

// Name is the name the reducer travels by.
func (r reducerSpec) Name() string { return r.name }

// Err reports a bad name or a missing function.
func (r reducerSpec) Err() error {
	if err := subjects.CheckLabel("reducer", r.name); err != nil && !r.builtin {
		return err
	}
	if !r.folds {
		return fmt.Errorf("reducer %s: want a function, got nil", r.name)
	}
	return nil
}

// Fold combines two answers; a panic of the user's function is an error.
func (r Reducer[R]) Fold(acc, next R) (out R, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reducer %s panicked: %s", r.name, wire.PanicText(p))
		}
	}()
	return r.fold(acc, next)
}

// untyped is the Fold of a reducer.
func untyped[R any](r Reducer[R]) Fold {
	return func(acc, next any) (any, error) {
		a, ok := as[R](acc)
		b, ok2 := as[R](next)
		if !ok || !ok2 {
			return nil, fmt.Errorf("reducer %s folds %s, got %T and %T",
				r.name, reflect.TypeFor[R](), acc, next)
		}
		return r.Fold(a, b)
	}
}
