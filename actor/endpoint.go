package actor

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// None is the message or the answer of an endpoint without one.
type None = struct{}

// Type names an actor type. A is its Go type (often a pointer, or an interface with several
// implementations), P the type of its constructor's parameters. A Type holds no code, so a client
// can call actors that it cannot run.
type Type[A, P any] struct{ name string }

// NewType names an actor type. The name follows the label rule; a bad one is reported by
// NewRegistry and by every spawn.
func NewType[A, P any](name string) Type[A, P] { return Type[A, P]{name} }

// Name is the type's name.
func (t Type[A, P]) Name() string { return t.name }

// Err reports a name that breaks the label rule.
func (t Type[A, P]) Err() error { return subjects.CheckLabel("actor type", t.name) }

// Define binds the type to its constructor and its endpoints to their methods. construct runs once
// per actor, first on the actor's own turn. If it returns an error, there is no actor.
func (t Type[A, P]) Define(construct func(*Context, P) (A, error), methods ...Method[A]) Def {
	d := Def{name: t.name, methods: map[string]*method{}, err: t.Err()}
	if construct == nil && d.err == nil {
		d.err = fmt.Errorf("actor type %q: want a constructor, got nil", t.name)
	}
	d.params = decoder[P]
	d.construct = func(ctx *Context, params any) (any, error) {
		p, ok := as[P](params)
		if !ok {
			return nil, errorf(CodeBadMessage, "", "", "actor type %s takes %s, got %T", t.name,
				reflect.TypeFor[P](), params)
		}
		return construct(ctx, p)
	}
	for _, m := range methods {
		d.add(m.m, m.err)
	}
	return d
}

// Endpoint names a message M to actors of Go type A, with an answer R. Like a Type it holds no
// code, so an actor's methods may call endpoints of their own kind. Make it once and keep it:
// lookups are faster through copies of one endpoint.
type Endpoint[A, M, R any] struct{ *endpointSpec }

// endpointSpec is the untyped part of an endpoint, shared by all its copies. Its address is the
// endpoint's identity. Its unexported operations are functions: programs compile each method of an
// embedded type again for each of their endpoints.
type endpointSpec struct {
	name  string
	typ   string          // of its messages, for people
	folds map[string]Fold // the declared reducers, by name
	err   error           // a bad name, of the endpoint or of a reducer
}

// NewEndpoint names an endpoint. Casts to it may fold answers with these reducers, besides the
// built-in ones. Err and every verb report a bad name.
func NewEndpoint[A, M, R any](name string, reducers ...Reducer[R]) Endpoint[A, M, R] {
	s := &endpointSpec{name, typeName[M](), map[string]Fold{}, subjects.CheckLabel("endpoint", name)}
	for _, r := range reducers {
		declare(s, r.reducerSpec, untyped(r))
	}
	return Endpoint[A, M, R]{s}
}

func declare(s *endpointSpec, r reducerSpec, fold Fold) {
	if err := r.Err(); err != nil && s.err == nil {
		s.err = fmt.Errorf("endpoint %s: %w", s.name, err)
	}
	s.folds[r.name] = fold
}

// Name is the endpoint's name, and its port.
func (s *endpointSpec) Name() string {
	if s == nil {
		return ""
	}
	return s.name
}

// Declares reports whether the endpoint declares a reducer of that name.
func (s *endpointSpec) Declares(reducer string) bool { return s != nil && s.folds[reducer] != nil }

// Err reports the zero Endpoint, and a name of the endpoint or of a reducer that breaks the label
// rule.
func (s *endpointSpec) Err() error {
	if s == nil {
		return errors.New("want an endpoint made by NewEndpoint, got the zero Endpoint")
	}
	return s.err
}

// Handle binds the endpoint to its method.
func (e Endpoint[A, M, R]) Handle(handle func(A, *Context, M) (R, error)) Method[A] {
	m, err := bind(e.endpointSpec, handle != nil, reflect.TypeFor[M](), reflect.TypeFor[R]())
	if err != nil {
		return Method[A]{err: err}
	}
	b := &boundEndpoint[M, R]{
		method: m,
		handle: func(a any, ctx *Context, m M) (R, error) { return handle(a.(A), ctx, m) },
	}
	b.result = decoder[R]
	b.newQueue = func() endpointQueue { return newTypedQueue(b) }
	return Method[A]{m: &b.method}
}

// bind returns the untyped part of the bound endpoint.
func bind(s *endpointSpec, hasMethod bool, in, out reflect.Type) (method, error) {
	if err := s.Err(); err != nil {
		return method{}, err
	}
	if !hasMethod {
		return method{}, fmt.Errorf("endpoint %q: want a method, got nil", s.name)
	}
	return method{
		name: s.name, in: in.String(), out: out.String(), types: [2]reflect.Type{in, out}, folds: s.folds,
		shared: wire.Immutable(in), byValue: wire.Immutable(out),
	}, nil
}

// Method is an endpoint bound to code.
type Method[A any] struct {
	m   *method
	err error
}

// method is the untyped part of a bound endpoint.
type method struct {
	name     string
	in, out  string // Go types, for people
	types    [2]reflect.Type
	result   decodeFunc
	folds    map[string]Fold
	newQueue func() endpointQueue
	urgent   bool            // see Method.Urgent
	audited  bool            // see Method.Audited
	roles    []subjects.Role // see Def.Permit
	shared   bool            // recipients of one message share no memory
	byValue  bool            // an answer shares no memory with its actor
}

// boundEndpoint is an endpoint bound to code.
type boundEndpoint[M, R any] struct {
	method
	handle func(a any, ctx *Context, m M) (R, error)
	bufs   sync.Pool // of *room[M, R]
}

// argument returns the message of a request as an M. If it has another type, the sender gets
// ErrBadMessage.
func argument[M any](b *method, in *instance, d *Delivery) (M, error) {
	if d.shared {
		return copyFor[M](b, in, d)
	}
	if d.local {
		m, ok := as[M](d.value)
		if !ok {
			return m, errorf(CodeBadMessage, in.id().String(), b.name, "takes %s, got %T", b.in, d.value)
		}
		return m, nil
	}
	return decode[M](b, in, d.format, d.Raw, nil)
}

// copyFor returns the message for one of many recipients: none can change another one's copy.
func copyFor[M any](b *method, in *instance, d *Delivery) (m M, err error) {
	if to, is := any(&m).(*[]byte); is {
		if body, ok := wire.Bytes(d.Raw); ok {
			if !d.isLastRecipient() {
				body = bytes.Clone(body)
			}
			*to = body
			return m, nil
		}
	}
	if read := d.decoded.Load(); read != nil {
		if m, ok := (*read).(M); ok {
			return m, nil
		}
	}
	m, err = decode[M](b, in, d.format, d.Raw, nil)
	if err == nil && b.shared {
		read := any(m)
		d.decoded.Store(&read)
	}
	return m, err
}

// decode decodes a message. Small byte slices share the blocks, if there are any.
func decode[M any](b *method, in *instance, format wire.Format, raw []byte, own *blocks) (M, error) {
	if format == wire.CBOR {
		if m, ok := decodeBytes[M](raw, own); ok {
			return m, nil
		}
	}
	var m M
	err := decodeMessage(b, in, format, raw, &m)
	return m, err
}

// decodeMessage decodes a message into the value that m points to.
func decodeMessage(b *method, in *instance, format wire.Format, raw []byte, m any) error {
	if err := format.DecodeCounting(raw, m, &in.proc.counts.unknown); err != nil {
		return errorf(CodeBadMessage, in.id().String(), b.name, "takes %s: %v", b.in, err)
	}
	return nil
}

// decodeBytes decodes simple messages directly.
func decodeBytes[M any](raw []byte, b *blocks) (m M, ok bool) {
	if to, is := any(&m).(*[]byte); is {
		var body []byte
		body, ok = wire.Bytes(raw)
		if ok {
			*to = b.clone(body)
		}
	}
	return m, ok
}

// blocks are copies of small bodies out of their packets. A kept body then keeps a block, not a
// packet.
type blocks struct {
	block []byte
	used  int
}

const (
	blockSize = 4 << 10
	smallBody = 512     // up to this size several share a block
	largeBody = 1 << 10 // from this size on a body stays in its packet
)

// clone copies a body, unless it is most of its packet. Nil shares nothing.
func (b *blocks) clone(body []byte) []byte {
	n := len(body)
	switch {
	case n == 0:
		return []byte{}
	case n >= largeBody:
		return body
	case n > smallBody, b == nil:
		return append(make([]byte, 0, n), body...)
	case n > len(b.block)-b.used:
		b.block = make([]byte, blockSize)
		b.used = 0
	}
	own := b.block[b.used : b.used+n : b.used+n]
	b.used += n
	copy(own, body)
	return own
}

type decodeFunc func(format wire.Format, raw []byte, unknown *atomic.Uint64) (any, error)

// decoder reads a T.
func decoder[T any](format wire.Format, raw []byte, unknown *atomic.Uint64) (any, error) {
	var v T
	if err := format.DecodeCounting(raw, &v, unknown); err != nil {
		return nil, err
	}
	return v, nil
}

// as is v.(T), and also takes nil for an interface T.
func as[T any](v any) (T, bool) {
	t, ok := v.(T)
	return t, ok || v == nil && reflect.TypeFor[T]().Kind() == reflect.Interface
}
