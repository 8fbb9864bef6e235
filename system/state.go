package system

import (
	"cmp"
	"container/list"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// limits are the timeouts of the core.
type limits struct {
	silence     time.Duration // after which a self-joined proc is expired
	eviction    time.Duration // after which a world with an unhealthy proc is evicted
	stopWithin  time.Duration // the default timeout of a stop
	reservation time.Duration // the lifetime of a reservation
}

// state is the system controller's state. Only step changes it.
type state struct {
	limits
	worlds map[string]*world
	hosts  map[subjects.HostID]*host
	procs  map[subjects.ProcID]*member // members of worlds, and managers

	core
	detached detachedMeshes
	reserved reservations

	nameCheck *nameCheck // of the request of a nameChecked, during its step

	adoptUntil time.Time       // until then, worlds without a record are adopted from their hosts
	endedNames map[string]bool // names of worlds that ended since the bucket was made

	heartbeatTimers timerQueue // of self-joined procs, since their last heartbeat
	listeningSince  time.Time  // start of the time in which silence counts (WORLD-6, WORLD-9)
	unhealthyTimers timerQueue // of worlds, since their first proc became unhealthy
	stops           []*stopOp  // unfinished stops

	shutdownReason string // why the whole system stops; "": it does not
}

// core is what the parts of the state share: the controller, its clock, and the effects of a step.
type core struct {
	self    subjects.ProcID // of the controller
	epoch   uint64          // of its term
	durable bool            // another controller follows this one
	now     time.Time
	effects []any
}

// execution distinguishes this controller from earlier ones.
func (c *core) execution() string { return c.self.Mesh.UID() }

// answer replies to a caller, if there is one.
func (c *core) answer(to caller, value any, err error) {
	if to != nil {
		c.emit(answer{to, value, err})
	}
}

// emit adds an effect to the result of step.
func (c *core) emit(effect any) { c.effects = append(c.effects, effect) }

func newState(l limits) *state {
	st := &state{
		limits:     l,
		worlds:     map[string]*world{},
		hosts:      map[subjects.HostID]*host{},
		procs:      map[subjects.ProcID]*member{},
		endedNames: map[string]bool{},
	}
	st.detached = detachedMeshes{core: &st.core, byName: map[string]*detachedMesh{}}
	st.reserved = reservations{core: &st.core, byName: map[string]*reservation{}}
	return st
}

// world is a named mesh, declared or not yet.
type world struct {
	name        string
	spec        *Spec           // nil: not declared
	mesh        subjects.MeshID // zero: unknown
	labels      map[string]string
	assignments map[int]*assignment     // by host rank
	gens        map[int]int             // by host rank: the next generation of its procs
	left        map[int]subjects.HostID // by host rank: the last host, if the rank has none
	procs       map[uint32]*member      // by rank: the newest proc of each

	unhealthy map[uint32]*member
	worst     *member         // the unhealthy proc in the status reason
	causes    map[string]bool // reasons of unhealthy procs since the world was healthy; "": missing procs
	newCauses []string        // without an event

	status         Status
	statusReason   string
	since          time.Time
	unhealthyTimer *list.Element  // runs while a proc is unhealthy
	stopping       *stoppingWorld // nil: it is not being stopped
}

// assignment is the place of a host in a world.
type assignment struct {
	world        *world
	host         *host
	rank         int
	incarnation  string // of its hostd
	labels       map[string]string
	first, count int    // the share; 0 until the world is declared
	gen          int    // of the procs of the share
	orderedIn    string // the incarnation that got the order
	unconfirmed  bool   // the previous controller ordered it, and the host has not reported it yet
}

// host is a host with an assignment in some world.
type host struct {
	id          subjects.HostID
	assignments map[string]*assignment // by world
	lost        string                 // the reason why the host is lost; "": it is not
}

// member is a proc of a world, or a proc that manages the system.
type member struct {
	id           subjects.ProcID
	world        *world      // nil: a manager
	assignment   *assignment // of the host that launched it; nil: self-joined
	labels       map[string]string
	mode         Mode
	health       Health
	healthReason string
	failed       []string
	timer        *list.Element // of the heartbeats of a self-joined proc
}

func (m *member) healthy() bool { return m.health == HealthAlive && len(m.failed) == 0 }

// reason is the reason why the proc is unhealthy.
func (m *member) reason() string {
	if m.health == HealthAlive && len(m.failed) > 0 {
		return "actor " + m.failed[0] + " failed"
	}
	return cmp.Or(m.healthReason, string(m.health))
}

// describe names an unhealthy proc, with the reason.
func (m *member) describe() string { return fmt.Sprintf("proc %s: %s", m.id, m.reason()) }

// step applies one event, and returns its effects.
func (st *state) step(event any, now time.Time) []any {
	if st.isWaiting() && now.Sub(st.now) > st.silence/2 { // a pause: news may wait unread
		st.listeningSince = now
	}
	if now.After(st.now) { // the state's clock never goes back
		st.now = now
	}
	st.effects = nil
	st.apply(event)
	st.expireTimers()
	return st.effects
}

func (st *state) apply(event any) {
	switch e := event.(type) {
	case upsert:
		st.upsert(e)
	case join:
		st.join(e)
	case leave:
		st.leave(e)
	case heartbeat:
		st.handleHeartbeat(e)
	case deaf:
		st.listeningSince = st.now
	case hostSeen:
		st.handleHostSeen(e.host)
	case hostLost:
		st.markHostLost(st.hosts[e.host], e.why)
	case shareReport:
		st.applyReport(e)
	case inventory:
		st.reconcile(e)
	case undelivered:
		st.setHealth(st.procs[e.proc], HealthUnreachable, "a message to it was returned")
	case stop:
		st.stop(e)
	case memberStopped:
		st.handleStopped(e)
	case detach:
		st.detach(e)
	case adopt:
		st.detached.adopt(e)
	case confirm:
		st.detached.confirm(e)
	case takeResult:
		st.detached.handleTakeResult(e)
	case detachedEnd:
		st.detached.handleEnd(e)
	case reserve:
		st.reserve(e)
	case release:
		st.reserved.release(e)
	case getSnapshot:
		st.expireTimers()
		st.answer(e.from, Snapshot{
			Execution: st.execution(), Epoch: st.epoch, Durable: st.durable, Worlds: st.snapshot(e.Filter),
			Detached: st.detached.list(),
		}, nil)
	case getHealth:
		st.expireTimers()
		st.answer(e.from, st.unhealthy(e.world), nil)
	case locate:
		st.expireTimers()
		found, err := st.locate(e.what)
		st.answer(e.from, found, err)
	case nameChecked:
		st.nameCheck = &e.nameCheck
		st.apply(e.request)
		st.nameCheck = nil
	case restored:
		st.restore(e)
	}
}

// nextTick returns the time of the next tick; false: none is needed.
func (st *state) nextTick() (time.Time, bool) {
	var at time.Time
	sooner := func(t time.Time, ok bool) {
		if ok && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(st.nextSilence())
	sooner(st.nextEviction())
	sooner(st.now.Add(st.silence/4), st.isWaiting()) // an event that comes much later shows a pause
	sooner(st.reserved.timers.nextExpiry(st.reservation))
	for _, op := range st.stops {
		sooner(op.deadline, true)
	}
	for _, d := range st.detached.handovers {
		sooner(d.adoptDeadline, true)
	}
	return at, !at.IsZero()
}

// updateStatus computes the status of a world, and reports a change, also of the cause of an
// unhealthy one (WORLD-6). For a stopping world it reports only the end.
func (st *state) updateStatus(w *world) {
	if w.stopping != nil {
		return
	}
	status, why := w.deriveStatus()
	changed := status != w.status
	w.status = status
	w.statusReason = why
	if changed {
		w.since = st.now
	}
	report := func(step, why string) {
		st.emit(worldEvent{world: w.name, mesh: w.mesh, step: step, now: status, why: why})
	}
	if status == StatusUnhealthy {
		w.noteCause(w.worst, why)
		for _, cause := range w.newCauses {
			report("world.unhealthy", cause)
		}
	} else if changed { // no status change leads back to StatusAwaiting
		report(map[Status]string{StatusStarting: "world.starting", StatusLive: "world.live"}[status], why)
	}
	w.newCauses = nil
	if status != StatusUnhealthy {
		clear(w.causes)
	}
}

// maxCauses bounds the causes that get an event until a world is healthy again.
const maxCauses = 16

// noteCause adds a cause for being unhealthy to the next events of a world, unless it had one since
// the world was healthy. Equal reasons of many procs are one cause. nil: procs are missing.
func (w *world) noteCause(m *member, why string) {
	key := ""
	if m != nil {
		key = m.reason()
	}
	if !w.causes[key] && len(w.causes) < maxCauses {
		w.causes[key] = true
		w.newCauses = append(w.newCauses, why)
	}
}

// deriveStatus returns the status of a world, with the reason if the world is not live. A world
// that lacks procs is starting until it was live or unhealthy.
func (w *world) deriveStatus() (Status, string) {
	switch {
	case w.spec == nil:
		return StatusAwaiting, ""
	case w.worst != nil:
		return StatusUnhealthy, w.worst.describe()
	case len(w.procs) >= w.spec.Shape.NumRanks():
		return StatusLive, ""
	}
	count := fmt.Sprintf("%d of %d procs", len(w.procs), w.spec.Shape.NumRanks())
	if w.status == StatusLive || w.status == StatusUnhealthy {
		return StatusUnhealthy, "only " + count + " run"
	}
	return StatusStarting, count + " have started"
}

// assess adds a member to the unhealthy ones of its world, or removes it (WORLD-6).
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
		w.noteCause(m, m.describe())
	}
	st.updateTimer(w)
}

// updateTimer runs the eviction timer of a declared world with unhealthy procs.
func (st *state) updateTimer(w *world) {
	if len(w.unhealthy) == 0 || w.spec == nil || w.stopping != nil {
		st.unhealthyTimers.stop(&w.unhealthyTimer)
	} else if w.unhealthyTimer == nil {
		w.unhealthyTimer = st.unhealthyTimers.start(st.now, w)
	}
}

// worldNamed returns the world of a name, and creates it if there is none.
func (st *state) worldNamed(name string) *world {
	w, ok := st.worlds[name]
	if !ok {
		w = &world{
			name: name, assignments: map[int]*assignment{}, gens: map[int]int{}, procs: map[uint32]*member{},
			left:      map[int]subjects.HostID{},
			unhealthy: map[uint32]*member{}, causes: map[string]bool{}, status: StatusAwaiting, since: st.now,
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

// removeMember removes a proc from its world.
func (st *state) removeMember(m *member) {
	st.heartbeatTimers.stop(&m.timer)
	delete(st.procs, m.id)
	if w := m.world; w != nil && w.procs[m.id.Rank] == m {
		delete(w.procs, m.id.Rank)
		m.health = HealthAlive // so that assess removes it from the unhealthy procs
		m.failed = nil
		st.assess(m)
	}
}

// unassignHost removes a host from a world, and forgets a host without assignments.
func (st *state) unassignHost(s *assignment) {
	if s.world.assignments[s.rank] == s {
		delete(s.world.assignments, s.rank)
		if s.count > 0 {
			s.world.left[s.rank] = s.host.id
		}
	}
	if s.host.assignments[s.world.name] == s {
		delete(s.host.assignments, s.world.name)
	}
	if len(s.host.assignments) == 0 {
		delete(st.hosts, s.host.id)
	}
}

// record returns the state of a world to save.
func (w *world) record() Record {
	r := Record{
		Name: w.name, Spec: w.spec, Mesh: w.mesh.String(),
		Labels: maps.Clone(w.labels), Gens: maps.Clone(w.gens),
	}
	for _, rank := range slices.Sorted(maps.Keys(w.assignments)) {
		s := w.assignments[rank]
		r.Hosts = append(r.Hosts, HostAssignment{
			Host: s.host.id, Rank: rank, Incarnation: s.incarnation, Gen: s.gen, OrderedIn: s.orderedIn,
			Labels: s.labels,
		})
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
