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

// state is the system controller's state. Only step changes it.
type state struct {
	limits
	worlds map[string]*world
	hosts  map[subjects.HostID]*host
	procs  map[subjects.ProcID]*member // members of worlds, and managers

	self      subjects.ProcID          // of the controller
	detached  map[string]*detachedMesh // meshes, by name
	handovers []*detachedMesh          // of those: that are being adopted

	reserved          map[string]*reservation // names of programs
	reservationTimers timerQueue              // those, by when they were given

	nameWaiters     map[string][]any // names that are taken: who waits until the hosts have said who has each
	nameWaiterCount int              // so many
	freeName        string           // the name that is known to be, in this step

	adoptUntil time.Time       // until then, a world without a record that runs on hosts is adopted
	endedNames map[string]bool // names of worlds that have ended since the bucket was made

	heartbeatTimers timerQueue // hosts and procs, by when they were heard
	unhealthyTimers timerQueue // worlds, by when the first of their procs became unhealthy
	stops           []*stopOp  // that are under way

	now            time.Time
	shutdownReason string // why the whole system stops; "" = it does not
	effects        []any
}

func newState(l limits) *state {
	return &state{
		limits: l, worlds: map[string]*world{}, hosts: map[subjects.HostID]*host{}, procs: map[subjects.ProcID]*member{},
		detached: map[string]*detachedMesh{}, reserved: map[string]*reservation{}, nameWaiters: map[string][]any{},
		endedNames: map[string]bool{},
	}
}

// world is a named mesh, declared or not yet.
type world struct {
	name        string
	spec        *Spec           // nil: not declared
	mesh        subjects.MeshID // zero: nobody has said it yet
	labels      map[string]string
	assignments map[int]*assignment // by host rank
	gens        map[int]int         // by host rank: the next generation of its procs
	procs       map[uint32]*member  // by rank: the newest incarnation of each

	unhealthy map[uint32]*member
	worst     *member // one of those: the reason

	status         Status
	statusReason   string
	since          time.Time
	unhealthyTimer *list.Element  // runs while there are unhealthy procs
	stopping       *stoppingWorld // it is being stopped
}

// assignment is the place of a host in a world.
type assignment struct {
	world        *world
	host         *host
	rank         int
	incarnation  string // of its hostd
	labels       map[string]string
	first, count int    // of the procs that are its to run; 0 until the world is declared
	gen          int    // of these
	orderedIn    string // the life in which it was ordered
	unconfirmed  bool   // the controller before ordered it, and the host has not said what it has
}

// host is a host with an assignment in some world.
type host struct {
	id          subjects.HostID
	assignments map[string]*assignment // by world
	lost        string                 // why; "" = it is not
	timer       *list.Element
}

// member is a proc of a world, or a proc that manages the system.
type member struct {
	id           subjects.ProcID
	world        *world      // nil: a manager
	assignment   *assignment // that it was launched for; nil: it joined of itself
	labels       map[string]string
	mode         Mode
	health       Health
	healthReason string
	failed       []string
	timer        *list.Element // of its heartbeats, when it joined of itself
}

func (m *member) healthy() bool { return m.health == HealthAlive && len(m.failed) == 0 }

// reason is the reason for the proc's bad health.
func (m *member) reason() string {
	if m.health == HealthAlive && len(m.failed) > 0 {
		return "actor " + m.failed[0] + " failed"
	}
	return cmp.Or(m.healthReason, string(m.health))
}

// step applies one event, and returns its effects.
func (st *state) step(event any, now time.Time) []any {
	if now.After(st.now) { // a clock that went back stands still
		st.now = now
	}
	st.effects = nil
	switch e := event.(type) {
	case upsert:
		st.upsert(e)
	case join:
		st.join(e)
	case leave:
		st.leave(e)
	case heartbeat:
		st.handleHeartbeat(e)
	case hostSeen:
		st.handleHostSeen(e.host)
	case hostLost:
		st.markHostLost(st.hosts[e.host], e.why)
	case shareReport:
		st.applyReport(e)
	case inventory:
		st.reconcile(e)
	case undelivered:
		st.setHealth(st.procs[e.proc], HealthUnreachable, "a message to it came back")
	case stop:
		st.stop(e)
	case memberStopped:
		st.handleStopped(e)
	case detach:
		st.detach(e)
	case adopt:
		st.adopt(e)
	case confirm:
		st.confirm(e)
	case takeResult:
		st.handleTakeResult(e)
	case detachedEnd:
		st.handleDetachedEnd(e)
	case reserve:
		st.reserve(e)
	case release:
		st.release(e)
	case nameResult:
		st.handleNameResult(e)
	case restored:
		st.restore(e)
	}
	st.expireTimers()
	return st.effects
}

// nextTick is when step wants a tick; false: never.
func (st *state) nextTick() (time.Time, bool) {
	var at time.Time
	sooner := func(t time.Time, ok bool) {
		if ok && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(st.heartbeatTimers.nextExpiry(st.silence))
	sooner(st.unhealthyTimers.nextExpiry(st.eviction))
	sooner(st.reservationTimers.nextExpiry(st.reservation))
	for _, op := range st.stops {
		sooner(op.deadline, true)
	}
	for _, d := range st.handovers {
		sooner(d.adoptDeadline, true)
	}
	return at, !at.IsZero()
}

// answer replies to a caller, if there is one.
func (st *state) answer(to ticket, value any, err error) {
	if to != 0 {
		st.emit(answer{to, value, err})
	}
}

// emit adds to the result of step.
func (st *state) emit(effect any) { st.effects = append(st.effects, effect) }

// updateStatus computes the status of a world, and reports a change (WORLD-6). For a stopping world
// it reports only the end.
func (st *state) updateStatus(w *world) {
	status, why := w.deriveStatus()
	if w.stopping != nil || status == w.status {
		if w.stopping == nil {
			w.statusReason = why
		}
		return
	}
	w.status, w.statusReason, w.since = status, why, st.now
	step := "world.live"
	if status == StatusUnhealthy { // no world waits for its declaration again
		step = "world.unhealthy"
	}
	st.emit(worldEvent{world: w.name, mesh: w.mesh, step: step, now: status, why: why})
}

// deriveStatus derives the status of a world, and why it is no better.
func (w *world) deriveStatus() (Status, string) {
	switch {
	case w.spec == nil:
		return StatusAwaiting, ""
	case w.worst != nil:
		return StatusUnhealthy, fmt.Sprintf("proc %s: %s", w.worst.id, w.worst.reason())
	case len(w.procs) < w.spec.Shape.NumRanks():
		return StatusUnhealthy, fmt.Sprintf("%d of %d procs are there", len(w.procs), w.spec.Shape.NumRanks())
	}
	return StatusLive, ""
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
	st.updateTimer(w)
}

// updateTimer runs the eviction timer of a declared world with unhealthy procs.
func (st *state) updateTimer(w *world) {
	switch {
	case len(w.unhealthy) == 0 || w.spec == nil || w.stopping != nil:
		st.unhealthyTimers.stop(&w.unhealthyTimer)
	case w.unhealthyTimer == nil:
		w.unhealthyTimer = st.unhealthyTimers.start(st.now, w)
	}
}

// worldNamed is a world by name, made if there is none.
func (st *state) worldNamed(name string) *world {
	w, ok := st.worlds[name]
	if !ok {
		w = &world{
			name: name, assignments: map[int]*assignment{}, gens: map[int]int{}, procs: map[uint32]*member{}, unhealthy: map[uint32]*member{},
			status: StatusAwaiting, since: st.now,
		}
		st.worlds[name] = w
	}
	return w
}

// removeWorld removes a world with everything that belongs to it (WORLD-8).
func (st *state) removeWorld(w *world) {
	for _, s := range w.assignments {
		st.unassignHost(s)
	}
	for _, m := range w.procs {
		st.removeMember(m)
	}
	st.unhealthyTimers.stop(&w.unhealthyTimer)
	delete(st.worlds, w.name)
	if w.spec != nil && st.now.Before(st.adoptUntil) {
		st.endedNames[w.name] = true
	}
	st.emit(deleteRecord{w.name, w.mesh})
}

// removeMember takes a proc out of its world.
func (st *state) removeMember(m *member) {
	st.heartbeatTimers.stop(&m.timer)
	delete(st.procs, m.id)
	if w := m.world; w != nil && w.procs[m.id.Rank] == m {
		delete(w.procs, m.id.Rank)
		m.health, m.failed = HealthAlive, nil // it harms the world no longer
		st.assess(m)
	}
}

// unassignHost removes a host from a world, and forgets a host without assignments.
func (st *state) unassignHost(s *assignment) {
	if s.world.assignments[s.rank] == s {
		delete(s.world.assignments, s.rank)
	}
	if s.host.assignments[s.world.name] == s {
		delete(s.host.assignments, s.world.name)
	}
	if len(s.host.assignments) == 0 {
		st.heartbeatTimers.stop(&s.host.timer)
		delete(st.hosts, s.host.id)
	}
}

// record is the state to save.
func (w *world) record() Record {
	r := Record{Name: w.name, Spec: w.spec, Mesh: w.mesh.String(), Labels: maps.Clone(w.labels), Gens: maps.Clone(w.gens)}
	for _, rank := range slices.Sorted(maps.Keys(w.assignments)) {
		s := w.assignments[rank]
		r.Hosts = append(r.Hosts, HostAssignment{Host: s.host.id, Rank: rank, Incarnation: s.incarnation, Gen: s.gen, OrderedIn: s.orderedIn, Labels: s.labels})
	}
	for _, rank := range slices.Sorted(maps.Keys(w.procs)) {
		if m := w.procs[rank]; m.assignment == nil {
			r.Procs = append(r.Procs, SelfJoined{ID: m.id, Mode: m.mode, Labels: m.labels})
		}
	}
	if w.stopping != nil {
		r.StoppingReason = w.stopping.why
	}
	return r
}
