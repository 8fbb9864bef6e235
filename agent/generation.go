package agent

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
