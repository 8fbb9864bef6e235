package actor

import (
	"context"
	"fmt"
	"sync"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Accumulator folds updates of type U into a state of type S. It is a value and holds no state: any
// number of ports may use one.
//
// Its functions run where updates arrive, on a pump or on a local sender's goroutine, so they must
// not block. They return a new value and leave their arguments as they are: a state may be in the
// hands of a receiver, and an update is folded again when what it was folded into could not be used.
type Accumulator[S, U any] struct {
	name    string
	initial S
	fold    func(state S, update U) (S, error)
	reducer Reducer[U]
	err     error // what its maker found wrong with it
}

// NewAccumulator names a way to fold updates, one by one in the order in which they arrive. The name
// follows the label rule; a bad one is reported by Err and by OpenAccumulator. An error of fold
// refuses that update.
func NewAccumulator[S, U any](name string, initial S, fold func(state S, update U) (S, error)) Accumulator[S, U] {
	return Accumulator[S, U]{name: name, initial: initial, fold: fold}
}

// ReducedBy adds the reducer that relays may fold updates with on their way: to fold what it made of
// some updates must give the state that folding them one by one gives.
func (a Accumulator[S, U]) ReducedBy(r Reducer[U]) Accumulator[S, U] {
	a.reducer = r
	return a
}

// Name is the accumulator's name.
func (a Accumulator[S, U]) Name() string { return a.name }

// Initial is the state before the first update.
func (a Accumulator[S, U]) Initial() S { return a.initial }

// Reducer is what relays may fold updates with; the zero Reducer when they may not.
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
	case a.reducer.none():
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

// none reports the zero Reducer, which stands for no reducer.
func (r Reducer[R]) none() bool { return r.name == "" && r.fold == nil }

// Limit says how many updates a port takes in its life. The zero Limit sets none.
type Limit struct {
	n   int
	set bool
}

// Exactly makes a port take n updates, yield one value made of all of them, and be gone (PORT-4).
// Less than one update is an error of the verb that opens the port.
func Exactly(n int) Limit { return Limit{n, true} }

func (l Limit) err() error {
	if l.set && l.n < 1 {
		return fmt.Errorf("want exactly 1 update or more, got %d", l.n)
	}
	return nil
}

// Accumulated is a port that folds what is sent to it into a state (PORT-3). It keeps one state,
// however many updates come.
type Accumulated[S, U any] struct {
	acc    Accumulator[S, U]
	limit  Limit
	states *Port[S] // holds the latest state while nobody has received it

	mu    sync.Mutex // guards the fields below, and what goes into states
	state S
	taken int  // updates folded into state
	over  bool // takes no more
}

// OpenAccumulator opens a port that folds updates as they arrive. With a Limit it takes so many, else
// any number. An update that acc refuses comes back to its sender as ErrBadMessage, and leaves the
// state as it was. Close the port. OpenAccumulator may be called on any goroutine.
func OpenAccumulator[S, U any](at Opener, acc Accumulator[S, U], limits ...Limit) (*Accumulated[S, U], error) {
	a := &Accumulated[S, U]{acc: acc, states: newPort[S](1), state: acc.initial}
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
	a.states.raw = openAt(at, a.recv, a.end)
	return a, nil
}

func (a *Accumulated[S, U]) recv(at RawPort, in Incoming) error {
	u, err := read[U](at, in)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return at.gone("the port has had all its updates, or is closed")
	}
	state, err := a.acc.Fold(a.state, u)
	if err != nil {
		return refusal(err)
	}
	a.state = state
	a.taken++
	switch {
	case !a.limit.set:
		a.publish()
	case a.taken == a.limit.n:
		a.over = true
		a.publish()
		at.Close()
		a.states.end(at.gone("the port has had its %d updates", a.taken))
	}
	return nil
}

// publish puts the state in the place of the one that nobody has received.
func (a *Accumulated[S, U]) publish() {
	select {
	case <-a.states.queue:
	default:
	}
	a.states.queue <- a.state // there is room: only the holder of mu puts something in
}

func (a *Accumulated[S, U]) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.states.end(err)
}

// Ref is the port's address, to be sent to others.
func (a *Accumulated[S, U]) Ref() PortRef[U] {
	return PortRef[U]{id: a.states.raw.ID(), via: a.states.raw.p}
}

// Latest is the state now, received or not; the initial one before the first update. It may be
// called on any goroutine but from the accumulator's own functions.
func (a *Accumulated[S, U]) Latest() S {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// Recv waits for a state that is newer than the one it returned last, and returns the latest: many
// updates may be one receive, and without an update there is none. With a Limit it returns the final
// state, once. It waits until ctx ends, or the port is closed, has had its updates, or its actor
// ends; a state from before the end is still received. It may be called on any goroutine; of several
// that wait, one gets a state.
func (a *Accumulated[S, U]) Recv(ctx context.Context) (S, error) { return a.states.Recv(ctx) }

// Close ends the port; senders from then on are told that it is gone. A second call does nothing.
func (a *Accumulated[S, U]) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.states.Close()
}
