package page

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/system"
)

const (
	sampleInterval = time.Second
	kickInterval   = 100 * time.Millisecond // between samples, after an event
	maxPause       = 10 * time.Second
	maxDrained     = 256 // events that change a snapshot at once
	sampleTimeout  = 5 * time.Second
)

// snapshot is what the page knows at a time. Readers share it and change nothing.
type snapshot struct {
	inspect.Sample
	inventory mesh.Inventory // of the sample
	hosts     rows[inspect.HostCounters]
	meshes    rows[inspect.MeshSummary]
	reports   map[string]meshReport // of the meshes that somebody watches, by ID
	leader    string                // address of the system controller; "": none
	worlds    rows[worldRow]
	parts     map[string]part // by mesh, of a partial sample
	err       error           // of the last sample; the rest is older
}

// sampler samples the castnet while it has readers (PAGE-2). They share each question.
type sampler struct {
	page    *Page
	mu      sync.Mutex
	readers map[*reader]struct{}
	last    *snapshot
	cancel  context.CancelFunc // of the loop; nil: it does not run
	loops   sync.WaitGroup
	wishes  chan struct{} // a reader has come: sample soon
}

// interest is what a reader shows.
type interest struct {
	mesh   string // whose events and report it shows; "": the overview, and events of all
	region string // of the mesh, under inspection; "": none
}

// reader is a stream that shows snapshots and events.
type reader struct {
	interest
	snapshots chan snapshot // the newest one
	events    chan actor.Event
	lost      int // events that came faster than they were read; guarded by sampler.mu
}

// eventBuffer bounds the events on their way to a stream.
const eventBuffer = 1024

// read makes a reader, until end is called.
func (s *sampler) read(of interest) (r *reader, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r = &reader{interest: of, snapshots: make(chan snapshot, 1), events: make(chan actor.Event, eventBuffer)}
	if s.readers == nil {
		s.readers = map[*reader]struct{}{}
	}
	s.readers[r] = struct{}{}
	if s.last != nil {
		r.snapshots <- *s.last
	}
	select {
	case s.wishes <- struct{}{}:
	default: // the loop knows already
	}
	if s.cancel == nil {
		ctx, cancel := context.WithCancel(s.page.ctx)
		s.cancel = cancel
		s.loops.Go(func() { s.run(ctx) })
	}
	return r, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.readers, r)
		if len(s.readers) == 0 {
			s.cancel()
			s.cancel = nil
			s.last = nil // it would be old
		}
	}
}

// takeLost returns how many events a reader has lost since the last call.
func (s *sampler) takeLost(r *reader) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := r.lost
	r.lost = 0
	return n
}

func (s *sampler) close() { s.loops.Wait() }

// run connects, and samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := s.page.conn(ctx)
		if err == nil {
			err = s.runOn(ctx, conn)
		}
		if err != nil {
			s.publish(ctx, snapshot{err: err})
			sleep(ctx, sampleInterval)
		}
	}
}

// runOn samples until ctx ends. Events go on to readers at any time, also during a sample.
func (s *sampler) runOn(ctx context.Context, conn *mesh.Net) error {
	watch, err := inspect.WatchEvents(conn, inspect.EventFilter{})
	if err != nil {
		return err
	}
	defer watch.Close()
	s.loops.Go(func() { watchHosts(ctx, conn, watch) })
	t := newSampling(conn, s.page.maxAsked)
	taken := make(chan snapshot, 1)
	pause := time.NewTimer(0)
	defer pause.Stop()
	var began time.Time
	var took time.Duration // by the last sample; 0: one runs
	kicked := false        // an event or a reader came since it began
	kick := func() {
		if !kicked && took > 0 {
			pause.Reset(max(0, took+pauseAfter(took, true)-time.Since(began)))
		}
		kicked = true
	}
	for {
		select {
		case e := <-watch.Events:
			s.note(ctx, t, drain(watch.Events, e), int(watch.Lost.Swap(0)))
			kick()
		case <-s.wishes:
			kick()
		case now := <-taken:
			s.publish(ctx, now.withEndsOf(s.latest()))
			took = time.Since(began)
			if now.err == nil { // silent procs and hosts cost nothing
				took = max(time.Nanosecond, took-now.Waited())
			}
			pause.Reset(pauseAfter(took, kicked))
		case <-pause.C:
			began = time.Now()
			took = 0
			kicked = false
			last := s.latest()
			watched := s.watched()
			due := t.due(watched, last)
			s.loops.Go(func() { taken <- t.take(ctx, last, watched, due) })
		case <-ctx.Done():
			return nil
		}
	}
}

// pauseAfter is the time between two samples: four times what the last one took (PAGE-3), and
// seldom less than a second. After an event, and for a new reader, it is shorter.
func pauseAfter(took time.Duration, kicked bool) time.Duration {
	least := sampleInterval
	if kicked {
		least = kickInterval
	}
	return max(least, min(4*took, maxPause))
}

// watchHosts adds the state changes of hosts to a watch. Until the hosts are known, it asks again.
func watchHosts(ctx context.Context, conn *mesh.Net, watch *inspect.EventWatch) {
	for ctx.Err() == nil {
		hosts, err := conn.AllHosts(ctx)
		if err == nil {
			defer watch.WatchHosts(ctx, hosts, inspect.EventFilter{})()
			<-ctx.Done()
			return
		}
		sleep(ctx, sampleTimeout)
	}
}

// sampling is the state of one loop, which runs one sample at a time.
type sampling struct {
	inspect.Sampler
	changed map[string]bool // meshes with events since their report began

	first, others turn // among the ranks under inspection, and among the others
	chosen        choice
	answers       map[string]map[int]answer // of watched meshes, by rank
	asked         time.Time                 // the time of the last partial sample
}

func newSampling(conn *mesh.Net, maxAsked int) *sampling {
	t := &sampling{changed: map[string]bool{}}
	t.Sampler = inspect.Sampler{
		Net: conn, Timeout: sampleTimeout, Ended: true, MaxAsked: maxAsked,
		Wanted:     func(mesh string, rank int) bool { return t.chosen.ranks[rankKey{mesh, rank}] },
		WantedHost: func(id string) bool { return t.chosen.hosts[id] },
	}
	return t
}

// due chooses the watched meshes whose owner, hosts and actors are to be asked for again; false:
// its report is new enough.
func (t *sampling) due(watched []interest, last snapshot) map[string]bool {
	due := map[string]bool{}
	for _, w := range watched {
		id := w.mesh
		if id == "" {
			continue
		}
		r, known := last.reports[id]
		due[id] = due[id] || !known || r.err != nil || t.changed[id] || time.Since(r.asked) >= headerInterval
		delete(t.changed, id)
	}
	return due
}

// take takes a sample. It asks the hosts for their procs once.
func (t *sampling) take(
	ctx context.Context, last snapshot, watched []interest, due map[string]bool,
) (now snapshot) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	inv, err := t.Net.Inventory(ctx)
	if err != nil {
		last.err = err
		return last
	}
	now.inventory = inv
	t.chosen = choice{}
	partial := t.Partial(inv)
	if partial {
		t.chosen = t.choose(inv, watched)
	}
	now.worlds = firstRows([]worldRow(nil), worldRow.isWell)
	now.reports = map[string]meshReport{}
	var asking sync.WaitGroup
	var reporting sync.Mutex // guards now.reports
	for id, ask := range due {
		var wanted func(rank int) bool
		if partial {
			wanted = func(rank int) bool { return t.Wanted(id, rank) }
		}
		asking.Go(func() {
			r := report(ctx, t.Net, inv, id, last.reports[id], ask, wanted)
			reporting.Lock()
			defer reporting.Unlock()
			now.reports[id] = r
		})
	}
	var unsummed error
	asking.Go(func() { now.meshes, unsummed = firstMeshes(ctx, t.Net, inv) })
	asking.Go(func() {
		if ref, err := system.Find(ctx, t.Net.Proc()); err == nil {
			now.leader = ref.ID().String()
			now.worlds = firstRows(askWorlds(ctx, ref), worldRow.isWell)
		}
	})
	now.Sample, err = t.SampleOf(ctx, inv)
	now.hosts = firstRows(now.Hosts, func(h inspect.HostCounters) bool { return h.State == agent.HostAlive })
	now.parts = t.recall(&now.Sample, watched)
	asking.Wait()
	now.Missing = errors.Join(now.Missing, unsummed)
	if err != nil {
		last.err = err
		return last
	}
	return now
}

// watched returns what readers show, each once.
func (s *sampler) watched() (all []interest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.readers {
		if !slices.Contains(all, r.interest) {
			all = append(all, r.interest)
		}
	}
	return all
}

// drain returns an event and those that wait behind it.
func drain(events <-chan actor.Event, first actor.Event) []actor.Event {
	all := []actor.Event{first}
	for len(all) < maxDrained {
		select {
		case e := <-events:
			all = append(all, e)
		default:
			return all
		}
	}
	return all
}

// note hands events to readers, and shows ends of procs before the next sample does.
func (s *sampler) note(ctx context.Context, t *sampling, events []actor.Event, lost int) {
	now := s.latest()
	changed := false
	procs := slices.Clone(now.Procs)
	for _, e := range events {
		t.changed[e.Mesh] = true
		if e.Kind != actor.KindProc || !e.Terminal() {
			continue
		}
		for i, p := range procs {
			among := e.Rank <= p.Rank && p.Rank-e.Rank < max(e.Count, 1)
			if p.Mesh == e.Mesh && among && p.Gen <= e.Gen && p.Status != e.Status {
				procs[i].Status = e.Status
				changed = true
			}
		}
	}
	if changed {
		now.Procs = procs
		s.publish(ctx, now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.readers {
		r.lost += lost
		for _, e := range events {
			if !(inspect.EventFilter{Mesh: r.mesh}).Matches(e) {
				continue
			}
			select {
			case r.events <- e:
			default:
				r.lost++
			}
		}
	}
}

// withEndsOf keeps the ends that became known while a sample was taken: a generation of a rank does
// not run again.
func (now snapshot) withEndsOf(last snapshot) snapshot {
	type proc struct {
		mesh      string
		rank, gen int
	}
	ended := map[proc]string{}
	for _, p := range last.Procs {
		if inspect.Ended(p.Status) {
			ended[proc{p.Mesh, p.Rank, p.Gen}] = p.Status
		}
	}
	for i, p := range now.Procs {
		if status, is := ended[proc{p.Mesh, p.Rank, p.Gen}]; is && !inspect.Ended(p.Status) {
			now.Procs[i].Status = status // the sample is no reader's yet
		}
	}
	return now
}

func (s *sampler) latest() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return snapshot{}
	}
	return *s.last
}

// publish gives readers the newest snapshot in place of one they have not taken.
func (s *sampler) publish(ctx context.Context, now snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	s.last = &now
	for r := range s.readers {
		select {
		case <-r.snapshots:
		default:
		}
		r.snapshots <- now
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// find finds a live mesh by its ID, in the last sample if there is one.
func (p *Page) find(ctx context.Context, id string) (*mesh.Net, mesh.ProcMesh, error) {
	conn, err := p.conn(ctx)
	if err != nil {
		return nil, mesh.ProcMesh{}, err
	}
	now := p.sampler.latest()
	if m, err := now.inventory.Lookup(id); err == nil && now.err == nil {
		return conn, m, nil
	}
	m, err := conn.Lookup(ctx, id)
	return conn, m, err
}
