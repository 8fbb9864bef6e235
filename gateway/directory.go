package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

const (
	maxEntries  = 1024            // meshes that the directory knows
	entryMaxAge = 5 * time.Second // after which an entry is refreshed, in the background
	minAge      = time.Second     // before which it is not, whatever dies, and whether or not that succeeds
	// lookupInterval is the time between two lookups of the same name or of all meshes. Without it,
	// each request for a missing mesh would query all hosts and procs. Requests in between wait for
	// the next lookup.
	lookupInterval = 50 * time.Millisecond
	maxLookups     = 8            // meshes at a time whose procs are asked
	maxWaiting     = 2 * maxCasts // looks that wait for those: casts may have given them up
	lookupTimeout  = 10 * time.Second
	// listActorsTimeout bounds the wait for the procs of a mesh to list their actors. It does not
	// wait for silent ones; the others usually know as well.
	listActorsTimeout = time.Second
)

// meshFinder finds live meshes.
type meshFinder interface {
	Inventory(ctx context.Context) (mesh.Inventory, error)   // of every host, which takes its time
	KnownMeshes(ctx context.Context) (mesh.Inventory, error) // of those that are known, if these are all
}

// entry is the cached mesh of one name.
type entry struct {
	procs  mesh.ProcMesh
	actors mesh.ActorList
	asOf   time.Time // when it was asked for

	// guarded by the directory
	refreshAt time.Time // after which a cast refreshes it
	hasDeaths bool      // ranks of it may have died
}

// meshScan is one query of all meshes, shared by all lookups.
type meshScan struct {
	startedAt time.Time
	done      chan struct{} // closed once the rest is set
	found     mesh.Inventory
	err       error
}

// pendingLookup is one lookup of a name, which several requests may wait for.
type pendingLookup struct {
	startedAt time.Time
	done      chan struct{} // closed once the rest is set
	entry     *entry
	err       error
}

// directory caches the meshes of earlier casts, so that the next one asks no host (GW-5).
type directory struct {
	net    meshFinder
	isGone func(*entry) bool // no rank of it lives
	spawn  func(func(context.Context)) bool
	slots  chan struct{}

	mu            sync.Mutex // guards all below
	entries       map[string]*entry
	lookups       map[string]*pendingLookup
	waiting       int       // looks that are not done
	lastKnownScan *meshScan // of the hosts that are known; nil: none so far
	lastFullScan  *meshScan // of all hosts
}

func newDirectory(n meshFinder, gone func(*entry) bool, spawn func(func(context.Context)) bool) *directory {
	return &directory{
		net: n, isGone: gone, spawn: spawn, slots: make(chan struct{}, maxLookups),
		entries: map[string]*entry{}, lookups: map[string]*pendingLookup{},
	}
}

// find is the entry of a name, looked up after a time; the zero time accepts a cached one.
func (d *directory) find(ctx context.Context, name string, after time.Time) (*entry, error) {
	d.mu.Lock()
	if e := d.entries[name]; e != nil && !e.asOf.Before(after) && !(e.hasDeaths && d.isGone(e)) {
		if now := time.Now(); now.After(e.refreshAt) && d.lookups[name] == nil {
			e.refreshAt = now.Add(minAge)
			d.startLookupLocked(name, false)
		}
		d.mu.Unlock()
		return e, nil
	}
	l := d.lookups[name]
	if l == nil || l.startedAt.Before(after) {
		l = d.startLookupLocked(name, true)
	}
	d.mu.Unlock()
	select {
	case <-l.done:
		return l.entry, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// startLookupLocked starts a lookup. It is short if a request waits for it.
func (d *directory) startLookupLocked(name string, soon bool) *pendingLookup {
	l := &pendingLookup{startedAt: time.Now(), done: make(chan struct{})}
	if old := d.entries[name]; old != nil {
		l.startedAt = notBefore(old.asOf.Add(lookupInterval))
	}
	if d.waiting >= maxWaiting {
		l.err = &actor.Error{Code: actor.CodeUnavailable,
			Text: fmt.Sprintf("this gateway looks for %d meshes at once already", maxWaiting)}
		close(l.done)
		return l
	}
	d.lookups[name] = l
	d.waiting++
	run := func(ctx context.Context) {
		l.entry, l.err = d.lookup(ctx, name, l.startedAt, soon)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiting--
		switch old := d.entries[name]; {
		case l.entry != nil && (old == nil || old.asOf.Before(l.entry.asOf)):
			d.storeLocked(name, l.entry)
		case old != nil && old.asOf.Before(l.startedAt) && isDefinite(l.err): // else it could not be found out
			delete(d.entries, name)
		}
		if d.lookups[name] == l {
			delete(d.lookups, name)
		}
		close(l.done)
	}
	if !d.spawn(run) {
		delete(d.lookups, name)
		d.waiting--
		l.err = errClosing
		close(l.done)
	}
	return l
}

// isDefinite reports whether a lookup proved that a name has no mesh, or several. A silent host
// that may be alive may have the mesh, and a silent proc the actor.
func isDefinite(err error) bool {
	missing, partial := errors.AsType[*mesh.MissingHostsError](err)
	return !(partial && missing.MayBeAlive()) && !isA[*cast.CoverageError](err) &&
		(isA[*mesh.NotFoundError](err) || isA[*mesh.AmbiguousError](err))
}

// lookup finds a mesh and asks its procs for their actors.
func (d *directory) lookup(ctx context.Context, name string, at time.Time, soon bool) (*entry, error) {
	sleepUntil(ctx, at)
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	s, procs, err := d.findMesh(ctx, name, at, soon)
	if err != nil {
		return nil, err
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, enough := context.WithTimeout(ctx, listActorsTimeout)
	defer enough()
	roster, err := procs.ListActors(ctx)
	if err != nil {
		return nil, err
	}
	return &entry{procs: procs, actors: roster, asOf: s.startedAt}, nil
}

// findMesh finds a mesh. It reports a mesh as missing only after a query of all hosts, and names
// the silent ones.
func (d *directory) findMesh(ctx context.Context, name string, at time.Time, soon bool) (*meshScan,
	mesh.ProcMesh, error) {
	if soon {
		if s, err := d.scan(ctx, &d.lastKnownScan, d.net.KnownMeshes, at); err == nil {
			if procs, err := s.found.Lookup(name); err == nil {
				return s, procs, nil
			}
		}
	}
	s, err := d.scan(ctx, &d.lastFullScan, d.net.Inventory, at)
	if err != nil {
		return nil, mesh.ProcMesh{}, err
	}
	procs, err := s.found.Lookup(name)
	return s, procs, err
}

// scan is the live meshes at a time or later. One goroutine queries the hosts, for all waiting
// lookups.
func (d *directory) scan(
	ctx context.Context, last **meshScan, ask func(context.Context) (mesh.Inventory, error), after time.Time,
) (*meshScan, error) {
	for {
		d.mu.Lock()
		s, mine := *last, false
		if s == nil || s.isDone() && s.startedAt.Before(after) {
			next := &meshScan{startedAt: time.Now(), done: make(chan struct{})}
			if s != nil {
				next.startedAt = notBefore(s.startedAt.Add(lookupInterval))
			}
			s, mine = next, true
			*last = next
		}
		d.mu.Unlock()
		if mine {
			sleepUntil(ctx, s.startedAt)
			s.found, s.err = ask(ctx)
			if s.err != nil && ctx.Err() == nil && last == &d.lastFullScan { // a host died during the scan
				s.found, s.err = ask(ctx)
			}
			close(s.done)
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !s.startedAt.Before(after) {
			return s, s.err
		}
	}
}

// notBefore is the time, or a later one.
func notBefore(t time.Time) time.Time {
	if now := time.Now(); now.After(t) {
		return now
	}
	return t
}

// sleepUntil waits for a time, as long as ctx lasts.
func sleepUntil(ctx context.Context, t time.Time) {
	if d := time.Until(t); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}

func (s *meshScan) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// storeLocked keeps an entry, and forgets those of ended meshes, and the oldest when there are too
// many.
func (d *directory) storeLocked(name string, e *entry) {
	maps.DeleteFunc(d.entries, func(_ string, old *entry) bool { return d.isGone(old) })
	if old := d.entries[name]; old == nil && len(d.entries) >= maxEntries {
		oldest := ""
		for other, o := range d.entries {
			if oldest == "" || o.asOf.Before(d.entries[oldest].asOf) {
				oldest = other
			}
		}
		delete(d.entries, oldest)
	}
	e.refreshAt = e.asOf.Add(entryMaxAge)
	e.hasDeaths = d.isGone(e) // later deaths follow
	d.entries[name] = e
}

// markStale makes the entries of a mesh stale after a death in it. The next request uses the stale
// entry while a new lookup runs, once a second at most.
func (d *directory) markStale(id subjects.MeshID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.procs.ID() != id {
			continue
		}
		e.hasDeaths = true
		if soon := e.asOf.Add(minAge); soon.Before(e.refreshAt) && e.refreshAt.Sub(e.asOf) == entryMaxAge {
			e.refreshAt = soon
		}
	}
}

// target is the actors addressed by a request. Agents and other actors of the runtime are not
// served (GW-7).
func (e *entry) target(r request) (to mesh.ActorMesh[any], info agent.ActorInfo, err error) {
	full, err := e.actors.Find(r.actor)
	if err != nil {
		return to, info, err
	}
	info = e.actors.Actors[full]
	if !info.Managed {
		return to, info, &actor.Error{Code: actor.CodeNoActor,
			Text: fmt.Sprintf("%s is no actor mesh: gateways serve actors that were spawned on a mesh", r.actor)}
	}
	return mesh.ActorsOn[any](e.procs, full), info, nil
}

// lookupError converts the error of a lookup to that of an answer.
func lookupError(err error) error {
	switch {
	case isDefinite(err) && isA[*mesh.NotFoundError](err):
		return &actor.Error{Code: actor.CodeNoActor, Text: err.Error()}
	case isA[*mesh.NotFoundError](err):
		return &actor.Error{Code: actor.CodeUnavailable, Text: err.Error()}
	case isA[*mesh.AmbiguousError](err):
		return badRequest("%v", err)
	case isA[*actor.Error](err), isA[*cast.CoverageError](err):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &actor.Error{Code: actor.CodeDeadline, Text: "the mesh was not found within the deadline"}
	}
	return &actor.Error{Code: actor.CodeUnavailable, Text: err.Error()}
}

func isA[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
