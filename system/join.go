package system

import (
	"fmt"
	"maps"

	"github.com/castnet-io/castnet/subjects"
)

// maxHostRank bounds the rank of a host by the number of procs of a world.
const maxHostRank = MaxProcs

// checkAccepting returns an error if a world accepts no members.
func (st *state) checkAccepting(name string) error {
	if st.shutdownReason != "" {
		return fmt.Errorf("the system is being stopped: %s", st.shutdownReason)
	}
	if w := st.worlds[name]; w != nil && w.stopping != nil {
		return fmt.Errorf("world %s is being stopped: %s", name, w.stopping.why)
	}
	if d := st.detached.byName[name]; d != nil {
		return &NameTakenError{name, kindMesh, d.Mesh.String()}
	}
	if r := st.reserved.byName[name]; r != nil {
		return &NameTakenError{name, kindProgram, r.By.String()}
	}
	return nil
}

// join admits a host or a proc, or refuses it with the reason. The reply precedes any other message
// to it (WORLD-3).
func (st *state) join(e join) {
	err := checkLabels(e.Labels)
	if err == nil && (e.Host == nil) == (e.Proc == nil) {
		err = fmt.Errorf("join %s: want a host or a proc", e.World)
	}
	if err == nil {
		err = st.checkAccepting(e.World)
	}
	if err == nil && (e.Host != nil || e.Proc.Mode == ModeManaged) {
		err = subjects.CheckLabel("world name", e.World)
	}
	if err == nil && e.Host != nil {
		var waits bool
		waits, err = st.checkName(e.World, e)
		if waits {
			return
		}
	}
	switch {
	case err != nil:
	case e.Host != nil:
		err = st.joinHost(e)
	default:
		err = st.joinProc(e)
	}
	if err != nil {
		st.rejectJoin(e, err)
	}
}

// rejectJoin replies to a join with an error. It still asks the host for its inventory: the host
// may run a share of an ended world, which must be stopped (WORLD-2).
func (st *state) rejectJoin(e join, why error) {
	st.answer(e.from, nil, why)
	if e.Host != nil && e.Host.ID.IsValid() {
		st.emit(fetchInventory{e.Host.ID})
	}
}

func (st *state) joinHost(e join) error {
	j := *e.Host
	if !j.ID.IsValid() || j.Rank < 0 || j.Rank > maxHostRank {
		return fmt.Errorf("host %q of rank %d: want an ID, and a rank of 0 to %d", j.ID, j.Rank, maxHostRank)
	}
	w := st.worlds[e.World]
	h := st.hosts[j.ID]
	var mine, other *assignment
	if w != nil {
		other = w.assignments[j.Rank]
	}
	if w != nil && h != nil {
		mine = h.assignments[w.name]
	}
	switch {
	case mine != nil && mine.rank != j.Rank:
		return fmt.Errorf("host %s already has rank %d in world %s", j.ID, mine.rank, w.name)
	case mine == nil && other != nil && other.host.lost == "":
		return fmt.Errorf("host rank %d of world %s is taken by %s: want another rank",
			j.Rank, w.name, other.host.id)
	case mine == nil:
		st.replaceAssignment(e, other)
		return nil
	}
	return st.rejoin(e, mine)
}

// replaceAssignment gives a host an assignment that is free or whose host is lost. Its procs begin
// another generation.
func (st *state) replaceAssignment(e join, other *assignment) {
	w := st.worldNamed(e.World)
	if other != nil {
		st.removeHost(other)
	}
	s := &assignment{world: w, rank: e.Host.Rank, incarnation: e.Host.Incarnation, labels: maps.Clone(e.Labels)}
	st.assignHost(s, e.Host.ID)
	st.beginGeneration(s)
	st.emit(saveRecord{w.record()})
	st.answer(e.from, st.joinResponse(s.world.name, s), nil)
	if !st.mayAdopt(w.name) { // else the inventory shows the generation on the host
		st.orderShare(s)
	}
	st.emit(fetchInventory{s.host.id})
	st.updateStatus(w)
}

// rejoin records a sign of life of a host. Procs of its earlier incarnation are gone. If the world
// keeps procs, the host's inventory decides.
func (st *state) rejoin(e join, s *assignment) error {
	lost := s.host.lost != ""
	restarted := s.incarnation != e.Host.Incarnation
	has := s.labels
	if restarted {
		has = nil // the labels belong to the former incarnation
	}
	labels, err := mergeLabels("host "+e.Host.ID.String(), has, e.Labels)
	if err != nil {
		return err
	}
	st.assignHost(s, e.Host.ID)
	if !lost && !restarted && maps.Equal(labels, s.labels) {
		st.answer(e.from, st.joinResponse(s.world.name, s), nil)
		return nil
	}
	s.incarnation = e.Host.Incarnation
	s.labels = labels
	again := restarted && s.count > 0 && !s.world.spec.Keep
	if again {
		st.renewGeneration(s)
	}
	st.emit(saveRecord{s.world.record()})
	st.answer(e.from, st.joinResponse(s.world.name, s), nil)
	if again {
		st.orderShare(s)
	}
	st.emit(fetchInventory{s.host.id})
	st.updateStatus(s.world)
	return nil
}

// joinResponse is the reply to a member of a world, with the share of a host.
func (st *state) joinResponse(world string, s *assignment) JoinResponse {
	r := JoinResponse{World: world, Execution: st.execution()}
	if s != nil {
		r.First = s.first
		r.Count = s.count
	}
	return r
}

// assignHost gives a host its assignment, and records a sign of life.
func (st *state) assignHost(s *assignment, id subjects.HostID) {
	h := st.hosts[id]
	if h == nil {
		h = &host{id: id, assignments: map[string]*assignment{}}
		st.hosts[id] = h
	}
	s.host = h
	h.assignments[s.world.name] = s
	s.world.assignments[s.rank] = s
	delete(s.world.left, s.rank)
	h.lost = ""
}

// beginGeneration computes a host's share and the generation of its procs. The ranks never had that
// generation before, so that no address is used twice (WORLD-2).
func (st *state) beginGeneration(s *assignment) {
	w := s.world
	s.computeShare()
	if s.count == 0 {
		return
	}
	s.gen = w.gens[s.rank]
	s.orderedIn = s.incarnation
	s.unconfirmed = false
	for rank := s.first; rank < s.first+s.count; rank++ {
		if m := w.procs[uint32(rank)]; m != nil {
			s.gen = max(s.gen, int(m.id.Gen)+1)
		}
	}
	w.gens[s.rank] = s.gen + 1
}

// computeShare computes the share of an assignment, once the world is declared.
func (s *assignment) computeShare() {
	if w := s.world; w.spec != nil {
		s.first, s.count = share(w.spec.Shape.NumRanks(), w.spec.PerHost, s.rank)
	}
}

// renewGeneration begins the next generation of an assignment: its procs are gone.
func (st *state) renewGeneration(s *assignment) {
	st.clearProcs(s)
	st.beginGeneration(s)
}

// orderShare orders a host to create its share, unless that is empty (WORLD-1).
func (st *state) orderShare(s *assignment) {
	if w := s.world; s.count > 0 && w.stopping == nil {
		st.emit(create{
			world: w.name, host: s.host.id, incarnation: s.incarnation, rank: s.rank, mesh: w.mesh,
			spec: w.spec, first: s.first, count: s.count, gen: s.gen,
		})
	}
}

// clearProcs removes the procs of an assignment from its world, without a failure.
func (st *state) clearProcs(s *assignment) {
	for rank := s.first; rank < s.first+s.count; rank++ {
		if m := s.world.procs[uint32(rank)]; m != nil && m.assignment == s {
			st.removeMember(m)
		}
	}
}

// removeHost removes a host and its procs from a world.
func (st *state) removeHost(s *assignment) {
	st.clearProcs(s)
	st.unassignHost(s)
}

func (st *state) joinProc(e join) error {
	j := *e.Proc
	switch {
	case !j.ID.IsValid():
		return fmt.Errorf("join %s: want the ID of a proc", e.World)
	case j.Mode == ModeDetached:
		st.answer(e.from, st.joinResponse(e.World, nil), nil)
		return nil
	case j.Mode == ModeManager:
		m := st.procs[j.ID]
		if m != nil && m.world != nil {
			return fmt.Errorf("proc %s is already a member of world %s", j.ID, m.world.name)
		}
		if m == nil {
			m = &member{id: j.ID, mode: j.Mode, health: HealthAlive, labels: e.Labels}
			st.procs[j.ID] = m
		}
		st.resetTimer(m)
		st.answer(e.from, st.joinResponse(e.World, nil), nil)
		return nil
	case j.Mode != ModeManaged:
		return fmt.Errorf("proc %s: %s: want one of %v", j.ID, j.Mode, modeNames)
	}
	w := st.worlds[e.World]
	if j.ID.Mesh.Label() != e.World || w != nil && w.mesh.IsValid() && w.mesh != j.ID.Mesh {
		return fmt.Errorf("proc %s is not of this world: want a proc of mesh %s", j.ID, w.meshText(e.World))
	}
	return st.joinMember(e, j)
}

// meshText returns the mesh ID of a world as text. The world may be nil.
func (w *world) meshText(name string) string {
	if w == nil || !w.mesh.IsValid() {
		return name + "-…"
	}
	return w.mesh.String()
}

// joinMember admits a proc of the world's mesh.
func (st *state) joinMember(e join, j ProcJoin) error {
	if m := st.procs[j.ID]; m != nil && m.world == nil {
		return fmt.Errorf("proc %s has joined as a system manager", j.ID)
	}
	var old *member
	if w := st.worlds[e.World]; w != nil {
		old = w.procs[j.ID.Rank]
	}
	var has map[string]string
	switch {
	case old == nil || old.id.Gen < j.ID.Gen:
	case old.id != j.ID:
		return fmt.Errorf("proc %s: its rank belongs to %s", j.ID, old.id)
	default:
		has = old.labels
	}
	labels, err := mergeLabels("proc "+j.ID.String(), has, e.Labels)
	if err != nil {
		return err
	}
	w := st.worldNamed(e.World)
	w.mesh = j.ID.Mesh
	m := st.addProc(w, j.ID, w.assignmentOf(j.ID))
	m.labels = labels
	m.mode = j.Mode
	if m.assignment == nil {
		st.resetTimer(m)
		st.emit(saveRecord{w.record()})
	}
	st.answer(e.from, st.joinResponse(w.name, nil), nil)
	st.updateStatus(w)
	return nil
}

// assignmentOf returns the assignment of the host that launched a proc; nil: none.
func (w *world) assignmentOf(p subjects.ProcID) *assignment {
	if w.spec == nil {
		return nil
	}
	s := w.assignments[int(p.Rank)/w.spec.PerHost]
	if s == nil || s.gen != int(p.Gen) || int(p.Rank) < s.first || int(p.Rank) >= s.first+s.count {
		return nil
	}
	return s
}

// addProc makes a proc the newest of its rank. A new proc is alive and has no failed actors. For a
// known proc the call is a sign of life.
func (st *state) addProc(w *world, id subjects.ProcID, s *assignment) *member {
	m := w.procs[id.Rank]
	if m != nil && m.id != id {
		st.removeMember(m)
		m = nil
	}
	if m == nil {
		m = &member{id: id, world: w, health: HealthAlive}
		w.procs[id.Rank] = m
		st.procs[id] = m
	} else if m.health == HealthExpired {
		m.health = HealthAlive
		m.healthReason = ""
	}
	m.assignment = s
	st.assess(m)
	return m
}

// leave removes a host or a proc from its worlds.
func (st *state) leave(e leave) {
	if e.Host != nil && st.hosts[*e.Host] != nil {
		h := st.hosts[*e.Host]
		for _, s := range h.sortedAssignments() {
			st.removeHost(s)
			st.afterLeave(s.world, memberRef{host: h.id})
		}
	}
	if e.Proc != nil && st.procs[*e.Proc] != nil {
		m := st.procs[*e.Proc]
		st.removeMember(m)
		if m.world != nil {
			st.afterLeave(m.world, memberRef{proc: m.id})
		}
	}
	st.answer(e.from, nil, nil)
}

// afterLeave updates a world after a member left.
func (st *state) afterLeave(w *world, who memberRef) {
	switch {
	case w.stopping != nil:
		st.handleStopped(memberStopped{world: w.name, who: who})
	case w.spec == nil && len(w.assignments) == 0 && len(w.procs) == 0:
		st.removeWorld(w)
	default:
		st.emit(saveRecord{w.record()})
		st.updateStatus(w)
	}
}
