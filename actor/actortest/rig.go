package actortest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/subjects"
)

// Patience bounds every wait of this package; only a failing test waits so long. In a bubble it is
// virtual time.
const Patience = 20 * time.Second

// maxKept bounds what a Recorder and a Rig keep.
const maxKept = 1 << 16

// Rig is a proc for the actors of one test. It starts when something of it is first needed.
type Rig struct {
	t      testing.TB
	shared *shared
	tested []string // actors that Spawn made, which end before the probes do
	defs   []actor.Def
	probes []func() actor.Def // their endpoints are known when the proc starts
	proc   *actor.Proc        // nil: it has not started

	mu       sync.Mutex // guards the fields below
	events   []actor.Event
	full     bool            // an event was dropped
	failures []actor.Event   // of actors without a parent
	expected map[string]bool // actors that were to fail
	own      []string        // actors the test spawned, probes included
}

// shared is what the rigs of one test have in common.
type shared struct {
	srv     *embed.Server
	log     *testLog
	bubbled bool // the test runs in a testing/synctest bubble
	rigs    []*Rig
	held    held
	over    bool // the test has ended
}

// New gives a test a rig that knows the defs. It ends with the test: its actors stop, and the test
// fails when one of them does not, or has failed and was not expected to.
func New(t testing.TB, defs ...actor.Def) *Rig {
	t.Helper()
	s := &shared{srv: bustest.Server(t), log: &testLog{t: t}, bubbled: inBubble()}
	t.Cleanup(s.log.close) // after everything that logs
	return s.rig(t, defs)
}

// Peer is a second proc on the same server: messages between the two are encoded and cross the bus.
// It knows the defs of the rig, and those given here.
func (r *Rig) Peer(defs ...actor.Def) *Rig {
	r.t.Helper()
	return r.shared.rig(r.t, append(append([]actor.Def(nil), r.defs...), defs...))
}

func (s *shared) rig(t testing.TB, defs []actor.Def) *Rig {
	t.Helper()
	_, err := actor.NewRegistry(defs...)
	require.NoError(t, err)
	r := &Rig{t: t, shared: s, defs: defs, expected: map[string]bool{}}
	s.rigs = append(s.rigs, r)
	t.Cleanup(r.judge) // once its proc is closed
	return r
}

// Proc is the rig's proc, which starts now if it has not: no probe can be made for it any more.
func (r *Rig) Proc() *actor.Proc {
	r.t.Helper()
	if r.proc != nil {
		return r.proc
	}
	defs := append([]actor.Def(nil), r.defs...)
	for _, d := range r.probes {
		defs = append(defs, d())
	}
	registry, err := actor.NewRegistry(defs...)
	require.NoError(r.t, err)
	id, err := subjects.NewHostID("rig")
	require.NoError(r.t, err)
	p, err := actor.NewProc(r.t.Context(), actor.Options{
		ID: id.Proc(), Bus: bustest.Open(r.t, r.shared.srv), Registry: registry, Coordinator: r.failed,
		Log: zerolog.New(zerolog.ConsoleWriter{
			Out: r.shared.log, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName},
		}).Level(zerolog.InfoLevel),
	})
	require.NoError(r.t, err)
	p.Observe(r.happened)
	r.t.Cleanup(func() {
		r.shared.wind()
		ctx, cancel := ending()
		defer cancel()
		if err := p.Close(ctx); err != nil { // KIT-1
			r.t.Errorf("actortest: %v", err)
		}
	})
	r.proc = p
	return p
}

// ending bounds one half of the end of a test, whose own context is done by then.
func ending() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Patience/2)
}

// wind stops the actors under test, while their probes still answer. What is left is for Proc.Close.
func (s *shared) wind() {
	if s.over {
		return
	}
	s.over = true
	s.held.end()
	ctx, cancel := ending()
	defer cancel()
	for _, r := range s.rigs {
		for _, name := range slices.Backward(r.tested) {
			done := r.proc.StopActor(name, "the test ends")
			if done == nil { // it ended long ago
				continue
			}
			select {
			case <-done:
			case <-ctx.Done():
			}
		}
	}
}

// Context is the test's: it ends when the test does. Refs from Spawn speak for the client of the
// rig's proc; bind others by Via(rig.Proc()).
func (r *Rig) Context() context.Context { return r.t.Context() }

// Spawn makes an actor of a type the rig knows, without a parent and under the name of its type, and
// waits until its constructor has returned. An error ends the test: use actor.Spawn with the rig's
// Proc when the constructor is to fail.
func Spawn[A, P any](r *Rig, typ actor.Type[A, P], params P, opts ...actor.Option) actor.Ref[A] {
	r.t.Helper()
	ref := spawn(r, typ, params, opts)
	r.tested = append(r.tested, ref.ID().Name)
	return ref
}

func spawn[A, P any](r *Rig, typ actor.Type[A, P], params P, opts []actor.Option) actor.Ref[A] {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), Patience)
	defer cancel()
	ref, err := actor.Spawn(ctx, r.Proc(), typ, typ.Name(), params, opts...)
	require.NoError(r.t, err, "spawn")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = append(r.own, ref.ID().Name)
	return ref
}
