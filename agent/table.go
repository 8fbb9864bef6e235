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
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Table is the pure state of an agent: resources, status by rank, and waiters. It does not wait,
// send or read a clock. It belongs to the turn of its agent.
type Table struct {
	resources map[string]*resource
	revision  uint64 // changes of what States returns
}

type resource struct {
	specHash      string // hash of the spec (AGT-1)
	mesh          *Mesh
	states        map[int]State
	phases        PhaseCount
	waiters       []*waiter
	expires       time.Time          // zero: never
	leaseTTL      time.Duration      // TTL of its lease
	leaseExtended bool               // extended once by half its TTL
	stopping      bool               // a stop was requested
	claim         Claim              // newest claim (AGT-10)
	principal     subjects.Principal // of the newest claim's sender; invalid: unknown
}

type waiter struct {
	condition WaitRequest
	reply     func(Overlay)
	answered  bool
}

func (w *waiter) answer(o Overlay) {
	if !w.answered {
		w.answered = true
		w.reply(o)
	}
}

// ConflictError reports an ID in use by a different spec.
type ConflictError struct {
	ID string `json:"id"`
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s exists already with another spec: stop it first, or use another name", e.ID)
}

// Detail encodes the error for the wire.
func (e *ConflictError) Detail() (actor.Code, []byte) {
	detail, _ := json.Marshal(e) // one text: cannot fail
	return actor.CodeConflict, detail
}

// FromDetail decodes the result of Detail.
func (e *ConflictError) FromDetail(code actor.Code, detail []byte) bool {
	return code == actor.CodeConflict && json.Unmarshal(detail, e) == nil && e.ID != ""
}

// GenerationError reports that a rank cannot start in the requested generation.
type GenerationError struct {
	ID                 string
	Rank               int
	Requested, Current int
	Status             Status // the rank's status
}

func (e *GenerationError) Error() string {
	if e.Requested <= e.Current {
		return fmt.Sprintf("%s rank %d: generation %d is over: the latest is generation %d", e.ID, e.Rank,
			e.Requested, e.Current)
	}
	return fmt.Sprintf("%s rank %d: cannot start generation %d: generation %d is still %s: stop it first",
		e.ID, e.Rank, e.Requested, e.Current, e.Status.Phase)
}

// Fingerprint returns a hash of a spec (AGT-1), or an error for an incomplete spec.
func Fingerprint(spec any) (string, error) {
	b, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("incomplete spec: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Fingerprint returns a hash of the spec without its owner, who may change. It is fast, because
// procs in one process create many actors at a time.
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

// ResourceSpec describes a resource for Table.Create.
type ResourceSpec struct {
	ID, Hash  string // Hash identifies the spec
	Ranks     []int  // all ranks of the resource at this agent
	OnlyRanks []int  // ranks to create; none = all
	Gen       int    // 0: the first, or the next after a stop
	ExactGen  bool   // Gen 0 means the first generation only
	Mesh      *Mesh
	Claim     Claim              // the owner's claim
	By        subjects.Sender    // of the request; zero: the agent's own process
	Principal subjects.Principal // of the owner, in the record of an earlier agent
	Agent     string             // the agent, for error texts
}

// RankStart is a rank to be started.
type RankStart struct{ Rank, Gen int }

// Create adds a resource, or begins the next generation of ended ranks (AGT-1). It returns
// the ranks to start, without those that exist already. On error nothing changes.
func (t *Table) Create(m ResourceSpec) ([]RankStart, error) {
	only := m.OnlyRanks
	if only == nil {
		only = m.Ranks
	}
	for i, rank := range only {
		if !slices.Contains(m.Ranks, rank) || slices.Contains(only[:i], rank) {
			return nil, fmt.Errorf("%s rank %d: want distinct ranks of this agent: %v", m.ID, rank, m.Ranks)
		}
	}
	r, ok := t.resources[m.ID]
	if ok {
		if err := r.checkClaim(m.Agent, m.ID, m.Claim, m.By); err != nil {
			return nil, err
		}
	}
	if ok && r.specHash != m.Hash && !(r.hasEnded() && (r.stopping || m.Gen > 0)) {
		return nil, &ConflictError{m.ID}
	}
	var starts []RankStart
	for _, rank := range only {
		gen, anew, err := r.nextGeneration(m, rank)
		if err != nil {
			return nil, err
		}
		if anew {
			starts = append(starts, RankStart{rank, gen})
		}
	}
	if !ok {
		r = &resource{states: map[int]State{}}
		t.resources[m.ID] = r
	}
	if len(starts) > 0 {
		t.revision++
		if r.stopping { // former waiters and leases are obsolete
			r.expires = time.Time{}
		}
		if r.specHash != m.Hash {
			r.keepOnly(m.Ranks)
		}
		r.specHash = m.Hash
		if r.mesh == nil || m.Mesh == nil || m.Mesh.Revision >= r.mesh.Revision {
			r.mesh = m.Mesh
		}
		r.stopping = false
	}
	t.recordClaim(r, m.Claim, m.By)
	if m.Principal.IsValid() {
		r.principal = m.Principal
	}
	for _, s := range starts {
		was, had := r.states[s.Rank]
		if had {
			r.phases[was.Status.Phase]--
		}
		r.phases[Initializing]++
		changes := was.Revision + 1
		r.states[s.Rank] = State{
			ID: m.ID, Rank: s.Rank, Gen: s.Gen, Status: Status{Phase: Initializing}, Revision: changes,
		}
	}
	return starts, nil
}

// keepOnly drops the ended ranks of an earlier spec that another one does not have.
func (r *resource) keepOnly(ranks []int) {
	for rank, s := range r.states {
		if !slices.Contains(ranks, rank) {
			r.phases[s.Status.Phase]--
			delete(r.states, rank)
		}
	}
}

// nextGeneration returns the generation in which to start a rank, or no start. The resource may be
// nil.
func (r *resource) nextGeneration(m ResourceSpec, rank int) (gen int, anew bool, err error) {
	if r == nil {
		return m.Gen, true, nil
	}
	s, had := r.states[rank]
	ended := s.Status.Phase.Terminal()
	switch {
	case !had:
		return m.Gen, true, nil
	case m.Gen == 0 && !m.ExactGen && ended && r.stopping:
		return s.Gen + 1, true, nil
	case m.Gen == 0 && !m.ExactGen || m.Gen == s.Gen:
		return 0, false, nil
	case m.Gen < s.Gen || !ended:
		return 0, false, &GenerationError{ID: m.ID, Rank: rank, Requested: m.Gen, Current: s.Gen, Status: s.Status}
	}
	return m.Gen, true, nil
}

// BeginGeneration starts the next generation of a live or failed rank, on restart by its
// supervisor. Waiters see no end. It returns false without a rank of an earlier generation.
func (t *Table) BeginGeneration(id string, rank, gen int, reason string) bool {
	r, ok := t.resources[id]
	if !ok {
		return false
	}
	s, ok := r.states[rank]
	if !ok || gen <= s.Gen || s.Status.Phase == Stopped {
		return false
	}
	r.phases[s.Status.Phase]--
	r.phases[Initializing]++
	t.revision++
	r.states[rank] = State{
		ID: id, Rank: rank, Gen: gen, Status: Status{Phase: Initializing, Reason: reason}, Revision: s.Revision + 1,
	}
	return true
}

// Gen returns the generation of a rank, or 0 for an unknown rank.
func (t *Table) Gen(id string, rank int) int {
	if r, ok := t.resources[id]; ok {
		return r.states[rank].Gen
	}
	return 0
}

// HasSpec reports whether an unstopped resource with this spec exists. Create would at most start
// the next generation of its ranks.
func (t *Table) HasSpec(id, hash string) bool {
	r, ok := t.resources[id]
	return ok && r.specHash == hash && !r.stopping
}

// MarkStopping records a stop request. Once the ranks have ended, the ID may be created again
// (AGT-1).
func (t *Table) MarkStopping(id string) {
	if r, ok := t.resources[id]; ok {
		r.stopping = true
	}
}

// Describe records a later revision of a mesh with the same share at this agent.
func (t *Table) Describe(id, hash string, m *Mesh) {
	if r, ok := t.resources[id]; ok && r.specHash == hash && r.mesh.Revision < m.Revision {
		r.mesh = m
		t.revision++
	}
}

// Truncate removes the ranks of a resource from a rank on.
func (t *Table) Truncate(id string, first int) {
	r, ok := t.resources[id]
	if !ok {
		return
	}
	for rank, s := range r.states {
		if rank >= first {
			r.phases[s.Status.Phase]--
			delete(r.states, rank)
		}
	}
	t.revision++
	r.answerSatisfied()
}

// Remove deletes a resource and answers its waiters.
func (t *Table) Remove(id string) {
	t.AnswerWaiters(id)
	delete(t.resources, id)
	t.revision++
}

// AnswerWaiters answers all waiters of a resource with its present state.
func (t *Table) AnswerWaiters(id string) {
	if r, ok := t.resources[id]; ok {
		for _, w := range r.waiters {
			w.answer(r.overlay())
		}
		r.waiters = nil
	}
}

// Advance moves the status of a rank forward, answers satisfied waiters, and reports a change
// (AGT-3).
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
	s.Status, s.Revision = to, s.Revision+1
	t.revision++
	r.states[rank] = s
	r.answerSatisfied()
	return true
}

// UpdateState changes the record of a rank other than its status.
func (t *Table) UpdateState(id string, rank int, change func(*State)) {
	if r, ok := t.resources[id]; ok {
		if s, ok := r.states[rank]; ok {
			change(&s)
			t.revision++
			r.states[rank] = s
		}
	}
}

// Status returns the status of a rank, or NotExist.
func (t *Table) Status(id string, rank int) Status {
	if r, ok := t.resources[id]; ok {
		return r.states[rank].Status
	}
	return Status{}
}

// State returns the record of a rank, without the mesh, or false.
func (t *Table) State(id string, rank int) (s State, ok bool) {
	if r := t.resources[id]; r != nil {
		s, ok = r.states[rank]
	}
	return s, ok
}

// Phases counts the ranks of a resource by phase.
func (t *Table) Phases(id string) PhaseCount {
	if r, ok := t.resources[id]; ok {
		return r.phases
	}
	return PhaseCount{}
}

// Overlay returns the statuses of all ranks of a resource, empty for an unknown one (AGT-3).
func (t *Table) Overlay(id string) Overlay {
	if r, ok := t.resources[id]; ok {
		return r.overlay()
	}
	return nil
}

// States lists the records of a resource, or of all with an empty id, ordered by ID and rank.
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
				s.Mesh = r.mesh // once per resource
				s.Principal = r.principal
				if claim := r.claim; claim != (Claim{}) {
					s.Claim = &claim
				}
			}
			out = append(out, s)
		}
	}
	return out
}

// SummarizeStop summarizes ranks by their present records.
func (t *Table) SummarizeStop(asked []State) StopSummary {
	for i, s := range asked {
		if now, ok := t.State(s.ID, s.Rank); ok {
			asked[i] = now
		}
	}
	return SummarizeStop(asked)
}

// Wait calls reply once a condition on a resource holds, at once if it holds now or the resource is
// unknown. The returned function ends the wait with the present statuses. It may be called at any
// time.
func (t *Table) Wait(until WaitRequest, reply func(Overlay)) (giveUp func()) {
	r, ok := t.resources[until.ID]
	if !ok {
		reply(nil)
		return func() {}
	}
	w := &waiter{condition: until, reply: reply}
	r.waiters = append(r.waiters, w)
	r.answerSatisfied()
	return func() {
		w.answer(r.overlay())
		r.answerSatisfied()
	}
}

// Revision grows with every change of what States returns. An equal Revision means equal States.
func (t *Table) Revision() uint64 { return t.revision }

// CountAlive counts the non-terminal ranks.
func (t *Table) CountAlive() (n int) {
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

// hasEnded reports whether every rank has ended.
func (r *resource) hasEnded() bool { return r.phases.Alive() == 0 }

// countPhases counts the ranks of a region by phase; nil: all ranks.
func (r *resource) countPhases(of *shape.Region) PhaseCount {
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

// answerSatisfied answers and removes the satisfied waiters.
func (r *resource) answerSatisfied() {
	r.waiters = slices.DeleteFunc(r.waiters, func(w *waiter) bool {
		n := r.countPhases(w.condition.Region)
		failed := w.condition.OrFailed && n[Failed] > 0
		if !w.answered && (failed || n.LeastAdvanced() >= min(w.condition.Until, Stopped)) {
			w.answer(r.overlay())
		}
		return w.answered
	})
}
