package actor

import "github.com/castnet-io/castnet/internal/wire"

// AnswerType is the runtime's knowledge of an endpoint's answers, for packages that fold them.
type AnswerType struct{ m *method }

// Decode decodes an answer from the bus, or returns the value of a local one.
func (a AnswerType) Decode(answer Answer) (any, error) { return answer.open(a.m.result) }

// Fold returns the endpoint's reducer of that name, if it declares one.
func (a AnswerType) Fold(name string) (Fold, bool) {
	f, ok := a.m.folds[name]
	return f, ok
}

// EncodedAnswer is an answer as it travels.
func EncodedAnswer(raw []byte) Answer { return Answer{Value: &rawAnswer{raw: raw}} }

// Raw is the value of an answer as it travels.
func (a Answer) Raw() ([]byte, error) {
	if e, ok := a.Value.(*rawAnswer); ok {
		return e.raw, nil
	}
	return wire.AppendMarshal(nil, a.Value)
}
