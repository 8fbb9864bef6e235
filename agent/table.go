package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Table is the state of an agent: its resources, the status of each rank, and who waits for what.
// It is pure: nothing in it waits, sends or reads a clock. It belongs to its agent's turn.
type Table struct{ resources map[string]*resource }

type resource struct {
	hash    string // of the spec: AGT-1
	mesh    *Mesh
	states  map[int]State
	waiters []*waiter
	expires time.Time // zero: never
}

type waiter struct {
	until Phase
	reply func(Overlay)
	done  bool
}

func (w *waiter) answer(o Overlay) {
	if !w.done {
		w.done = true
		w.reply(o)
	}
}

// ConflictError says that an ID is taken by another spec.
type ConflictError struct{ ID string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s exists already with another spec: stop it first, or use another name", e.ID)
}

// Fingerprint identifies a spec (AGT-1). A spec that lacks what it must have cannot be sent on,
// either: that is the error.
func Fingerprint(spec any) (string, error) {
	b, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("incomplete spec: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{resources: map[string]*resource{}} }

// Create adds a resource whose ranks start as Initializing, and reports whether it is new. hash
// identifies the spec.
func (t *Table) Create(id, hash string, ranks []int, mesh *Mesh) (bool, error) {
	if r, ok := t.resources[id]; ok {
		if r.hash != hash {
			return false, &ConflictError{id}
		}
		return false, nil
	}
	r := &resource{hash: hash, mesh: mesh, states: map[int]State{}}
	for _, rank := range ranks {
		r.states[rank] = State{ID: id, Rank: rank, Status: Status{Phase: Initializing}, Generation: 1}
	}
	t.resources[id] = r
	return true, nil
}

// Remove forgets a resource; who still waits for it is answered.
func (t *Table) Remove(id string) {
	r, ok := t.resources[id]
	if !ok {
		return
	}
	delete(t.resources, id)
	for _, w := range r.waiters {
		w.answer(r.overlay())
	}
}

// Advance moves a rank's status forward and reports whether it did (AGT-3). A waiter that this
// satisfies is answered.
func (t *Table) Advance(id string, rank int, to Status) bool {
	r, ok := t.resources[id]
	if !ok {
		return false
	}
	s, ok := r.states[rank]
	if !ok || s.Status.Phase.Terminal() || to.Phase <= s.Status.Phase || to.Phase > Failed {
		return false
	}
	s.Status, s.Generation = to, s.Generation+1
	r.states[rank] = s
	r.settle()
	return true
}

// Describe changes what is said about a rank besides its status.
func (t *Table) Describe(id string, rank int, change func(*State)) {
	if r, ok := t.resources[id]; ok {
		if s, ok := r.states[rank]; ok {
			change(&s)
			r.states[rank] = s
		}
	}
}

// Status is a rank's status; NotExist when there is no such rank.
func (t *Table) Status(id string, rank int) Status {
	if r, ok := t.resources[id]; ok {
		return r.states[rank].Status
	}
	return Status{}
}

// Overlay is the status of every rank of a resource; empty when there is none (AGT-4).
func (t *Table) Overlay(id string) Overlay {
	if r, ok := t.resources[id]; ok {
		return r.overlay()
	}
	return nil
}

// States lists the states of a resource, or of all of them when id is empty, ordered by ID and rank.
func (t *Table) States(id string) []State {
	ids := slices.Sorted(maps.Keys(t.resources))
	if id != "" {
		ids = []string{id}
	}
	var out []State
	for _, id := range ids {
		r, ok := t.resources[id]
		if !ok {
			continue
		}
		for i, rank := range slices.Sorted(maps.Keys(r.states)) {
			s := r.states[rank]
			if i == 0 {
				s.Mesh = r.mesh // once is enough
			}
			out = append(out, s)
		}
	}
	return out
}

// Wait calls reply once every rank of a resource has reached a phase or is terminal: now, when
// that is so already or there is no such resource. The returned function answers with what there
// is and gives up the wait; it may be called at any time.
func (t *Table) Wait(id string, until Phase, reply func(Overlay)) (giveUp func()) {
	r, ok := t.resources[id]
	if !ok {
		reply(nil)
		return func() {}
	}
	w := &waiter{until: until, reply: reply}
	r.waiters = append(r.waiters, w)
	r.settle()
	return func() {
		w.answer(r.overlay())
		r.settle()
	}
}

// Keep sets when a resource expires; the zero time means never.
func (t *Table) Keep(id string, until time.Time) {
	if r, ok := t.resources[id]; ok {
		r.expires = until
	}
}

// Expired lists the resources whose time has passed and that still have a rank alive.
func (t *Table) Expired(now time.Time) []string {
	var ids []string
	for id, r := range t.resources {
		if !r.expires.IsZero() && now.After(r.expires) && !r.reached(Stopped) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Alive counts the ranks that are not terminal.
func (t *Table) Alive() (n int) {
	for _, r := range t.resources {
		for _, s := range r.states {
			if !s.Status.Phase.Terminal() {
				n++
			}
		}
	}
	return n
}

func (r *resource) overlay() Overlay {
	by := make(map[int]Status, len(r.states))
	for rank, s := range r.states {
		by[rank] = s.Status
	}
	return OverlayOf(by)
}

// reached reports whether every rank is at least there. A terminal rank is past everything.
func (r *resource) reached(p Phase) bool {
	for _, s := range r.states {
		if s.Status.Phase < p && !s.Status.Phase.Terminal() {
			return false
		}
	}
	return true
}

// settle answers the waiters that are satisfied, and forgets them.
func (r *resource) settle() {
	r.waiters = slices.DeleteFunc(r.waiters, func(w *waiter) bool {
		if !w.done && r.reached(w.until) {
			w.answer(r.overlay())
		}
		return w.done
	})
}
