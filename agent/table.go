package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh/shape"
)

// Table is the state of an agent: its resources, the status of each rank, and who waits for what.
// It is pure: nothing in it waits, sends or reads a clock. It belongs to its agent's turn.
type Table struct {
	resources map[string]*resource
	changes   uint64 // of what States tells
}

type resource struct {
	hash     string // of the spec: AGT-1
	mesh     *Mesh
	states   map[int]State
	phases   PhaseCount
	waiters  []*waiter
	expires  time.Time     // zero: never
	term     time.Duration // of its lease
	putOff   bool          // the lease goes on for half its term more
	released bool          // it was asked to stop
	claim    Claim         // the newest one (AGT-10)
}

type waiter struct {
	until Waiting
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
type ConflictError struct {
	ID string `json:"id"`
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s exists already with another spec: stop it first, or use another name", e.ID)
}

// Detail is how the error travels.
func (e *ConflictError) Detail() (actor.Code, []byte) {
	detail, _ := json.Marshal(e) // of a text: it cannot fail
	return actor.CodeConflict, detail
}

// FromDetail reads what Detail has made.
func (e *ConflictError) FromDetail(code actor.Code, detail []byte) bool {
	return code == actor.CodeConflict && json.Unmarshal(detail, e) == nil && e.ID != ""
}

// GenerationError says that a rank cannot be made in the generation that was asked for.
type GenerationError struct {
	ID         string
	Rank       int
	Asked, Has int
	Status     Status // of the rank
}

func (e *GenerationError) Error() string {
	if e.Asked <= e.Has {
		return fmt.Sprintf("%s rank %d: generation %d was asked for, which is over: it has had generation %d", e.ID, e.Rank, e.Asked, e.Has)
	}
	return fmt.Sprintf("%s rank %d: generation %d was asked for, but generation %d is still %s: stop it first", e.ID, e.Rank, e.Asked, e.Has, e.Status.Phase)
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

// Fingerprint identifies the spec as Fingerprint does any, but for its owner, which another may follow: procs that
// share a process make many at a time.
func (s ActorSpec) Fingerprint() (string, error) {
	if !s.Owner.IsValid() {
		return "", fmt.Errorf("incomplete spec: the actors have no owner")
	}
	b := make([]byte, 0, 2*sha256.BlockSize+len(s.Name)+len(s.Type)+len(s.Params))
	for _, part := range []string{s.Name, s.Type} {
		b = append(append(strconv.AppendInt(b, int64(len(part)), 10), ' '), part...)
	}
	sum := sha256.Sum256(append(b, s.Params...))
	return string(sum[:]), nil
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{resources: map[string]*resource{}} }

// Making says what a Create makes.
type Making struct {
	ID, Hash string // Hash identifies the spec
	Ranks    []int  // all ranks of the resource here
	Only     []int  // those to be made; none = all
	Gen      int    // 0: the first, or whichever follows a stop
	Exact    bool   // 0 is the first and nothing else
	Mesh     *Mesh
	Claim    Claim  // in whose name
	At       string // the agent, for who is refused
}

// Start is a rank to be started.
type Start struct{ Rank, Gen int }

// Create adds a resource, or begins the next generation of ranks that have ended (AGT-1, AGT-6), and
// says what is to be started; what exists already is not. On an error nothing has changed.
func (t *Table) Create(m Making) ([]Start, error) {
	only := m.Only
	if only == nil {
		only = m.Ranks
	}
	for i, rank := range only {
		if !slices.Contains(m.Ranks, rank) || slices.Contains(only[:i], rank) {
			return nil, fmt.Errorf("%s rank %d: want ranks that are here, each once: %v", m.ID, rank, m.Ranks)
		}
	}
	r, ok := t.resources[m.ID]
	if ok {
		if err := r.refuse(m.At, m.ID, m.Claim); err != nil {
			return nil, err
		}
	}
	if ok && r.hash != m.Hash {
		if !r.released || !r.over() {
			return nil, &ConflictError{m.ID}
		}
	}
	var starts []Start
	for _, rank := range only {
		gen, anew, err := r.next(m, rank)
		if err != nil {
			return nil, err
		}
		if anew {
			starts = append(starts, Start{rank, gen})
		}
	}
	if !ok {
		r = &resource{states: map[int]State{}}
		t.resources[m.ID] = r
	}
	if len(starts) > 0 {
		t.changes++
		if r.released { // what was kept alive is over
			r.expires = time.Time{}
		}
		r.hash, r.mesh, r.released = m.Hash, m.Mesh, false
	}
	t.note(r, m.Claim)
	for _, s := range starts {
		was, had := r.states[s.Rank]
		if had {
			r.phases[was.Status.Phase]--
		}
		r.phases[Initializing]++
		changes := was.Generation + 1
		r.states[s.Rank] = State{ID: m.ID, Rank: s.Rank, Gen: s.Gen, Status: Status{Phase: Initializing}, Generation: changes}
	}
	return starts, nil
}

// next is the generation in which a rank is to be started, if it is. The resource may be nil.
func (r *resource) next(m Making, rank int) (gen int, anew bool, err error) {
	if r == nil {
		return m.Gen, true, nil
	}
	s, had := r.states[rank]
	ended := s.Status.Phase.Terminal()
	switch {
	case !had:
		return m.Gen, true, nil
	case m.Gen == 0 && !m.Exact && ended && r.released:
		return s.Gen + 1, true, nil
	case m.Gen == 0 && !m.Exact || m.Gen == s.Gen:
		return 0, false, nil
	case m.Gen < s.Gen || !ended:
		return 0, false, &GenerationError{ID: m.ID, Rank: rank, Asked: m.Gen, Has: s.Gen, Status: s.Status}
	}
	return m.Gen, true, nil
}

// Same reports whether a resource exists with this spec, and has not been stopped: Create would change
// nothing.
func (t *Table) Same(id, hash string) bool {
	r, ok := t.resources[id]
	return ok && r.hash == hash && !r.released
}

// Release notes that a resource was asked to stop: once its ranks have ended, the same ID may be made
// anew (AGT-6).
func (t *Table) Release(id string) {
	if r, ok := t.resources[id]; ok {
		r.released = true
	}
}

// Remove forgets a resource; who still waits for it is answered.
func (t *Table) Remove(id string) {
	t.GiveUp(id)
	delete(t.resources, id)
	t.changes++
}

// GiveUp answers all who wait for a resource with what there is.
func (t *Table) GiveUp(id string) {
	if r, ok := t.resources[id]; ok {
		for _, w := range r.waiters {
			w.answer(r.overlay())
		}
		r.waiters = nil
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
	r.phases[s.Status.Phase]--
	r.phases[to.Phase]++
	s.Status, s.Generation = to, s.Generation+1
	t.changes++
	r.states[rank] = s
	r.settle()
	return true
}

// Describe changes what is said about a rank besides its status.
func (t *Table) Describe(id string, rank int, change func(*State)) {
	if r, ok := t.resources[id]; ok {
		if s, ok := r.states[rank]; ok {
			change(&s)
			t.changes++
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

// State is what is known of a rank, if there is such a one; without the mesh, which States has.
func (t *Table) State(id string, rank int) (s State, ok bool) {
	if r := t.resources[id]; r != nil {
		s, ok = r.states[rank]
	}
	return s, ok
}

// Phases is how many ranks of a resource are in which phase.
func (t *Table) Phases(id string) PhaseCount {
	if r, ok := t.resources[id]; ok {
		return r.phases
	}
	return PhaseCount{}
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
				if claim := r.claim; claim != (Claim{}) {
					s.Claim = &claim
				}
			}
			out = append(out, s)
		}
	}
	return out
}

// Wait calls reply once a condition on the ranks of a resource holds: now, when that is so already or
// there is no such resource. The returned function answers with what there is and gives up the wait; it
// may be called at any time.
func (t *Table) Wait(until Waiting, reply func(Overlay)) (giveUp func()) {
	r, ok := t.resources[until.ID]
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

// Changes grows whenever something changes that States tells: who finds it as it was needs not ask again.
func (t *Table) Changes() uint64 { return t.changes }

// Alive counts the ranks that are not terminal.
func (t *Table) Alive() (n int) {
	for _, r := range t.resources {
		n += r.phases.Alive()
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

// over reports whether every rank has ended.
func (r *resource) over() bool { return r.phases.Alive() == 0 }

// count is how many ranks of a region are in which phase; nil: of all.
func (r *resource) count(of *shape.Region) PhaseCount {
	if of == nil {
		return r.phases
	}
	var n PhaseCount
	for rank, s := range r.states {
		if of.Contains(rank) {
			n[s.Status.Phase]++
		}
	}
	return n
}

// settle answers the waiters that are satisfied, and forgets them.
func (r *resource) settle() {
	r.waiters = slices.DeleteFunc(r.waiters, func(w *waiter) bool {
		if !w.done && w.until.holds(r.count(w.until.Region)) {
			w.answer(r.overlay())
		}
		return w.done
	})
}
