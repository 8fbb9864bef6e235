package actor

import (
	"fmt"

	"github.com/castnet-io/castnet/internal/wire"
)

// Answers is what the runtime knows about the answers of an endpoint, for those who fold them.
type Answers struct{ m *method }

// AnswersOf describes the answers of an actor's endpoint; the actor may have ended.
func (p *Proc) AnswersOf(actor, endpoint string) (Answers, error) {
	in := p.find(actor)
	if in == nil || in.def.methods[endpoint] == nil {
		return Answers{}, fmt.Errorf("proc %s has no actor %s with an endpoint %s", p.id, actor, endpoint)
	}
	return Answers{in.def.methods[endpoint]}, nil
}

// Open decodes an answer, or returns the one that never left the process.
func (a Answers) Open(answer Answer) (any, error) { return answer.open(a.m.result) }

// Fold returns the reducer of that name when the endpoint declares it.
func (a Answers) Fold(name string) (Fold, bool) {
	f, ok := a.m.folds[name]
	return f, ok
}

// Encoded is an answer as it travels.
func Encoded(raw []byte) Answer { return Answer{Value: &encoded{raw: raw}} }

// Raw is the value of an answer as it travels.
func (a Answer) Raw() ([]byte, error) {
	if e, ok := a.Value.(*encoded); ok {
		return e.raw, nil
	}
	return wire.AppendMarshal(nil, a.Value)
}
