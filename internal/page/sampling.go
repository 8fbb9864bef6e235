package page

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
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
	meshes []inspect.MeshSummary
	leader string // address of the system controller; "": none
	worlds []worldRow
	err    error // of the last sample; the rest is older
}

// sampler samples the castnet while it has readers (PAGE-2).
type sampler struct {
	page    *Page
	mu      sync.Mutex
	readers map[chan snapshot]struct{}
	last    *snapshot
	cancel  context.CancelFunc // of the loop; nil: it does not run
	loops   sync.WaitGroup
}

// read returns a channel with the newest snapshot, until end is called.
func (s *sampler) read() (snapshots <-chan snapshot, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan snapshot, 1)
	if s.readers == nil {
		s.readers = map[chan snapshot]struct{}{}
	}
	s.readers[c] = struct{}{}
	if s.last != nil {
		c <- *s.last
	}
	if s.cancel == nil {
		ctx, cancel := context.WithCancel(s.page.ctx)
		s.cancel = cancel
		s.loops.Go(func() { s.run(ctx) })
	}
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.readers, c)
		if len(s.readers) == 0 {
			s.cancel()
			s.cancel = nil
			s.last = nil // it would be old
		}
	}
}

func (s *sampler) close() { s.loops.Wait() }

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	var t *inspect.Sampler
	var events <-chan actor.Event
	for ctx.Err() == nil {
		began := time.Now()
		if t == nil {
			conn, err := s.page.conn(ctx)
			if err != nil {
				s.publish(ctx, snapshot{err: err})
				sleep(ctx, sampleInterval)
				continue
			}
			t = &inspect.Sampler{Net: conn, Timeout: sampleTimeout, Ended: true}
			if w, err := inspect.WatchEvents(conn, inspect.EventFilter{}); err == nil {
				defer w.Close()
				events = w.Events
			}
		}
		now, err := s.take(ctx, t)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			now = s.latest()
			now.err = err
		}
		s.publish(ctx, now)
		s.wait(ctx, events, began)
	}
}

// take takes a sample.
func (s *sampler) take(ctx context.Context, t *inspect.Sampler) (now snapshot, err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	var summing sync.WaitGroup
	var unsummed error
	summing.Go(func() { now.meshes, _, unsummed = inspect.Meshes(ctx, t.Net, false) })
	summing.Go(func() {
		if ref, err := system.Find(ctx, t.Net.Proc()); err == nil {
			now.leader = ref.ID().String()
			now.worlds = askWorlds(ctx, ref)
		}
	})
	sample, err := t.Sample(ctx)
	summing.Wait()
	now.Sample = sample
	if err == nil {
		err = unsummed
	}
	return now, err
}

// wait waits for the next sample: for less time after an event, which the last snapshot shows at
// once, and for four times what the last sample took (PAGE-3), up to maxPause.
func (s *sampler) wait(ctx context.Context, events <-chan actor.Event, began time.Time) {
	took := time.Since(began)
	pause := time.NewTimer(max(sampleInterval, min(4*took, maxPause)))
	defer pause.Stop()
	for kicked := false; ; {
		select {
		case e := <-events:
			s.apply(ctx, drain(events, e))
			if !kicked {
				kicked = true
				pause.Reset(max(0, max(kickInterval, min(4*took, maxPause))-(time.Since(began)-took)))
			}
		case <-pause.C:
			return
		case <-ctx.Done():
			return
		}
	}
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

// apply shows ends of procs before the next sample does.
func (s *sampler) apply(ctx context.Context, events []actor.Event) {
	now := s.latest()
	changed := false
	procs := slices.Clone(now.Procs)
	for _, e := range events {
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
	for c := range s.readers {
		select {
		case <-c:
		default:
		}
		c <- now
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// lookup finds a mesh by its ID.
func (p *Page) lookup(ctx context.Context, id string) (*mesh.Net, mesh.ProcMesh, error) {
	conn, err := p.conn(ctx)
	if err != nil {
		return nil, mesh.ProcMesh{}, err
	}
	m, err := conn.Lookup(ctx, id)
	return conn, m, err
}
