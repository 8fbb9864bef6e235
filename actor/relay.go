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
	MaxUpdates int           // so many are buffered at most, and sent on when there are; 0: as Options.Relays, or 5
	First      time.Duration // what the alarm is set to at first; 0: 1 ms
	Max        time.Duration // what that grows to, doubling with each update that is buffered; 0: as Options.Relays, or 50 ms
	Limit      Limit         // Exactly(n): one value made of n updates, whatever time that takes
}

// Relay is a port of this proc that stands in for another: updates sent to it are folded into fewer,
// which go on to the port it stands in for as messages of its owner (PORT-5).
//
// MaxUpdates that are buffered are folded and sent on at once, fewer when an alarm rings. An update
// that is buffered sets the alarm to one interval after it was set last, or to now when that is past;
// the first, and the first after a full buffer, to one interval from now. The interval starts at First
// and doubles each time up to Max, for the life of the relay. So a lone update goes on at once and a
// busy stream in batches; with the default options an update waits for 100 ms at most.
//
// An update that fills the buffer is refused when that cannot be folded or sent on: its sender is
// told why, and the buffer is as it was. When the alarm rings and that happens, it is logged, and the
// buffer waits for the next update.
type Relay[U any] struct {
	p     *Proc
	owner string
	to    PortRef[U]
	rules relayRules[U]
	raw   RawPort

	mu      sync.Mutex // guards the fields below, and keeps what goes on in order
	state   relayState[U]
	alarm   *time.Timer
	ringing sync.WaitGroup // the alarm, while it is set or handled
}

// OpenRelay opens a relay for a port of any proc. Without a reducer (the zero Reducer) every update
// goes on by itself. The reducer runs where updates arrive, so it must not block; it returns a new
// value and leaves its arguments as they are. Close the relay. OpenRelay may be called on any
// goroutine.
func OpenRelay[U any](at Opener, to PortRef[U], by Reducer[U], o RelayOptions) (*Relay[U], error) {
	p, owner := at.opener()
	if !to.id.IsValid() {
		return nil, errorf(CodeInvalid, "", to.id.Port, "open a relay: want a port to stand in for, got the zero PortRef or a malformed name")
	}
	o.MaxUpdates, o.Max = cmp.Or(o.MaxUpdates, p.relays.MaxUpdates), cmp.Or(o.Max, p.relays.Max)
	rules, err := newRelayRules(by, o)
	if err != nil {
		return nil, errorf(CodeInvalid, to.id.Actor.String(), to.id.Port, "open a relay: %v", err)
	}
	// A port of this proc must be there before its relay: so relays form no ring, and the locks they
	// hold while they send have an order.
	if to.id.Actor.Proc == p.id && p.findPort(to.id.Actor.Name, to.id.Port) == nil {
		return nil, p.noPort(to.id.Actor.Name, to.id.Port)
	}
	if to.id.Actor.Proc != p.id { // waits for the server, which a relay at work must not
		if err := p.Follow(to.id.Actor.Proc.Mesh, int(to.id.Actor.Proc.Rank)+1); err != nil {
			return nil, err
		}
	}
	r := &Relay[U]{p: p, owner: owner, to: to, rules: rules, state: relayState[U]{interval: rules.first}}
	r.raw = openAt(at, r.recv, func(error) { r.warn(r.end()) })
	return r, nil
}

// Ref is the relay's own address, to be sent to others in the place of the port it stands in for.
func (r *Relay[U]) Ref() PortRef[U] { return PortRef[U]{id: r.raw.ID(), via: r.p} }

// Close ends the relay: senders from then on are told that it is gone, and what is buffered is sent
// on, by ones when it cannot be folded. An error says that not all of it was sent. A relay with a Limit
// sends nothing that is made of fewer updates, and its error says how many are dropped. The end of its
// actor or proc closes a relay, too; the error is logged then. A second call does nothing.
func (r *Relay[U]) Close() error {
	r.raw.Close()
	return r.end()
}

func (r *Relay[U]) end() error {
	r.mu.Lock()
	err := r.apply(relayEvent[U]{kind: relayEnds, at: time.Now()})
	r.mu.Unlock()
	r.ringing.Wait() // for an alarm that rang before and finds nothing
	return err
}

func (r *Relay[U]) recv(at RawPort, in Incoming) error {
	u, err := read[U](at, in)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.apply(relayEvent[U]{kind: relayTakes, at: time.Now(), update: u})
	if r.state.over {
		at.Close()
	}
	return err
}

func (r *Relay[U]) rings() {
	defer r.ringing.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warn(r.apply(relayEvent[U]{kind: relayRings, at: time.Now()}))
}

// apply does what the rules say. What cannot be done leaves the state as it was, unless it is the
// end. The caller holds mu.
func (r *Relay[U]) apply(e relayEvent[U]) error {
	next, send, err := r.rules.step(r.state, e)
	for _, u := range send {
		err = cmp.Or(err, r.to.sendAs(r.p, r.owner, u)) // several are sent at the end only
	}
	if err != nil && e.kind != relayEnds {
		return err
	}
	r.state = next
	r.setAlarm(e.at)
	return err
}

// setAlarm sets the alarm as the state has it.
func (r *Relay[U]) setAlarm(now time.Time) {
	d := r.state.due.Sub(now)
	switch {
	case r.state.due.IsZero():
		if r.alarm != nil && r.alarm.Stop() {
			r.ringing.Done()
		}
	case r.alarm == nil:
		r.ringing.Add(1)
		r.alarm = time.AfterFunc(d, r.rings)
	default:
		r.ringing.Add(1)
		if r.alarm.Reset(d) { // it had not rung: there is one alarm still
			r.ringing.Done()
		}
	}
}

func (r *Relay[U]) warn(err error) {
	if err != nil {
		r.p.loud.Warn().Err(err).Str("relay", r.owner).Stringer("to", r.to).Msg("updates were not sent on")
	}
}

// relayRules is what a relay decides by.
type relayRules[U any] struct {
	fold           func(acc, next U) (U, error) // nil: every update goes on by itself
	size           int
	first, longest time.Duration
	limit          Limit
}

func newRelayRules[U any](by Reducer[U], o RelayOptions) (relayRules[U], error) {
	r := relayRules[U]{
		size: cmp.Or(o.MaxUpdates, 5), first: cmp.Or(o.First, time.Millisecond), longest: cmp.Or(o.Max, 50*time.Millisecond),
		limit: o.Limit,
	}
	if !by.none() {
		if err := by.Err(); err != nil {
			return r, err
		}
		r.fold = by.Fold
	}
	switch {
	case r.size < 1:
		return r, fmt.Errorf("want MaxUpdates of 1 or more, got %d", r.size)
	case r.first < 0 || r.longest < r.first:
		return r, fmt.Errorf("want First between 0 and Max, got %s and %s", r.first, r.longest)
	case r.limit.set && r.fold == nil:
		return r, errors.New("want a reducer to make one value of many updates, got none")
	}
	return r, r.limit.err()
}

// relayState is all a relay knows. One made from another may share its buffer: only one of the two
// is kept.
type relayState[U any] struct {
	buffer   []U           // with a Limit: the one value so far
	taken    int           // with a Limit: the updates in that value
	interval time.Duration // of the next time that the alarm is set
	set      time.Time     // when the alarm was set last; zero after a full buffer
	due      time.Time     // when it rings, at once when that is past; zero: it does not
	over     bool
}

type relayKind uint8

const (
	relayTakes relayKind = iota // an update came
	relayRings                  // the alarm rang
	relayEnds                   // the relay is closed
)

type relayEvent[U any] struct {
	kind   relayKind
	at     time.Time
	update U // of relayTakes
}

// step decides what becomes of an event: the state after it and what is sent on. It is the whole of
// a relay. With an error nothing has happened, unless it is the end.
func (r relayRules[U]) step(s relayState[U], e relayEvent[U]) (relayState[U], []U, error) {
	switch {
	case e.kind == relayEnds:
		return r.end(s)
	case e.kind == relayRings:
		if len(s.buffer) == 0 || s.due.IsZero() || e.at.Before(s.due) { // it was set anew as it rang
			return s, nil, nil
		}
		return r.flush(s, s.buffer, s.set)
	case s.over:
		return s, nil, errorf(CodePortGone, "", "", "the relay has had its updates, or is closed")
	case r.fold == nil:
		return s, []U{e.update}, nil
	case r.limit.set:
		return r.gather(s, e.update)
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
	s.due, s.set = from.Add(s.interval), e.at
	s.interval = min(2*s.interval, r.longest)
	return s, nil, nil
}

// flush sends a whole buffer as one. set is when the alarm counts as set from then on.
func (r relayRules[U]) flush(s relayState[U], buffer []U, set time.Time) (relayState[U], []U, error) {
	all, err := r.reduce(buffer...)
	if err != nil {
		return s, nil, err
	}
	s.buffer, s.set, s.due = nil, set, time.Time{}
	return s, []U{all}, nil
}

// gather folds an update into the one value of a relay with a Limit.
func (r relayRules[U]) gather(s relayState[U], u U) (relayState[U], []U, error) {
	all, err := r.reduce(append(s.buffer, u)...)
	if err != nil {
		return s, nil, err
	}
	s.buffer = []U{all}
	if s.taken++; s.taken < r.limit.n {
		return s, nil, nil
	}
	return relayState[U]{over: true}, []U{all}, nil
}

// end sends what is left. To fold it only saves messages: what cannot be folded goes by ones.
func (r relayRules[U]) end(s relayState[U]) (relayState[U], []U, error) {
	after := relayState[U]{over: true}
	switch {
	case len(s.buffer) == 0:
		return after, nil, nil
	case r.limit.set:
		return after, nil, errorf(CodeStopped, "", "", "the relay was closed after %d of %d updates, which are dropped", s.taken, r.limit.n)
	}
	all, err := r.reduce(s.buffer...)
	if err != nil {
		return after, s.buffer, nil
	}
	return after, []U{all}, nil
}

// reduce folds updates, of which there is at least one, in the order in which they came.
func (r relayRules[U]) reduce(updates ...U) (U, error) {
	acc := updates[0]
	for _, u := range updates[1:] {
		var err error
		if acc, err = r.fold(acc, u); err != nil {
			return acc, refusal(err)
		}
	}
	return acc, nil
}
