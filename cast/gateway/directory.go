package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

const (
	maxEntries = 1024            // meshes that the directory knows
	maxAge     = 5 * time.Second // after which an entry is looked up anew, in the background
	minAge     = time.Second     // before which it is not, whatever dies, and whether or not that succeeds
	// lookEvery is the time between two looks at what has been looked at: else everybody who asks for what is
	// not there would have all hosts and procs asked. Who asks meanwhile waits for the next.
	lookEvery  = 50 * time.Millisecond
	maxLooks   = 8            // meshes at a time whose procs are asked
	maxWaiting = 2 * maxCasts // looks that wait for those: casts may have given them up
	lookWithin = 10 * time.Second
	// rosterWithin is how long the procs of a mesh may take to say what runs there: a silent one is not waited
	// for, the others know as well.
	rosterWithin = time.Second
)

// finder looks at what lives.
type finder interface {
	Meshes(ctx context.Context) ([]mesh.MeshState, error) // of every host, which takes its time
	Known(ctx context.Context) ([]mesh.MeshState, error)  // of those that are known, if these are all
	Among(all []mesh.MeshState, name string) (mesh.ProcMesh, error)
}

// entry is what is known of the mesh of one name.
type entry struct {
	procs  mesh.ProcMesh
	roster mesh.Roster
	at     time.Time // when it was asked for

	next time.Time // when a cast has it looked up anew; guarded by the directory
}

// survey is one look at all meshes, for whoever looks for one.
type survey struct {
	at   time.Time
	done chan struct{} // closed once the rest is set
	all  []mesh.MeshState
	err  error
}

// look is one look at a name, which several may wait for.
type look struct {
	at   time.Time
	done chan struct{} // closed once the rest is set
	e    *entry
	err  error
}

// directory keeps the meshes that casts went to, so that the next one asks nobody (GW-5).
type directory struct {
	net   finder
	gone  func(*entry) bool // no rank of it lives
	spawn func(func(context.Context)) bool
	slots chan struct{}

	mu      sync.Mutex // guards all below
	entries map[string]*entry
	looks   map[string]*look
	waiting int     // looks that are not done
	known   *survey // of the hosts that are known; nil: none so far
	every   *survey // of all hosts
}

func newDirectory(net finder, gone func(*entry) bool, spawn func(func(context.Context)) bool) *directory {
	return &directory{
		net: net, gone: gone, spawn: spawn, slots: make(chan struct{}, maxLooks),
		entries: map[string]*entry{}, looks: map[string]*look{},
	}
}

// find is the entry of a name that was asked for after a time; the zero time takes what there is.
func (d *directory) find(ctx context.Context, name string, after time.Time) (*entry, error) {
	d.mu.Lock()
	if e := d.entries[name]; e != nil && !e.at.Before(after) && !d.gone(e) {
		if now := time.Now(); now.After(e.next) && d.looks[name] == nil {
			e.next = now.Add(minAge)
			d.lookLocked(name, false)
		}
		d.mu.Unlock()
		return e, nil
	}
	l := d.looks[name]
	if l == nil || l.at.Before(after) {
		l = d.lookLocked(name, true)
	}
	d.mu.Unlock()
	select {
	case <-l.done:
		return l.e, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lookLocked starts a look, which is soon over if somebody waits for it.
func (d *directory) lookLocked(name string, soon bool) *look {
	l := &look{at: time.Now(), done: make(chan struct{})}
	if old := d.entries[name]; old != nil {
		l.at = notBefore(old.at.Add(lookEvery))
	}
	if d.waiting >= maxWaiting {
		l.err = &actor.Error{Code: actor.CodeUnavailable, Text: fmt.Sprintf("this gateway looks for %d meshes at once already", maxWaiting)}
		close(l.done)
		return l
	}
	d.looks[name] = l
	d.waiting++
	run := func(ctx context.Context) {
		l.e, l.err = d.look(ctx, name, l.at, soon)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.waiting--
		switch old := d.entries[name]; {
		case l.e != nil && (old == nil || old.at.Before(l.e.at)):
			d.keepLocked(name, l.e)
		case old != nil && old.at.Before(l.at) && isAnswer(l.err): // else it could not be found out
			delete(d.entries, name)
		}
		if d.looks[name] == l {
			delete(d.looks, name)
		}
		close(l.done)
	}
	if !d.spawn(run) {
		delete(d.looks, name)
		d.waiting--
		l.err = errClosing
		close(l.done)
	}
	return l
}

// isAnswer tells that a look has found that a name stands for nothing, or for several things.
func isAnswer(err error) bool { return isA[*mesh.NotFoundError](err) || isA[*mesh.AmbiguousError](err) }

// look finds a mesh and asks its procs what runs there.
func (d *directory) look(ctx context.Context, name string, at time.Time, soon bool) (*entry, error) {
	sleepUntil(ctx, at)
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	s, procs, err := d.among(ctx, name, at, soon)
	if err != nil {
		return nil, err
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, enough := context.WithTimeout(ctx, rosterWithin)
	defer enough()
	roster, err := procs.Roster(ctx)
	if err != nil {
		return nil, err
	}
	return &entry{procs: procs, roster: roster, at: s.at}, nil
}

// among finds a mesh: that there is no such thing is the word of all hosts alone.
func (d *directory) among(ctx context.Context, name string, at time.Time, soon bool) (*survey, mesh.ProcMesh, error) {
	if soon {
		if s, err := d.survey(ctx, &d.known, d.net.Known, at); err == nil {
			if procs, err := d.net.Among(s.all, name); err == nil {
				return s, procs, nil
			}
		}
	}
	s, err := d.survey(ctx, &d.every, d.net.Meshes, at)
	if err != nil {
		return nil, mesh.ProcMesh{}, err
	}
	procs, err := d.net.Among(s.all, name)
	return s, procs, err
}

// survey is what lives, as asked for after a time: what is there by then is not missed. Hosts are asked by
// one at a time, for all who wait.
func (d *directory) survey(
	ctx context.Context, last **survey, ask func(context.Context) ([]mesh.MeshState, error), after time.Time,
) (*survey, error) {
	for {
		d.mu.Lock()
		s, mine := *last, false
		if s == nil || s.isDone() && s.at.Before(after) {
			next := &survey{at: time.Now(), done: make(chan struct{})}
			if s != nil {
				next.at = notBefore(s.at.Add(lookEvery))
			}
			s, mine, *last = next, true, next
		}
		d.mu.Unlock()
		if mine {
			sleepUntil(ctx, s.at)
			s.all, s.err = ask(ctx)
			if s.err != nil && ctx.Err() == nil && last == &d.every { // somebody died while he was asked
				s.all, s.err = ask(ctx)
			}
			close(s.done)
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !s.at.Before(after) {
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

func (s *survey) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// keepLocked keeps an entry, in place of the oldest when there are too many.
func (d *directory) keepLocked(name string, e *entry) {
	if old := d.entries[name]; old == nil && len(d.entries) >= maxEntries {
		oldest := ""
		for other, o := range d.entries {
			if oldest == "" || o.at.Before(d.entries[oldest].at) {
				oldest = other
			}
		}
		delete(d.entries, oldest)
	}
	e.next = e.at.Add(maxAge)
	d.entries[name] = e
}

// age makes the entries of a mesh old, for something in it has died: who asks next takes what there is,
// and it is looked up anew, once a second at most.
func (d *directory) age(id subjects.MeshID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if soon := e.at.Add(minAge); e.procs.ID() == id && soon.Before(e.next) && e.next.Sub(e.at) == maxAge {
			e.next = soon
		}
	}
}

// target is the actors that a request is for.
func (e *entry) target(r request) (to mesh.ActorMesh[any], info agent.ActorInfo, err error) {
	full, err := e.roster.Find(r.actor)
	if err != nil {
		return to, info, err
	}
	return mesh.On[any](e.procs, full), e.roster.Actors[full], nil
}

// notThere puts what a look found into the words of an answer.
func notThere(err error) error {
	switch {
	case isA[*mesh.NotFoundError](err):
		return &actor.Error{Code: actor.CodeNoActor, Text: err.Error()}
	case isA[*mesh.AmbiguousError](err):
		return bad("%v", err)
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
