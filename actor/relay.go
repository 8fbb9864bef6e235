package actor

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"
)

// RelayOptions configures a relay; the zero value is fine.
type RelayOptions struct {
	MaxUpdates int           // size of the buffer; a full one is sent on at once; 0: as Options.Relays, or 5
	MinDelay   time.Duration // the initial interval of the alarm; 0: 1 ms
	// the interval's bound: it doubles with each buffered update; 0: as Options.Relays, or 50 ms
	MaxDelay time.Duration
	Limit    Limit // Exactly(n): one value made of n updates, without alarm
}

// Relay is a port of this proc in front of another port. It folds updates into fewer ones and
// forwards these as messages of its owner (PORT-5).
//
// The relay folds and forwards MaxUpdates buffered updates at once, or fewer when an alarm rings. A
// buffered update sets the alarm to one interval after its last setting, or to now if that is past.
// The first update, and the first after a full buffer, set it to one interval from now.
//
// The interval starts at MinDelay and doubles up to MaxDelay, for the life of the relay. So a lone
// update goes on at once and a busy stream in batches. With the default options an update waits for
// 100 ms at most.
//
// If an update fills the buffer and the fold or the send fails, its sender gets the error, and the
// buffer is unchanged. If that happens at an alarm, the error is logged, and the buffer waits for
// the next update.
type Relay[U any] struct {
	p     *Proc
	owner string
	to    PortRef[U]
	rules relayRules[U]
	raw   RawPort

	mu        sync.Mutex // guards the fields below, and keeps what goes on in order
	state     relayState[U]
	timer     *time.Timer
	timerRuns sync.WaitGroup // the alarm, while it is set or handled
}

// OpenRelay opens a relay for a port of any proc. Without a reducer (the zero Reducer) each update
// is forwarded by itself. The reducer runs where updates arrive, so it must not block; it returns a
// new value and leaves its arguments unchanged. Close the relay. OpenRelay may be called on any
// goroutine.
func OpenRelay[U any](at PortOwner, to PortRef[U], by Reducer[U], o RelayOptions) (*Relay[U], error) {
	p, owner := at.portOwner()
	if !to.id.IsValid() {
		return nil, errorf(CodeInvalid, "", to.id.Port,
			"open a relay: want a port to forward to, got the zero PortRef or a malformed name")
	}
	o.MaxUpdates = cmp.Or(o.MaxUpdates, p.options.Relays.MaxUpdates)
	o.MaxDelay = cmp.Or(o.MaxDelay, p.options.Relays.MaxDelay)
	rules, err := newRelayRules(by, o)
	if err != nil {
		return nil, errorf(CodeInvalid, to.id.Actor.String(), to.id.Port, "open a relay: %v", err)
	}
	// A port of this proc must exist before its relay. So relays form no ring, and their locks,
	// held while they send, have an order.
	if to.id.Actor.Proc == p.id && p.ports.find(to.id.Actor.Name, to.id.Port) == nil {
		return nil, p.ports.missingError(to.id.Actor.Name, to.id.Port)
	}
	if to.id.Actor.Proc != p.id { // it waits for the server; a running relay must not
		if err := p.Members().FollowMesh(to.id.Actor.Proc.Mesh, int(to.id.Actor.Proc.Rank)+1); err != nil {
			return nil, err
		}
	}
	r := &Relay[U]{p: p, owner: owner, to: to, rules: rules, state: relayState[U]{interval: rules.first}}
	r.raw = openPrivate(at, r.recv, func(error) { r.warn(r.closeWith()) })
	return r, nil
}

// Ref is the relay's own address, to be sent to others in the place of the port it stands in for.
func (r *Relay[U]) Ref() PortRef[U] { return PortRef[U]{portRef{id: r.raw.ID(), via: r.p}} }

// Close ends the relay: later senders get ErrPortGone. It forwards the buffer, unfolded if the fold
// fails, and returns an error if some updates were not sent. A relay with a Limit drops an
// incomplete value, and its error has the number of updates.
//
// The end of its actor or proc closes a relay, too, and logs the error. A second call does nothing.
func (r *Relay[U]) Close() error {
	r.raw.Close()
	return r.closeWith()
}

func (r *Relay[U]) closeWith() error {
	r.mu.Lock()
	err := r.apply(relayEvent[U]{kind: relayClose, at: time.Now()})
	r.mu.Unlock()
	r.timerRuns.Wait() // for a timer that has fired already
	return err
}

func (r *Relay[U]) recv(at RawPort, in Incoming) error {
	u, err := decodeIncoming[U](at, in)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.apply(relayEvent[U]{kind: relayUpdate, at: time.Now(), update: u})
	if r.state.closed {
		at.Close()
	}
	return err
}

func (r *Relay[U]) onTimer() {
	defer r.timerRuns.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warn(r.apply(relayEvent[U]{kind: relayTimer, at: time.Now()}))
}

// apply carries out an event. A failure leaves the state unchanged, except at the end. The caller
// holds mu.
func (r *Relay[U]) apply(e relayEvent[U]) error {
	next, send, err := r.rules.step(r.state, e)
	for _, u := range send {
		err = cmp.Or(err, sendToPort(nil, r.p, r.owner, r.to.portRef, u)) // several are sent at the end only
	}
	if err != nil && e.kind != relayClose {
		return err
	}
	r.state = next
	r.setTimer(e.at)
	return err
}

// setTimer sets the alarm as the state has it.
func (r *Relay[U]) setTimer(now time.Time) {
	d := r.state.due.Sub(now)
	switch {
	case r.state.due.IsZero():
		if r.timer != nil && r.timer.Stop() {
			r.timerRuns.Done()
		}
	case r.timer == nil:
		r.timerRuns.Add(1)
		r.timer = time.AfterFunc(d, r.onTimer)
	default:
		r.timerRuns.Add(1)
		if r.timer.Reset(d) { // it had not rung: there is one alarm still
			r.timerRuns.Done()
		}
	}
}

func (r *Relay[U]) warn(err error) {
	if err != nil {
		r.p.sampledLog.Warn().Err(err).Str("relay", r.owner).Stringer("to", r.to).
			Msg("cannot forward updates")
	}
}

// relayRules are the parameters of a relay's decisions.
type relayRules[U any] struct {
	fold               func(acc, next U) (U, error) // nil: every update goes on by itself
	size               int
	first, maxInterval time.Duration
	limit              Limit
}

func newRelayRules[U any](by Reducer[U], o RelayOptions) (relayRules[U], error) {
	r := relayRules[U]{
		size: cmp.Or(o.MaxUpdates, 5), first: cmp.Or(o.MinDelay, time.Millisecond),
		maxInterval: cmp.Or(o.MaxDelay, 50*time.Millisecond),
		limit:       o.Limit,
	}
	if by.reducerSpec != (reducerSpec{}) {
		if err := by.Err(); err != nil {
			return r, err
		}
		r.fold = by.Fold
	}
	switch {
	case r.size < 1:
		return r, fmt.Errorf("want MaxUpdates of 1 or more, got %d", r.size)
	case r.first < 0 || r.maxInterval < r.first:
		return r, fmt.Errorf("want MinDelay between 0 and MaxDelay, got %s and %s", r.first, r.maxInterval)
	case r.limit.set && r.fold == nil:
		return r, errors.New("want a reducer to combine updates, got none")
	}
	return r, r.limit.err()
}

// relayState is all a relay knows. One made from another may share its buffer: only one of the two
// is kept.
type relayState[U any] struct {
	buffer   []U           // with a Limit: the one value so far
	count    int           // with a Limit: the updates in that value
	interval time.Duration // of the next alarm
	set      time.Time     // when the alarm was set last; zero after a full buffer
	due      time.Time     // of the alarm, at once when past; zero: it is not set
	closed   bool
}

type relayKind uint8

const (
	relayUpdate relayKind = iota // an update came
	relayTimer                   // the alarm rang
	relayClose                   // the relay is closed
)

type relayEvent[U any] struct {
	kind   relayKind
	at     time.Time
	update U // of relayTakes
}

// step decides on an event and returns the new state and the updates to forward. It is the whole
// logic of a relay. On an error the state is unchanged, except at the end.
func (r relayRules[U]) step(s relayState[U], e relayEvent[U]) (relayState[U], []U, error) {
	switch {
	case e.kind == relayClose:
		return r.closeWith(s)
	case e.kind == relayTimer:
		if len(s.buffer) == 0 || s.due.IsZero() || e.at.Before(s.due) { // the alarm was reset as it rang
			return s, nil, nil
		}
		return r.flush(s, s.buffer, s.set)
	case s.closed:
		return s, nil, errorf(CodePortGone, "", "", "the relay has received its updates, or is closed")
	case r.fold == nil:
		return s, []U{e.update}, nil
	case r.limit.set:
		return r.accumulate(s, e.update)
	}
	buffer := append(s.buffer, e.update)
	if len(buffer) >= r.size {
		return r.flush(s, buffer, time.Time{})
	}
	s.buffer = buffer
	from := e.at
	if !s.set.IsZero() {
		from = s.set
	}
	s.due = from.Add(s.interval)
	s.set = e.at
	s.interval = min(2*s.interval, r.maxInterval)
	return s, nil, nil
}

// flush sends a whole buffer as one. set is when the alarm counts as set from then on.
func (r relayRules[U]) flush(s relayState[U], buffer []U, set time.Time) (relayState[U], []U, error) {
	all, err := r.reduce(buffer...)
	if err != nil {
		return s, nil, err
	}
	s.buffer = nil
	s.set = set
	s.due = time.Time{}
	return s, []U{all}, nil
}

// accumulate folds an update into the one value of a relay with a Limit.
func (r relayRules[U]) accumulate(s relayState[U], u U) (relayState[U], []U, error) {
	all, err := r.reduce(append(s.buffer, u)...)
	if err != nil {
		return s, nil, err
	}
	s.buffer = []U{all}
	s.count++
	if s.count < r.limit.n {
		return s, nil, nil
	}
	return relayState[U]{closed: true}, []U{all}, nil
}

// closeWith sends the buffer. Folding only saves messages here: if it fails, the updates go one by
// one.
func (r relayRules[U]) closeWith(s relayState[U]) (relayState[U], []U, error) {
	after := relayState[U]{closed: true}
	if len(s.buffer) == 0 {
		return after, nil, nil
	}
	if r.limit.set {
		return after, nil, errorf(CodeStopped, "", "",
			"the relay was closed after %d of %d updates; they are dropped", s.count, r.limit.n)
	}
	all, err := r.reduce(s.buffer...)
	if err != nil {
		return after, s.buffer, nil
	}
	return after, []U{all}, nil
}

// reduce folds one or more updates in the order of arrival.
func (r relayRules[U]) reduce(updates ...U) (U, error) {
	acc := updates[0]
	for _, u := range updates[1:] {
		var err error
		acc, err = r.fold(acc, u)
		if err != nil {
			return acc, updateRefused(err)
		}
	}
	return acc, nil
}
