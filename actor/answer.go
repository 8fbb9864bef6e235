package actor

import (
	"reflect"
	"sync/atomic"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Answer is the outcome of one delivery.
type Answer struct {
	Value any
	Err   error

	onControl bool // it came by the control connection
}

// EncodedAnswer is an answer as it travels.
func EncodedAnswer(raw []byte) Answer { return Answer{Value: &rawAnswer{raw: raw}} }

// envelope returns the answer as it travels, or the error of encoding it.
func (a Answer) envelope() (e wire.Envelope, err error) {
	if a.Err != nil {
		return wire.Envelope{Kind: wire.Failure, Body: EncodeError(a.Err)}, nil
	}
	e.Kind = wire.Value
	e.Body, err = a.Raw()
	return e, err
}

// Raw is the value of an answer as it travels.
func (a Answer) Raw() ([]byte, error) {
	if e, ok := a.Value.(*rawAnswer); ok {
		return e.raw, nil
	}
	return wire.AppendMarshal(nil, a.Value)
}

// AppendRaw appends the value of an answer as it travels.
func (a Answer) AppendRaw(b []byte) ([]byte, error) {
	if e, ok := a.Value.(*rawAnswer); ok {
		return append(b, e.raw...), nil
	}
	return wire.AppendMarshal(b, a.Value)
}

// IsEncoded reports whether the answer is as it travels. Raw then returns the same bytes.
func (a Answer) IsEncoded() bool {
	_, ok := a.Value.(*rawAnswer)
	return ok
}

// Answer reads an incoming Value or Failure.
func (in Incoming) Answer() Answer {
	if in.Envelope.Kind == wire.Failure {
		return Answer{Err: FromWire(in.Envelope.Body), onControl: in.onControl}
	}
	return Answer{Value: &rawAnswer{in.Envelope.Body, in.unknown}}
}

// DecodeAnswer decodes an answer of type R on the waiting goroutine.
func DecodeAnswer[R any](a Answer) (R, error) {
	var none R
	if a.Err != nil {
		return none, a.Err
	}
	if e, is := a.Value.(*rawAnswer); is {
		if v, quickly := decodeBytes[R](e.raw, nil); quickly {
			return v, nil
		}
		var v R
		if err := e.decode(&v); err != nil {
			return none, err
		}
		return v, nil
	}
	r, ok := as[R](a.Value)
	if !ok {
		return none, ranError(errorf(CodeBadMessage, "", "", "the answer is %T, want %s", a.Value,
			reflect.TypeFor[R]()))
	}
	return r, nil
}

// AnswerDecoder decodes many encoded answers of type R. Small byte strings share blocks of 4 KiB.
type AnswerDecoder[R any] struct{ blocks blocks }

// Decode is DecodeAnswer for one of them.
func (d *AnswerDecoder[R]) Decode(raw []byte) (R, error) {
	if v, quickly := decodeBytes[R](raw, &d.blocks); quickly {
		return v, nil
	}
	return DecodeAnswer[R](EncodedAnswer(raw))
}

// rawAnswer is an undecoded answer from the bus. The waiting caller decodes it.
type rawAnswer struct {
	raw     []byte
	unknown *atomic.Uint64
}

// open decodes an answer on the waiting goroutine.
func (a Answer) open(result decodeFunc) (any, error) {
	answer, ok := a.Value.(*rawAnswer)
	if !ok || a.Err != nil {
		return a.Value, a.Err
	}
	v, err := result(wire.CBOR, answer.raw, answer.unknown)
	if err != nil {
		return nil, undecodable(err)
	}
	return v, nil
}

// decode decodes the answer into the value that v points to.
func (a *rawAnswer) decode(v any) error {
	if err := wire.CBOR.DecodeCounting(a.raw, v, a.unknown); err != nil {
		return undecodable(err)
	}
	return nil
}

func undecodable(err error) error {
	return ranError(errorf(CodeBadMessage, "", "", "cannot decode the answer: %v", err))
}

// answerError is the answer in the place of one that cannot be encoded.
func answerError(from subjects.ActorID, err error) *Error {
	return errorf(CodeHandler, from.String(), "", "cannot encode the answer: %v", err)
}

// AnswerType is the runtime's knowledge of an endpoint's answers, for packages that fold them.
type AnswerType struct{ m *method }

// Decode decodes an answer from the bus, or returns the value of a local one.
func (a AnswerType) Decode(answer Answer) (any, error) { return answer.open(a.m.result) }

// Fold returns the endpoint's reducer of that name, if it declares one.
func (a AnswerType) Fold(name string) (Fold, bool) {
	f, ok := a.m.folds[name]
	return f, ok
}
