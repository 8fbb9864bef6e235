package actor

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/bus"
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
	Actor      string    `json:"actor,omitempty"`
	Type       string    `json:"type,omitempty"`
	Host       string    `json:"host,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     int       `json:"signal,omitempty"`
	StderrTail []string  `json:"stderr_tail,omitempty"`
	At         time.Time `json:"at"`
}

// Terminal reports whether what the event is about is gone.
func (e Event) Terminal() bool { return e.Status == string(Stopped) || e.Status == string(Failed) }

// Proc is the proc an event is about; the zero ID when it is not about one.
func (e Event) Proc() subjects.ProcID {
	mesh, err := subjects.ParseMeshID(e.Mesh)
	if err != nil || e.Rank < 0 || e.Gen < 0 {
		return subjects.ProcID{}
	}
	return subjects.ProcID{Mesh: mesh, Rank: uint32(e.Rank), Gen: uint32(e.Gen)}
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

// String is the event in one line.
func (e Event) String() string {
	s := e.Kind
	if p := e.Proc(); p.IsValid() {
		s += " " + p.String()
	}
	if e.Actor != "" {
		s += "/" + e.Actor
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

// emit is Emit for an actor of this proc, logged.
func (p *Proc) emit(e Event) {
	if e.Status == string(Failed) {
		p.log.Error().Str("actor", e.Actor).Str("type", e.Type).Msg("actor failed: " + e.Reason)
	}
	p.Emit(e)
}

// Observe shows f every event this proc emits, on the goroutine it happens on, which f must not
// block. The returned function ends it.
func (p *Proc) Observe(f func(Event)) (cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := &f
	p.observers[key] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.observers, key)
	}
}

func (p *Proc) observe(e Event) {
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
	if err := json.Unmarshal(data, &e); err != nil {
		return Event{}, fmt.Errorf("event: %w", err)
	}
	return e, nil
}
