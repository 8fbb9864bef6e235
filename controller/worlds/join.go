package worlds

import (
	"fmt"
	"maps"

	"github.com/castnet-io/castnet/subjects"
)

// maxHostRank bounds the rank of a host: a world has no more procs.
const maxHostRank = MaxProcs

// admits says why a world takes nothing more; nil: it does.
func (st *state) admits(name string) error {
	if st.going != "" {
		return fmt.Errorf("the system is being stopped: %s", st.going)
	}
	if w := st.worlds[name]; w != nil && w.ending != nil {
		return fmt.Errorf("world %s is being stopped: %s", name, w.ending.why)
	}
	if d := st.detached[name]; d != nil {
		return &NameTakenError{name, kindMesh, d.Mesh.String()}
	}
	if r := st.reserved[name]; r != nil {
		return &NameTakenError{name, kindProgram, r.By.String()}
	}
	return nil
}

// join takes a host or a proc in, or says why not. The answer comes before any other message to it (WORLD-3).
func (st *state) join(e join) {
	err := checkLabels(e.Labels)
	if err == nil && (e.Host == nil) == (e.Proc == nil) {
		err = fmt.Errorf("join %s: want a host or a proc", e.World)
	}
	if err == nil {
		err = st.admits(e.World)
	}
	if err == nil && (e.Host != nil || e.Proc.Mode == ManagedBySystem) {
		err = subjects.CheckLabel("world name", e.World)
	}
	switch {
	case err != nil:
	case e.Host != nil && st.parks(e.World, e.from, e):
	case e.Host != nil:
		err = st.joinHost(e)
	default:
		err = st.joinProc(e)
	}
	if err != nil {
		st.refuse(e, err)
	}
}

// refuse answers a join with an error. A host is looked at even so: it may run a share of a world that has ended, which
// nobody else would stop (WORLD-10).
func (st *state) refuse(e join, why error) {
	st.answer(e.from, nil, why)
	if e.Host != nil && e.Host.ID.IsValid() {
		st.do(look{e.Host.ID})
	}
}

func (st *state) joinHost(e join) error {
	j := *e.Host
	if !j.ID.IsValid() || j.Rank < 0 || j.Rank > maxHostRank {
		return fmt.Errorf("host %q of rank %d: want an ID, and a rank of 0 to %d", j.ID, j.Rank, maxHostRank)
	}
	w, h := st.worlds[e.World], st.hosts[j.ID]
	var mine, other *seat
	if w != nil {
		other = w.seats[j.Rank]
	}
	if w != nil && h != nil {
		mine = h.seats[w.name]
	}
	switch {
	case mine != nil && mine.rank != j.Rank:
		return fmt.Errorf("host %s has rank %d in world %s already", j.ID, mine.rank, w.name)
	case mine == nil && other != nil && other.host.lost == "":
		return fmt.Errorf("host rank %d of world %s is %s: want another rank, or that it leaves first", j.Rank, w.name, other.host.id)
	case mine == nil:
		st.takeSeat(e, other)
		return nil
	}
	return st.rejoin(e, mine)
}

// takeSeat gives a host a seat that nobody has, or whose host is lost. Procs there are always of another generation.
func (st *state) takeSeat(e join, other *seat) {
	w := st.open(e.World)
	if other != nil {
		st.vacate(other)
	}
	s := &seat{world: w, rank: e.Host.Rank, life: e.Host.Life, labels: maps.Clone(e.Labels)}
	st.sit(s, e.Host.ID)
	st.place(s)
	st.do(save{w.record()})
	st.answer(e.from, s.joined(), nil)
	if !st.adopts(w.name) { // else the look tells which generation the host has
		st.order(s)
	}
	st.do(look{s.host.id})
	st.settle(w)
}

// rejoin counts a host as heard. What it ran in another life is gone; when it was to outlive that, the host is
// asked first.
func (st *state) rejoin(e join, s *seat) error {
	lost, anew := s.host.lost != "", s.life != e.Host.Life
	has := s.labels
	if anew {
		has = nil // those of another life
	}
	labels, err := merged("host "+e.Host.ID.String(), has, e.Labels)
	if err != nil {
		return err
	}
	st.sit(s, e.Host.ID)
	if !lost && !anew && maps.Equal(labels, s.labels) {
		st.answer(e.from, s.joined(), nil)
		return nil
	}
	s.life, s.labels = e.Host.Life, labels
	again := anew && s.count > 0 && !s.world.spec.Keep
	if again {
		st.renew(s)
	}
	st.do(save{s.world.record()})
	st.answer(e.from, s.joined(), nil)
	if again {
		st.order(s)
	}
	st.do(look{s.host.id})
	st.settle(s.world)
	return nil
}

func (s *seat) joined() Joined { return Joined{World: s.world.name, First: s.first, Count: s.count} }

// sit gives a host its seat, and counts it as heard.
func (st *state) sit(s *seat, id subjects.HostID) {
	h := st.hosts[id]
	if h == nil {
		h = &host{id: id, seats: map[string]*seat{}}
		st.hosts[id] = h
	}
	s.host, h.seats[s.world.name], s.world.seats[s.rank] = h, s, s
	h.lost = ""
	st.hearHost(h)
}

// place works out a host's share, and which generation its procs are: one that the ranks never had, so that
// no address has two lives (WORLD-10).
func (st *state) place(s *seat) {
	w := s.world
	s.assign()
	if s.count == 0 {
		return
	}
	s.gen, s.born, s.unseen = w.gens[s.rank], s.life, false
	for rank := s.first; rank < s.first+s.count; rank++ {
		if m := w.procs[uint32(rank)]; m != nil {
			s.gen = max(s.gen, int(m.id.Gen)+1)
		}
	}
	w.gens[s.rank] = s.gen + 1
}

// assign works out the share of a seat, once the world is declared.
func (s *seat) assign() {
	if w := s.world; w.spec != nil {
		s.first, s.count = share(w.spec.Shape.NumRanks(), w.spec.PerHost, s.rank)
	}
}

// renew begins the next generation of a seat: what it had is gone.
func (st *state) renew(s *seat) {
	st.clear(s)
	st.place(s)
}

// order has a host create its share; an empty one is never ordered (WORLD-5).
func (st *state) order(s *seat) {
	if w := s.world; s.count > 0 && w.ending == nil {
		st.do(create{
			world: w.name, host: s.host.id, life: s.life, rank: s.rank, mesh: w.mesh, spec: w.spec, first: s.first, count: s.count, gen: s.gen,
		})
	}
}

// clear takes the procs of a seat out of its world: they are gone, and no harm done.
func (st *state) clear(s *seat) {
	for rank := s.first; rank < s.first+s.count; rank++ {
		if m := s.world.procs[uint32(rank)]; m != nil && m.seat == s {
			st.dismiss(m)
		}
	}
}

// vacate takes a host and its procs out of a world.
func (st *state) vacate(s *seat) {
	st.clear(s)
	st.unseat(s)
}

func (st *state) joinProc(e join) error {
	j := *e.Proc
	switch {
	case !j.ID.IsValid():
		return fmt.Errorf("join %s: want the ID of a proc", e.World)
	case j.Mode == Detached:
		st.answer(e.from, Joined{World: e.World}, nil)
		return nil
	case j.Mode == ManagingSystem:
		m := st.procs[j.ID]
		if m != nil && m.world != nil {
			return fmt.Errorf("proc %s is a member of world %s", j.ID, m.world.name)
		}
		if m == nil {
			m = &member{id: j.ID, mode: j.Mode, health: Alive, labels: e.Labels}
			st.procs[j.ID] = m
		}
		st.hear(&m.clock, m)
		st.answer(e.from, Joined{World: e.World}, nil)
		return nil
	case j.Mode != ManagedBySystem:
		return fmt.Errorf("proc %s: %s: want one of %v", j.ID, j.Mode, modeNames)
	}
	w := st.worlds[e.World]
	if j.ID.Mesh.Label() != e.World || w != nil && w.mesh.IsValid() && w.mesh != j.ID.Mesh {
		return fmt.Errorf("proc %s is of another world: want one of mesh %s", j.ID, w.meshText(e.World))
	}
	return st.joinMember(e, j)
}

// meshText is the mesh of a world, or what it would be. The world may be nil.
func (w *world) meshText(name string) string {
	if w == nil || !w.mesh.IsValid() {
		return name + "-…"
	}
	return w.mesh.String()
}

// joinMember takes a proc of the world's mesh in.
func (st *state) joinMember(e join, j JoiningProc) error {
	if m := st.procs[j.ID]; m != nil && m.world == nil {
		return fmt.Errorf("proc %s joined as one that manages the system", j.ID)
	}
	var old *member
	if w := st.worlds[e.World]; w != nil {
		old = w.procs[j.ID.Rank]
	}
	var has map[string]string
	switch {
	case old == nil || old.id.Gen < j.ID.Gen:
	case old.id != j.ID:
		return fmt.Errorf("proc %s: %s has the rank", j.ID, old.id)
	default:
		has = old.labels
	}
	labels, err := merged("proc "+j.ID.String(), has, e.Labels)
	if err != nil {
		return err
	}
	w := st.open(e.World)
	w.mesh = j.ID.Mesh
	m := st.arrive(w, j.ID, w.seatOf(j.ID))
	m.labels, m.mode = labels, j.Mode
	if m.seat == nil {
		st.hear(&m.clock, m)
		st.do(save{w.record()})
	}
	st.answer(e.from, Joined{World: w.name}, nil)
	st.settle(w)
	return nil
}

// seatOf is the seat whose host launched a proc; nil: none did.
func (w *world) seatOf(p subjects.ProcID) *seat {
	if w.spec == nil {
		return nil
	}
	s := w.seats[int(p.Rank)/w.spec.PerHost]
	if s == nil || s.gen != int(p.Gen) || int(p.Rank) < s.first || int(p.Rank) >= s.first+s.count {
		return nil
	}
	return s
}

// arrive makes a proc the newest of its rank, Alive and clean when it is new, and heard when it is not.
func (st *state) arrive(w *world, id subjects.ProcID, s *seat) *member {
	m := w.procs[id.Rank]
	if m != nil && m.id != id {
		st.dismiss(m)
		m = nil
	}
	if m == nil {
		m = &member{id: id, world: w, health: Alive}
		w.procs[id.Rank], st.procs[id] = m, m
	} else if m.health == Expired {
		m.health, m.why = Alive, ""
	}
	m.seat = s
	st.assess(m)
	return m
}

// leave takes a host or a proc out of the worlds it is in.
func (st *state) leave(e leave) {
	if e.Host != nil {
		st.unpark(*e.Host)
	}
	if e.Host != nil && st.hosts[*e.Host] != nil {
		h := st.hosts[*e.Host]
		for _, s := range h.inOrder() {
			st.vacate(s)
			st.left(s.world, party{host: h.id})
		}
	}
	if e.Proc != nil && st.procs[*e.Proc] != nil {
		m := st.procs[*e.Proc]
		st.dismiss(m)
		if m.world != nil {
			st.left(m.world, party{proc: m.id})
		}
	}
	st.answer(e.from, nil, nil)
}

// left sees to a world that somebody has left.
func (st *state) left(w *world, who party) {
	switch {
	case w.ending != nil:
		st.stopped(stopped{world: w.name, who: who})
	case w.spec == nil && len(w.seats) == 0 && len(w.procs) == 0:
		st.remove(w)
	default:
		st.do(save{w.record()})
		st.settle(w)
	}
}
