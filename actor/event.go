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

// Kinds of events, also the token after `ev.` in their subject.
const (
	KindActor = "actor"
	KindProc  = "proc"
	KindMesh  = "mesh"
	KindRank  = "rank" // the owner's decision on a rank of its mesh
	KindHost  = "host"
	KindAudit = "audit" // an act that an actor granted or refused (Method.Audited)
)

// StepResize is the step of a proc event that reports a Grow or Shrink of the mesh.
const StepResize = "mesh.resize"

// StepOwner is the step of a proc event by which a host reports that a mesh has another owner, its
// Object.
const StepOwner = "mesh.owner"

// Event is a change of an actor, a proc, a mesh or a host, published at once on `ev.` as JSON.
// Fields are append-only.
type Event struct {
	Kind       string    `json:"kind"`
	Status     string    `json:"status"`
	Mesh       string    `json:"mesh,omitempty"`
	Rank       int       `json:"rank"`
	Gen        int       `json:"gen"`
	ProcIndex  int       `json:"proc_index,omitempty"` // of the proc in its process
	Actor      string    `json:"actor,omitempty"`
	Type       string    `json:"type,omitempty"`
	Host       string    `json:"host,omitempty"`
	Endpoint   string    `json:"endpoint,omitempty"` // of the handler that failed it
	Code       Code      `json:"code,omitempty"`     // how it failed
	Reason     string    `json:"reason,omitempty"`
	Cause      *Event    `json:"cause,omitempty"` // the end of another actor or proc that caused this one
	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     int       `json:"signal,omitempty"`
	StderrTail []string  `json:"stderr_tail,omitempty"`
	At         time.Time `json:"at"`
	Step       string    `json:"step,omitempty"`        // the action, by a stable name: docs/events.md
	Count      int       `json:"count,omitempty"`       // number of ranks, from Rank on; 0 = one
	PerProcess int       `json:"per_process,omitempty"` // number of consecutive ranks in one process; 0 = one
	// the number of earlier actors of that name in its proc
	Nth int `json:"nth,omitempty"`
	// of KindRank: the number of the event among those of its controller, from 1; that of Rank in a
	// run
	Seq uint64 `json:"seq,omitempty"`

	Detail json.RawMessage `json:"detail,omitempty"` // data of the code

	Revision int `json:"revision,omitempty"` // of StepResize: that of the mesh

	// By is the sender of the message that caused the event, as <principal>.<process>: of host events
	// and of KindAudit, if there was one.
	By     string `json:"by,omitempty"`
	Object string `json:"object,omitempty"` // of KindAudit: what the act is about; see StepOwner

	// Fields for people and for watchers of a region, set by the controller of a mesh.
	Name  string `json:"name,omitempty"`  // of the mesh, as its owner calls it
	Point string `json:"point,omitempty"` // the rank's coordinates in the mesh: host=0/2,gpu=3/4
	View  int    `json:"view,omitempty"`  // the rank in the watched region
}

// Each calls f with the event of each of its ranks.
func (e Event) Each(f func(Event)) {
	count := min(max(e.Count, 1), maxCount)
	first := e
	e.Count = 0
	for n := range count {
		e.Rank = first.Rank + n
		if first.Seq > 0 {
			e.Seq = first.Seq + uint64(n)
		}
		if count > 1 {
			e.ProcIndex = e.Rank % max(e.PerProcess, 1)
		}
		f(e)
	}
}

// ClampRanks returns the event limited to the ranks of a mesh of that size; false if none remain.
func (e Event) ClampRanks(ranks int) (Event, bool) {
	count := max(e.Count, 1)
	if e.Rank < 0 || e.Rank >= ranks {
		return Event{}, false
	}
	if left := ranks - e.Rank; count > left {
		e.Count = left
		e.ProcIndex = e.Rank % max(e.PerProcess, 1)
	}
	return e, true
}

// maxCount limits the ranks of an event: more than a host runs.
const maxCount = 1 << 16

// Terminal reports whether the subject of the event has ended.
func (e Event) Terminal() bool { return e.Status == string(Stopped) || e.Status == string(Failed) }

// Proc is the proc an event is about; the zero ID when it is not about one.
func (e Event) Proc() subjects.ProcID {
	mesh, err := subjects.ParseMeshID(e.Mesh)
	if err != nil || e.Rank < 0 || e.Gen < 0 || e.ProcIndex < 0 || e.ProcIndex > e.Rank {
		return subjects.ProcID{}
	}
	return subjects.ProcID{Mesh: mesh, Rank: uint32(e.Rank), Gen: uint32(e.Gen), Index: uint32(e.ProcIndex)}
}

// scope is the part of the event's subject that names its object.
func (e Event) scope() subjects.EventScope {
	mesh, err := subjects.ParseMeshID(e.Mesh)
	if err != nil {
		return subjects.EventScope{}
	}
	if e.Kind == KindMesh || e.Kind == KindRank || e.Kind == KindHost {
		return mesh.Scope()
	}
	s := e.Proc().Scope()
	s.Actor = e.Actor
	return s
}

// Failed reports a failure, as opposed to an orderly end.
func (e Event) Failed() bool { return e.Status == string(Failed) }

// EndedWithProc reports whether an actor ended because its proc stops. The proc's own end then
// tells the rest.
func (e Event) EndedWithProc() bool {
	return e.Kind == KindActor && e.Cause != nil && e.Cause.Kind == KindProc && e.Cause.Proc() == e.Proc()
}

// maxCauses bounds a chain of causes; a longer one loses its middle. The longest has 12 levels, so
// it fits into a list within WIRE-7's 16.
const maxCauses = 8

// RootCause is the event at the end of the chain of causes: the original fault.
func (e Event) RootCause() Event {
	for e.Cause != nil {
		e = *e.Cause
	}
	return e
}

// withCause returns e with a cause, whose chain is cut to the nearest events and the first.
func (e Event) withCause(cause *Event) Event {
	if cause == nil {
		return e
	}
	root := cause.RootCause()
	chain := *cause
	e.Cause = &chain
	at := 0
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

// Report formats the event and its causes, one line each.
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

// ProcEvents returns the filters for events about a mesh's procs, by their hosts and by others. The
// zero mesh means all.
func ProcEvents(space subjects.Space, mesh subjects.MeshID) []string {
	return []string{space.HostEvents(mesh), space.Events(KindProc, mesh)}
}

// subject returns the one subject for the event of a sender. Hosts report procs on a subject of
// their own.
func (e Event) subject(space subjects.Space, from subjects.Sender) string {
	if e.Kind == KindProc && from.Role() == subjects.Host {
		return space.HostEvent(e.Proc(), from)
	}
	return space.Event(e.Kind, e.scope(), from)
}

// Emit publishes an event on the control connection, and shows it to this proc's observers.
func (p *Proc) Emit(e Event) {
	p.observe(e)
	data, err := json.Marshal(e)
	if err != nil {
		p.log.Error().Err(err).Stringer("event", e).Msg("cannot encode event")
		return
	}
	if err := p.bus.Control().Publish(e.subject(p.space, p.sender), data); err != nil {
		p.log.Warn().Err(err).Stringer("event", e).Msg("cannot publish event")
	}
}

// publishStatus publishes an actor's change. Observers receive every change. The bus receives every
// failure, and the ends of announced actors; it receives a start only with AnnounceStart.
//
//go:noinline
func (in *instance) publishStatus(s Status) Event {
	in.mu.Lock()
	var end ending
	if in.extra != nil {
		end = in.extra.ending
	}
	in.mu.Unlock()
	p := in.proc
	e := in.event(s, end)
	switch {
	case e.Failed():
		p.lastFailure.Store(&e)
		p.log.Error().Str("actor", e.Actor).Str("type", e.Type).Msg("actor failed: " + e.Reason)
		p.Emit(e)
	case in.announceEnd && (s != Running || in.announceStart):
		p.Emit(e)
	default:
		p.observe(e)
	}
	return e
}

// stoppingEvent is the proc's stop as an event: the cause of its actors' ends.
func (p *Proc) stoppingEvent() Event {
	return Event{
		Kind: KindProc, Status: string(Stopping), Mesh: p.id.Mesh.String(),
		Rank: int(p.id.Rank), Gen: int(p.id.Gen), ProcIndex: int(p.id.Index), At: time.Now(),
	}
}

// event describes the actor's new status.
func (in *instance) event(s Status, end ending) Event {
	id := in.proc.id
	e := Event{
		Kind: KindActor, Status: string(s), Mesh: id.Mesh.String(),
		Rank: int(id.Rank), Gen: int(id.Gen), ProcIndex: int(id.Index),
		Actor: in.name, Nth: int(in.predecessors), Type: in.def.name, Reason: end.reason, At: time.Now(),
	}
	if s == Failed {
		e.Endpoint = end.endpoint
		e.Code = end.code
		if end.endpoint != "" {
			e.Reason = end.endpoint + ": " + end.reason
		}
	}
	return e.withCause(end.cause)
}

// ending is the cause of an actor's end.
type ending struct {
	endpoint string // whose handler failed it; "" when none did
	code     Code   // how, when it failed
	reason   string
	cause    *Event
}

// Observe calls f with every event of this proc, on the goroutine of the event. f must not block.
// The returned function ends it.
func (p *Proc) Observe(f func(Event)) (cancel func()) {
	mustHold(f != nil, "Observe", "a function, got nil")
	return p.observers.add(f)
}

func (p *Proc) observe(e Event) {
	for _, f := range p.observers.list() {
		(*f)(e)
	}
}

// DecodeEventFrom reads an event off the bus. One on a subject about something else is an error,
// and one from a sender that cannot know it (ACT-18).
func DecodeEventFrom(space subjects.Space, m bus.Msg) (Event, error) {
	e, err := DecodeEvent(m.Data)
	if err == nil {
		err = e.checkSubject(space, m.Subject)
	}
	return e, err
}

// checkSubject refuses an event about another object than its subject names, or from a sender that
// cannot know it. NATS permissions pin the sender in the subject.
func (e Event) checkSubject(space subjects.Space, subject string) error {
	s, err := space.Parse(subject)
	if err != nil {
		return err
	}
	if e.subject(space, s.Sender) != subject {
		return fmt.Errorf("event: want the subject of %s, got another one", e)
	}
	return e.checkSender(s.Sender)
}

// DecodeEvent decodes an event published by Emit.
func DecodeEvent(data []byte) (Event, error) {
	var e Event
	if len(data) == 0 {
		return e, errors.New("event: empty body")
	}
	if err := wire.JSON.Decode(data, &e); err != nil {
		return Event{}, fmt.Errorf("event: %w", err)
	}
	return e, nil
}
