package actor

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Kinds of events, which are also the token after `ev.` in their subject.
const (
	KindActor = "actor"
	KindProc  = "proc"
	KindMesh  = "mesh"
	KindHost  = "host"
)

// Event is something that happened to an actor, a proc, a mesh or a host, published on `ev.` at
// that moment as JSON. Fields are append-only.
type Event struct {
	Kind       string    `json:"kind"`
	Status     string    `json:"status"`
	Mesh       string    `json:"mesh,omitempty"`
	Rank       int       `json:"rank"`
	Gen        int       `json:"gen"`
	Seat       int       `json:"seat,omitempty"` // of the proc in its process
	Actor      string    `json:"actor,omitempty"`
	Type       string    `json:"type,omitempty"`
	Host       string    `json:"host,omitempty"`
	Endpoint   string    `json:"endpoint,omitempty"` // whose handler failed it
	Code       Code      `json:"code,omitempty"`     // how it failed
	Reason     string    `json:"reason,omitempty"`
	Cause      *Event    `json:"cause,omitempty"` // the end of another that it did not survive
	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     int       `json:"signal,omitempty"`
	StderrTail []string  `json:"stderr_tail,omitempty"`
	At         time.Time `json:"at"`
	Step       string    `json:"step,omitempty"`        // what was done, by a name that stays: docs/events.md
	Count      int       `json:"count,omitempty"`       // it is about so many ranks, from Rank on; 0 = one
	PerProcess int       `json:"per_process,omitempty"` // so many ranks in a row share a process; 0 = none do
	Nth        int       `json:"nth,omitempty"`         // how many actors of that name its proc had before

	Detail json.RawMessage `json:"detail,omitempty"` // what else belongs to the code

	// What the controller of a mesh adds for people, and for who watches a part of it.
	Name  string `json:"name,omitempty"`  // of the mesh, as its owner calls it
	Point string `json:"point,omitempty"` // the rank's coordinates in the mesh: host=0/2,gpu=3/4
	View  int    `json:"view,omitempty"`  // the rank in the region that is watched
}

// Each calls f with what the event says of each of its ranks.
func (e Event) Each(f func(Event)) {
	count, first := min(max(e.Count, 1), maxCount), e.Rank
	e.Count = 0
	for n := range count {
		e.Rank = first + n
		if count > 1 {
			e.Seat = e.Rank % max(e.PerProcess, 1)
		}
		f(e)
	}
}

// Within is what the event says of the ranks of a mesh that has so many; false: nothing.
func (e Event) Within(ranks int) (Event, bool) {
	count := max(e.Count, 1)
	if e.Rank < 0 || e.Rank >= ranks {
		return Event{}, false
	}
	if left := ranks - e.Rank; count > left {
		e.Count, e.Seat = left, e.Rank%max(e.PerProcess, 1)
	}
	return e, true
}

// maxCount is how many ranks an event may be about: more than a host runs.
const maxCount = 1 << 16

// Terminal reports whether what the event is about is gone.
func (e Event) Terminal() bool { return e.Status == string(Stopped) || e.Status == string(Failed) }

// Proc is the proc an event is about; the zero ID when it is not about one.
func (e Event) Proc() subjects.ProcID {
	mesh, err := subjects.ParseMeshID(e.Mesh)
	if err != nil || e.Rank < 0 || e.Gen < 0 || e.Seat < 0 || e.Seat > e.Rank {
		return subjects.ProcID{}
	}
	return subjects.ProcID{Mesh: mesh, Rank: uint32(e.Rank), Gen: uint32(e.Gen), Seat: uint32(e.Seat)}
}

// scope is the part of the event's subject that says what it is about.
func (e Event) scope() subjects.EventScope {
	mesh, err := subjects.ParseMeshID(e.Mesh)
	switch {
	case err != nil:
		return subjects.EventScope{}
	case e.Kind == KindMesh || e.Kind == KindHost:
		return mesh.Scope()
	}
	s := e.Proc().Scope()
	s.Actor = e.Actor
	return s
}

// Failed reports whether what the event is about has failed, and not just ended.
func (e Event) Failed() bool { return e.Status == string(Failed) }

// WithProc reports whether an actor has ended because its proc stops: what becomes of the proc is what became of it.
func (e Event) WithProc() bool {
	return e.Kind == KindActor && e.Cause != nil && e.Cause.Kind == KindProc && e.Cause.Proc() == e.Proc()
}

// maxCauses bounds a chain of causes: those in the middle of a longer one are left out. The longest one has 12 levels,
// and may be in a list of what is said, which has 16 (WIRE-7).
const maxCauses = 8

// RootCause is the event at the end of the chain of causes: what went wrong first.
func (e Event) RootCause() Event {
	for e.Cause != nil {
		e = *e.Cause
	}
	return e
}

// because is e with a cause, whose chain is cut to the nearest and the first.
func (e Event) because(cause *Event) Event {
	if cause == nil {
		return e
	}
	root, chain, at := cause.RootCause(), *cause, 0
	e.Cause = &chain
	for last := &chain; last.Cause != nil; at++ {
		next := *last.Cause
		if at >= maxCauses && next.Cause != nil {
			next = root
		}
		last.Cause = &next
		last = &next
	}
	return e
}

// Report is the event and what caused it, in words, a line each.
func (e Event) Report() string {
	s := e.String()
	for c := e.Cause; c != nil; c = c.Cause {
		s += "\n  caused by: " + c.String()
	}
	return s
}

// String is the event in one line.
func (e Event) String() string {
	s := e.Kind
	if p := e.Proc(); p.IsValid() {
		s += " " + p.String()
	}
	if e.Actor != "" {
		s += "/" + e.Actor
	}
	if e.Type != "" {
		s += " (type " + e.Type + ")"
	}
	s += " " + e.Status
	if e.Host != "" {
		s += " on " + e.Host
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Emit publishes an event on the control connection, and shows it to this proc's observers.
func (p *Proc) Emit(e Event) {
	p.observe(e)
	data, err := json.Marshal(e)
	if err != nil {
		p.log.Error().Err(err).Stringer("event", e).Msg("an event that cannot be encoded")
		return
	}
	subject := p.space.Event(e.Kind, e.scope(), p.self.String())
	if err := p.bus.Control().Publish(subject, data); err != nil {
		p.log.Warn().Err(err).Stringer("event", e).Msg("an event was not published")
	}
}

// happened tells what became of an actor: observers hear of everything, the bus of every failure
// and of actors that are announced; but that one of these runs is no news to who spawned it.
//
//go:noinline
func (in *instance) happened(s Status) Event {
	in.mu.Lock()
	var end ending
	if in.rare != nil {
		end = in.rare.end
	}
	in.mu.Unlock()
	e, p := in.event(s, end), in.proc
	switch {
	case e.Failed():
		p.lastFailure.Store(&e)
		p.log.Error().Str("actor", e.Actor).Str("type", e.Type).Msg("actor failed: " + e.Reason)
		p.Emit(e)
	case in.announced && (s != Running || in.greets):
		p.Emit(e)
	default:
		p.observe(e)
	}
	return e
}

// leaves is the event that the proc stops, which is the cause of its actors' ends.
func (p *Proc) leaves() Event {
	return Event{
		Kind: KindProc, Status: string(Stopping), Mesh: p.id.Mesh.String(), Rank: int(p.id.Rank), Gen: int(p.id.Gen), Seat: int(p.id.Seat),
		At: time.Now(),
	}
}

// event describes the actor's new status.
func (in *instance) event(s Status, end ending) Event {
	id := in.proc.id
	e := Event{
		Kind: KindActor, Status: string(s), Mesh: id.Mesh.String(), Rank: int(id.Rank), Gen: int(id.Gen), Seat: int(id.Seat),
		Actor: in.name, Nth: int(in.nth), Type: in.def.name, Reason: end.reason, At: time.Now(),
	}
	if s == Failed {
		e.Endpoint, e.Code = end.endpoint, end.code
		if end.endpoint != "" {
			e.Reason = end.endpoint + ": " + end.reason
		}
	}
	return e.because(end.cause)
}

// ending is why an actor ends.
type ending struct {
	endpoint string // whose handler failed it; "" when none did
	code     Code   // how, when it failed
	reason   string
	cause    *Event
}

// Observe shows f every event this proc emits, on the goroutine it happens on, which f must not
// block. The returned function ends it.
func (p *Proc) Observe(f func(Event)) (cancel func()) {
	mustBe(f != nil, "Observe", "a function, got nil")
	p.mu.Lock()
	defer p.mu.Unlock()
	key := &f
	p.observers[key] = struct{}{}
	p.observed.Store(true)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.observers, key)
		p.observed.Store(len(p.observers) > 0)
	}
}

func (p *Proc) observe(e Event) {
	if !p.observed.Load() {
		return
	}
	p.mu.Lock()
	fs := make([]func(Event), 0, len(p.observers))
	for f := range p.observers {
		fs = append(fs, *f)
	}
	p.mu.Unlock()
	for _, f := range fs {
		f(e)
	}
}

// OpenEvent reads an event off the bus; one on a subject about something else is an error.
func OpenEvent(space subjects.Space, m bus.Msg) (Event, error) {
	e, err := DecodeEvent(m.Data)
	if err == nil {
		err = e.mustBeFrom(space, m.Subject)
	}
	return e, err
}

// mustBeFrom refuses an event that is about something else than the subject it came on: who may say
// what about whom is a permission on subjects.
func (e Event) mustBeFrom(space subjects.Space, subject string) error {
	s, err := space.Parse(subject)
	if err != nil {
		return err
	}
	if space.Event(e.Kind, e.scope(), s.From) != subject {
		return fmt.Errorf("event: about %s, on a subject about something else", e)
	}
	return nil
}

// DecodeEvent reads what Emit published.
func DecodeEvent(data []byte) (Event, error) {
	var e Event
	if len(data) == 0 {
		return e, errors.New("event: it is empty")
	}
	if err := wire.JSON.Decode(data, &e); err != nil {
		return Event{}, fmt.Errorf("event: %w", err)
	}
	return e, nil
}
