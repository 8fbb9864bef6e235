package actor

import (
	"context"
	"fmt"
	"sync"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Accumulator folds updates of type U into a state of type S. It is a value without state, so any
// number of ports may share one.
//
// Its functions run where updates arrive, on a pump or on a local sender's goroutine, and must not
// block. They return a new value and leave their arguments unchanged: a receiver may hold the
// state, and an update is folded again after a failure.
type Accumulator[S, U any] struct {
	name    string
	initial S
	fold    func(state S, update U) (S, error)
	reducer Reducer[U]
	err     error // an invalid name or function, found by the constructor
}

// NewAccumulator names a way to fold updates, one by one in the order of arrival. The name follows
// the label rule; Err and OpenAccumulator report a bad one. If fold returns an error, the update is
// refused.
func NewAccumulator[S, U any](name string, initial S,
	fold func(state S, update U) (S, error)) Accumulator[S, U] {
	return Accumulator[S, U]{name: name, initial: initial, fold: fold}
}

// ReducedBy adds the reducer for relays. Folding its results must give the same state as folding
// the updates one by one.
func (a Accumulator[S, U]) ReducedBy(r Reducer[U]) Accumulator[S, U] {
	a.reducer = r
	return a
}

// Name is the accumulator's name.
func (a Accumulator[S, U]) Name() string { return a.name }

// Initial is the state before the first update.
func (a Accumulator[S, U]) Initial() S { return a.initial }

// Reducer returns the reducer for relays; the zero Reducer if there is none.
func (a Accumulator[S, U]) Reducer() Reducer[U] { return a.reducer }

// Err reports a bad name, a missing function or a bad reducer.
func (a Accumulator[S, U]) Err() error {
	if err := subjects.CheckLabel("accumulator", a.name); err != nil {
		return err
	}
	switch {
	case a.err != nil:
		return fmt.Errorf("accumulator %s: %w", a.name, a.err)
	case a.fold == nil:
		return fmt.Errorf("accumulator %s: want a function, got nil", a.name)
	case a.reducer.reducerSpec == reducerSpec{}:
		return nil
	}
	if err := a.reducer.Err(); err != nil {
		return fmt.Errorf("accumulator %s: %w", a.name, err)
	}
	return nil
}

// Fold folds one update into a state; a panic of the user's function is an error.
func (a Accumulator[S, U]) Fold(state S, update U) (out S, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("accumulator %s panicked: %s", a.name, wire.PanicText(p))
		}
	}()
	return a.fold(state, update)
}

// Limit is the number of updates that a port takes in its life. The zero Limit sets none.
type Limit struct {
	n   int
	set bool
}

// Exactly makes a port take n updates, yield one value made of all of them, and close (PORT-3). If
// n is less than one, the verb that opens the port returns an error.
func Exactly(n int) Limit { return Limit{n, true} }

func (l Limit) err() error {
	if l.set && l.n < 1 {
		return fmt.Errorf("want 1 update or more, got %d", l.n)
	}
	return nil
}

// AccumulatorPort is a port that folds its updates into one state (PORT-3).
type AccumulatorPort[S, U any] struct {
	acc    Accumulator[S, U]
	limit  Limit
	states *Port[S] // holds the latest state until a receiver takes it

	mu     sync.Mutex // guards the fields below, and what goes into states
	state  S
	count  int  // updates folded into state
	closed bool // takes no more
}

// OpenAccumulator opens a port that folds updates as they arrive. A Limit bounds their number. If
// acc refuses an update, its sender gets ErrBadMessage and the state does not change. Close the
// port. OpenAccumulator may be called on any goroutine.
func OpenAccumulator[S, U any](at PortOwner, acc Accumulator[S, U],
	limits ...Limit) (*AccumulatorPort[S, U], error) {
	a := &AccumulatorPort[S, U]{acc: acc, states: newPort[S](1), state: acc.initial}
	err := acc.Err()
	for _, l := range limits {
		a.limit = l
		if err == nil {
			err = l.err()
		}
	}
	if err == nil && len(limits) > 1 {
		err = fmt.Errorf("want one Limit at most, got %d", len(limits))
	}
	if err != nil {
		return nil, errorf(CodeInvalid, "", "", "open an accumulating port: %v", err)
	}
	a.states.raw = openPrivate(at, a.recv, a.closeWith)
	return a, nil
}

func (a *AccumulatorPort[S, U]) recv(at RawPort, in Incoming) error {
	u, err := decodeIncoming[U](at, in)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return at.goneError("the port has received all its updates, or is closed")
	}
	state, err := a.acc.Fold(a.state, u)
	if err != nil {
		return updateRefused(err)
	}
	a.state = state
	a.count++
	if !a.limit.set {
		a.publish()
	} else if a.count == a.limit.n {
		a.closed = true
		a.publish()
		at.Close()
		a.states.closeWith(at.goneError("the port has received its %d updates", a.count))
	}
	return nil
}

// publish replaces the state that no receiver has taken yet.
func (a *AccumulatorPort[S, U]) publish() {
	a.states.take()
	a.states.put(a.state, false) // there is room: only the holder of mu puts something in
}

func (a *AccumulatorPort[S, U]) closeWith(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.states.closeWith(err)
}

// Ref is the port's address, to be sent to others.
func (a *AccumulatorPort[S, U]) Ref() PortRef[U] {
	return PortRef[U]{portRef{id: a.states.raw.ID(), via: a.states.raw.p}}
}

// Latest is the current state, received or not; before the first update the initial one. It may be
// called on any goroutine, except by the accumulator's own functions.
func (a *AccumulatorPort[S, U]) Latest() S {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Recv waits for a state newer than the one it returned last, and returns the latest. One receive
// may cover many updates. With a Limit it returns the final state, once.
//
// The wait ends with ctx, with the port or its actor, or after the last update. A state from before
// the end is still received. Recv may be called on any goroutine; each state goes to one of them.
func (a *AccumulatorPort[S, U]) Recv(ctx context.Context) (S, error) { return a.states.Recv(ctx) }

// Close ends the port; later senders get ErrPortGone. A second call does nothing.
func (a *AccumulatorPort[S, U]) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.states.Close()
}
