package floor

import (
	"context"
	"sync"

	"github.com/castnet-io/castnet/bench/local"
)

// system has nothing but room for answers that is used again.
type system struct{ answers sync.Pool }

// New makes a system of such actors. It cannot fail, and neither can what is done with it.
func New(context.Context, local.Fault) (local.System, error) {
	return &system{answers: sync.Pool{New: func() any { return make(chan any, 1) }}}, nil
}

// Spawn makes an actor and starts it: to have no name is to have nothing to wait for.
func (*system) Spawn(b local.Behavior) local.Ref {
	b.Started()
	return &cell{behavior: b}
}

// Tell sends a message.
func (*system) Tell(to local.Ref, m any) { to.(*cell).push(envelope{message: m}) }

// Ask sends a message and waits for its answer, which always comes: the handlers of the workloads
// return.
func (s *system) Ask(to local.Ref, m any) any {
	answer := s.answers.Get().(chan any)
	to.(*cell).push(envelope{message: m, answer: answer})
	a := <-answer
	s.answers.Put(answer)
	return a
}

// Close has nothing to do.
func (*system) Close(context.Context) error { return nil }
