package worlds

import (
	"cmp"
	"container/list"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// limits are how long things may take.
type limits struct {
	silence    time.Duration // of a host or a proc, before it is expired
	presence   bool          // but of hosts, hostSeen and hostLost tell
	names      bool          // that are taken are asked for
	eviction   time.Duration // of an unhealthy proc, before its world goes
	stopWithin time.Duration // of a stop, where nobody says

	reservation time.Duration // of a name
}

// state is what the system controller knows. step is the only thing that changes it.
type state struct {
	limits
	worlds map[string]*world
	hosts  map[subjects.HostID]*host
	procs  map[subjects.ProcID]*member // members of worlds, and managers

	self     subjects.ProcID      // of the controller
	detached map[string]*detached // meshes, by name
	giving   []*detached          // of those: that are being adopted

	reserved map[string]*reservation // names of programs
	keeping  clocks                  // those, by when they were given

	asking map[string][]any // names that are taken: who waits until the hosts have said who has each
	parked int              // so many
	free   string           // the name that is known to be, in this step

	adoptUntil time.Time       // until then, a world without a record that runs on hosts is adopted
	endedNames map[string]bool // names of worlds that have ended since the bucket was made

	heard clocks    // hosts and procs, by when they were heard
	sick  clocks    // worlds, by when the first of their procs became unhealthy
	stops []*stopOp // that are under way

	now   time.Time
	going string // why the whole system stops; "" = it does not
	out   []any
}

func newState(l limits) *state {
	return &state{
		limits: l, worlds: map[string]*world{}, hosts: map[subjects.HostID]*host{}, procs: map[subjects.ProcID]*member{},
		detached: map[string]*detached{}, reserved: map[string]*reservation{}, asking: map[string][]any{},
		endedNames: map[string]bool{},
	}
}

// world is a named mesh, declared or not yet.
type world struct {
	name   string
	spec   *Spec           // nil: not declared
	mesh   subjects.MeshID // zero: nobody has said it yet
	labels map[string]string
	seats  map[int]*seat      // by host rank
	gens   map[int]int        // by host rank: the next generation of its procs
	procs  map[uint32]*member // by rank: the newest incarnation of each

	unhealthy map[uint32]*member
	worst     *member // one of those: the reason

	status Status
	why    string
	since  time.Time
	clock  *list.Element // runs while there are unhealthy procs
	ending *ending       // it is being stopped
}

// seat is the place of a host in a world.
type seat struct {
	world        *world
	host         *host
	rank         int
	life         string // of its hostd
	labels       map[string]string
	first, count int    // of the procs that are its to run; 0 until the world is declared
	gen          int    // of these
	born         string // the life in which it was ordered
	unseen       bool   // the controller before ordered it, and the host has not said what it has
}

// host is one that has a seat in some world.
type host struct {
	id    subjects.HostID
	seats map[string]*seat // by world
	lost  string           // why; "" = it is not
	clock *list.Element
}

// member is a proc of a world, or one without which there is no system.
type member struct {
	id     subjects.ProcID
	world  *world // nil: a manager
	seat   *seat  // that it was launched for; nil: it joined of itself
	labels map[string]string
	mode   Mode
	health Health
	why    string
	failed []string
	clock  *list.Element // of its heartbeats, when it joined of itself
}

func (m *member) healthy() bool { return m.health == Alive && len(m.failed) == 0 }

// reason is what is wrong with the proc.
func (m *member) reason() string {
	if m.health == Alive && len(m.failed) > 0 {
		return "actor " + m.failed[0] + " failed"
	}
	return cmp.Or(m.why, string(m.health))
}

// step takes one thing that was heard, and says what is to be done.
func (st *state) step(event any, now time.Time) []any {
	if now.After(st.now) { // a clock that went back stands still
		st.now = now
	}
	st.out = nil
	switch e := event.(type) {
	case upsert:
		st.upsert(e)
	case join:
		st.join(e)
	case leave:
		st.leave(e)
	case beat:
		st.beat(e)
	case hostSeen:
		st.seen(e.host)
	case hostLost:
		st.lost(st.hosts[e.host], e.why)
	case reported:
		st.reported(e)
	case inventory:
		st.inventory(e)
	case returned:
		st.mark(st.procs[e.proc], Unreachable, "a message to it came back")
	case stop:
		st.stop(e)
	case stopped:
		st.stopped(e)
	case detach:
		st.detach(e)
	case adopt:
		st.adopt(e)
	case confirm:
		st.confirm(e)
	case took:
		st.took(e)
	case over:
		st.over(e)
	case reserve:
		st.reserve(e)
	case release:
		st.release(e)
	case named:
		st.named(e)
	case restored:
		st.restore(e)
	}
	st.expire()
	return st.out
}

// next is when step wants a tick; false: never.
func (st *state) next() (time.Time, bool) {
	var at time.Time
	sooner := func(t time.Time, ok bool) {
		if ok && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(st.heard.due(st.silence))
	sooner(st.sick.due(st.eviction))
	sooner(st.keeping.due(st.reservation))
	for _, op := range st.stops {
		sooner(op.deadline, true)
	}
	for _, d := range st.giving {
		sooner(d.until, true)
	}
	return at, !at.IsZero()
}

// answer gives an answer to who asked, if anybody did.
func (st *state) answer(to ticket, value any, err error) {
	if to != 0 {
		st.do(answer{to, value, err})
	}
}

// do adds to what step returns.
func (st *state) do(effect any) { st.out = append(st.out, effect) }

// settle finds out how a world is now, and tells when that has changed (WORLD-6). Of one that is being
// stopped, nothing is told but its end.
func (st *state) settle(w *world) {
	status, why := w.is()
	if w.ending != nil || status == w.status {
		if w.ending == nil {
			w.why = why
		}
		return
	}
	w.status, w.why, w.since = status, why, st.now
	step := "world.live"
	if status == Unhealthy { // no world waits for its declaration again
		step = "world.unhealthy"
	}
	st.do(told{world: w.name, mesh: w.mesh, step: step, now: status, why: why})
}

// is derives the status of a world, and why it is no better.
func (w *world) is() (Status, string) {
	switch {
	case w.spec == nil:
		return Awaiting, ""
	case w.worst != nil:
		return Unhealthy, fmt.Sprintf("proc %s: %s", w.worst.id, w.worst.reason())
	case len(w.procs) < w.spec.Shape.NumRanks():
		return Unhealthy, fmt.Sprintf("%d of %d procs are there", len(w.procs), w.spec.Shape.NumRanks())
	}
	return Live, ""
}

// assess puts a member among the unhealthy ones of its world, or takes it out (WORLD-7).
func (st *state) assess(m *member) {
	w := m.world
	if w == nil {
		return
	}
	if m.healthy() {
		delete(w.unhealthy, m.id.Rank)
		if w.worst == m {
			w.worst = nil
			for _, other := range w.unhealthy {
				if w.worst == nil || other.id.Rank < w.worst.id.Rank {
					w.worst = other
				}
			}
		}
	} else {
		w.unhealthy[m.id.Rank] = m
		if w.worst == nil || w.worst.id.Rank == m.id.Rank {
			w.worst = m
		}
	}
	st.watch(w)
}

// watch runs the clock of a world that is declared while there are unhealthy procs in it.
func (st *state) watch(w *world) {
	switch {
	case len(w.unhealthy) == 0 || w.spec == nil || w.ending != nil:
		st.sick.stop(&w.clock)
	case w.clock == nil:
		w.clock = st.sick.start(st.now, w)
	}
}

// open is a world by name, made if there is none.
func (st *state) open(name string) *world {
	w, ok := st.worlds[name]
	if !ok {
		w = &world{
			name: name, seats: map[int]*seat{}, gens: map[int]int{}, procs: map[uint32]*member{}, unhealthy: map[uint32]*member{},
			status: Awaiting, since: st.now,
		}
		st.worlds[name] = w
	}
	return w
}

// remove takes a world away, with everything that belongs to it (WORLD-8).
func (st *state) remove(w *world) {
	for _, s := range w.seats {
		st.unseat(s)
	}
	for _, m := range w.procs {
		st.dismiss(m)
	}
	st.sick.stop(&w.clock)
	delete(st.worlds, w.name)
	if w.spec != nil && st.now.Before(st.adoptUntil) {
		st.endedNames[w.name] = true
	}
	st.do(forget{w.name, w.mesh})
}

// dismiss takes a proc out of its world.
func (st *state) dismiss(m *member) {
	st.heard.stop(&m.clock)
	delete(st.procs, m.id)
	if w := m.world; w != nil && w.procs[m.id.Rank] == m {
		delete(w.procs, m.id.Rank)
		m.health, m.failed = Alive, nil // it harms the world no longer
		st.assess(m)
	}
}

// unseat takes a host out of a world; one that has no seat any more is forgotten.
func (st *state) unseat(s *seat) {
	if s.world.seats[s.rank] == s {
		delete(s.world.seats, s.rank)
	}
	if s.host.seats[s.world.name] == s {
		delete(s.host.seats, s.world.name)
	}
	if len(s.host.seats) == 0 {
		st.heard.stop(&s.host.clock)
		delete(st.hosts, s.host.id)
	}
}

// record is what is to outlive this controller.
func (w *world) record() Record {
	r := Record{Name: w.name, Spec: w.spec, Mesh: w.mesh.String(), Labels: maps.Clone(w.labels), Gens: maps.Clone(w.gens)}
	for _, rank := range slices.Sorted(maps.Keys(w.seats)) {
		s := w.seats[rank]
		r.Hosts = append(r.Hosts, Seat{Host: s.host.id, Rank: rank, Life: s.life, Gen: s.gen, Born: s.born, Labels: s.labels})
	}
	for _, rank := range slices.Sorted(maps.Keys(w.procs)) {
		if m := w.procs[rank]; m.seat == nil {
			r.Procs = append(r.Procs, SelfJoined{ID: m.id, Mode: m.mode, Labels: m.labels})
		}
	}
	if w.ending != nil {
		r.Ending = w.ending.why
	}
	return r
}
