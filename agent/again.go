package agent

// Again begins the next generation of a rank that lives or has failed, as one whose supervisor starts it
// anew: nobody who waits for an end sees one. It reports whether there is such a rank, of an earlier
// generation.
func (t *Table) Again(id string, rank, gen int, reason string) bool {
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
	t.changes++
	r.states[rank] = State{
		ID: id, Rank: rank, Gen: gen, Status: Status{Phase: Initializing, Reason: reason}, Generation: s.Generation + 1,
	}
	return true
}

// Gen is the generation of a rank; 0 when there is none.
func (t *Table) Gen(id string, rank int) int {
	if r, ok := t.resources[id]; ok {
		return r.states[rank].Gen
	}
	return 0
}
