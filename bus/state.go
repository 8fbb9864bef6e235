package bus

import "sync"

// ConnName names one of the two connections of a Bus: data or control.
type ConnName string

// The connections of a Bus. The name of one at the server ends in its ConnName.
const (
	DataConn    ConnName = "data"
	ControlConn ConnName = "control"
)

// StateKind is the kind of a connection's change.
type StateKind string

// The kinds of State.
const (
	Connected    StateKind = "connected"    // the first time, before Open returns or soon after
	Disconnected StateKind = "disconnected" // publishes fail until Reconnected
	// the server has all subscriptions; messages in flight may be lost
	Reconnected StateKind = "reconnected"
	Denied      StateKind = "denied" // Err is a *PermissionError; the connection stays
	Closed      StateKind = "closed" // for good
)

// State is one event in the life of a connection.
type State struct {
	Conn ConnName
	Kind StateKind
	Err  error // why; nil for Connected, Reconnected and a Close asked for
}

// stateWatchers receive every State.
type stateWatchers struct {
	mu  sync.Mutex
	all map[*func(State)]struct{}
}

// Watch calls f with every State from now on, like OnState. After the returned function has
// returned, f is not called any more; f itself must not call that function.
func (b *Bus) Watch(f func(State)) (cancel func()) {
	w := &b.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[*func(State)]struct{}{}
	}
	w.all[&f] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, &f)
	}
}

func (w *stateWatchers) notify(s State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for f := range w.all {
		(*f)(s)
	}
}
