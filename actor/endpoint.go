package actor

import (
	"fmt"
	"reflect"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// None is the message or the answer of an endpoint that has none.
type None = struct{}

// Type names an actor type: A is its Go type (often a pointer, or an interface that several
// implement), P what its constructor takes. A Type holds no code, so a client can speak to actors
// it could not run.
type Type[A, P any] struct{ name string }

// NewType names an actor type. The name follows the label rule; a bad one is reported by
// NewRegistry and by every spawn.
func NewType[A, P any](name string) Type[A, P] { return Type[A, P]{name} }

// Name is the type's name.
func (t Type[A, P]) Name() string { return t.name }

// Err reports a name that breaks the label rule.
func (t Type[A, P]) Err() error { return subjects.CheckLabel("actor type", t.name) }

// Made binds the type to its constructor and its endpoints to their methods. construct runs once per
// actor, as the first thing on the actor's own turn; its error means that there is no actor.
func (t Type[A, P]) Made(construct func(*Context, P) (A, error), methods ...Method[A]) Def {
	d := Def{name: t.name, methods: map[string]*method{}, err: t.Err()}
	if construct == nil && d.err == nil {
		d.err = fmt.Errorf("actor type %q: want a constructor, got nil", t.name)
	}
	d.params = decoder[P]
	d.construct = func(ctx *Context, params any) (any, error) {
		p, ok := as[P](params)
		if !ok {
			return nil, errorf(CodeBadMessage, "", "", "actor type %s takes %s, got %T", t.name, reflect.TypeFor[P](), params)
		}
		return construct(ctx, p)
	}
	for _, m := range methods {
		d.add(m.m, m.err)
	}
	return d
}

// Endpoint names something an actor of Go type A can be asked: a message M, an answer R. Like a
// Type it holds no code, so an actor's methods may call endpoints of their own kind.
type Endpoint[A, M, R any] struct {
	name     string
	reducers []Reducer[R]
}

// NewEndpoint names an endpoint. The reducers are those that casts to it may fold its answers
// with, besides the built-in ones.
func NewEndpoint[A, M, R any](name string, reducers ...Reducer[R]) Endpoint[A, M, R] {
	return Endpoint[A, M, R]{name: name, reducers: reducers}
}

// Name is the endpoint's name, which is also the port it is served on.
func (e Endpoint[A, M, R]) Name() string { return e.name }

// Declares reports whether the endpoint declares a reducer of that name.
func (e Endpoint[A, M, R]) Declares(reducer string) bool {
	for _, r := range e.reducers {
		if r.name == reducer {
			return true
		}
	}
	return false
}

// Err reports a name that breaks the label rule, of the endpoint or of one of its reducers.
func (e Endpoint[A, M, R]) Err() error {
	if err := subjects.CheckLabel("endpoint", e.name); err != nil {
		return err
	}
	for _, r := range e.reducers {
		if err := r.Err(); err != nil {
			return fmt.Errorf("endpoint %s: %w", e.name, err)
		}
	}
	return nil
}

// By binds the endpoint to the method that answers it.
func (e Endpoint[A, M, R]) By(handle func(A, *Context, M) (R, error)) Method[A] {
	if handle == nil {
		return Method[A]{err: fmt.Errorf("endpoint %q: want a method, got nil", e.name)}
	}
	m := &method{
		name: e.name,
		In:   reflect.TypeFor[M]().String(), Out: reflect.TypeFor[R]().String(),
		arg:    decoder[M],
		result: decoder[R],
		folds:  map[string]Fold{},
	}
	m.takes = func(arg any) bool {
		_, ok := as[M](arg)
		return ok
	}
	m.call = func(a any, ctx *Context, arg any) (any, error) {
		typed, _ := as[M](arg)
		return handle(a.(A), ctx, typed)
	}
	for _, r := range e.reducers {
		m.folds[r.name] = r.untyped()
	}
	return Method[A]{m: m, err: e.Err()}
}

// Method is an endpoint bound to code.
type Method[A any] struct {
	m   *method
	err error
}

// method is the untyped core behind every typed endpoint: one engine for all instantiations.
type method struct {
	name    string
	In, Out string
	arg     decodeFunc
	result  decodeFunc
	takes   func(arg any) bool
	call    func(a any, ctx *Context, arg any) (any, error) // arg is one it takes
	folds   map[string]Fold
}

type decodeFunc func(format wire.Format, raw []byte) (any, error)

// decoder reads a T.
func decoder[T any](format wire.Format, raw []byte) (any, error) {
	var v T
	if err := format.Decode(raw, &v); err != nil {
		return nil, err
	}
	return v, nil
}

// as is v.(T), and also takes nil for an interface T.
func as[T any](v any) (T, bool) {
	t, ok := v.(T)
	return t, ok || v == nil && reflect.TypeFor[T]().Kind() == reflect.Interface
}

// Fold combines two answers of one endpoint, the earlier rank's first.
type Fold func(acc, next any) (any, error)

// Reducer folds answers of type R into one on their way home. It must be associative; answers
// are folded in rank order, so it need not be commutative.
type Reducer[R any] struct {
	name string
	fold func(acc, next R) (R, error)
}

// NewReducer names a way to fold. Processes that fold know it by this name: declare it on the
// endpoint (NewEndpoint).
func NewReducer[R any](name string, fold func(acc, next R) (R, error)) Reducer[R] {
	return Reducer[R]{name: name, fold: fold}
}

// Name is the name the reducer travels by.
func (r Reducer[R]) Name() string { return r.name }

// Err reports a bad name or a missing function.
func (r Reducer[R]) Err() error {
	if err := subjects.CheckLabel("reducer", r.name); err != nil {
		return err
	}
	if r.fold == nil {
		return fmt.Errorf("reducer %s: want a function, got nil", r.name)
	}
	return nil
}

// Fold combines two answers; a panic of the user's function is an error.
func (r Reducer[R]) Fold(acc, next R) (out R, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reducer %s panicked: %v", r.name, p)
		}
	}()
	return r.fold(acc, next)
}

func (r Reducer[R]) untyped() Fold {
	return func(acc, next any) (any, error) {
		a, ok := as[R](acc)
		b, ok2 := as[R](next)
		if !ok || !ok2 {
			return nil, fmt.Errorf("reducer %s folds %s, got %T and %T", r.name, reflect.TypeFor[R](), acc, next)
		}
		return r.Fold(a, b)
	}
}
