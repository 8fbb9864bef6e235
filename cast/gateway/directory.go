package gateway

import (
	"context"
	"errors"
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
	maxLooks   = 8               // looks at a time: each asks every host
	lookWithin = 10 * time.Second
	// rosterWithin is how long the procs of a mesh may take to say what runs there: a silent one is not waited
	// for, the others know as well.
	rosterWithin = time.Second
)

// finder looks at what lives. mesh.Net is one.
type finder interface {
	Find(ctx context.Context, name string) (mesh.ProcMesh, error)
}

// entry is what is known of the mesh of one name.
type entry struct {
	procs  mesh.ProcMesh
	roster mesh.Roster
	at     time.Time // when it was asked for
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
		if time.Since(e.at) > maxAge && d.looks[name] == nil {
			d.lookLocked(name)
		}
		d.mu.Unlock()
		return e, nil
	}
	l := d.looks[name]
	if l == nil || l.at.Before(after) {
		l = d.lookLocked(name)
	}
	d.mu.Unlock()
	select {
	case <-l.done:
		return l.e, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lookLocked starts a look.
func (d *directory) lookLocked(name string) *look {
	l := &look{at: time.Now(), done: make(chan struct{})}
	d.looks[name] = l
	run := func(ctx context.Context) {
		l.e, l.err = d.look(ctx, name)
		d.mu.Lock()
		defer d.mu.Unlock()
		if l.e != nil {
			d.keepLocked(name, l.e)
		} else if d.looks[name] == l {
			delete(d.entries, name)
		}
		if d.looks[name] == l {
			delete(d.looks, name)
		}
		close(l.done)
	}
	if !d.spawn(run) {
		delete(d.looks, name)
		l.err = errClosing
		close(l.done)
	}
	return l
}

// look asks, twice when somebody died while he was asked.
func (d *directory) look(ctx context.Context, name string) (*entry, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	at := time.Now()
	procs, err := d.net.Find(ctx, name)
	if err != nil && !isA[*mesh.NotFoundError](err) && ctx.Err() == nil {
		procs, err = d.net.Find(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	ctx, enough := context.WithTimeout(ctx, rosterWithin)
	defer enough()
	roster, err := procs.Roster(ctx)
	if err != nil {
		return nil, err
	}
	return &entry{procs, roster, at}, nil
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
	d.entries[name] = e
}

// age makes the entries of a mesh old, for something in it has died: who asks next takes what there is,
// and it is looked up anew.
func (d *directory) age(id subjects.MeshID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, e := range d.entries {
		if e.procs.ID() == id {
			old := *e
			old.at = e.at.Add(-2 * maxAge)
			d.entries[name] = &old
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
