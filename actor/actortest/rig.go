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

// Timeout bounds every wait of this package; only failing tests reach it. In a bubble it is virtual
// time.
const Timeout = 20 * time.Second

// maxKept bounds the entries of a Recorder and a Rig.
const maxKept = 1 << 16

// Rig is a proc for the actors of one test. It starts when something of it is first needed.
type Rig struct {
	t      testing.TB
	shared *sharedRig
	tested []string // actors of Spawn, which end before the probes do
	defs   []actor.Def
	probes []func() actor.Def // their endpoints are known when the proc starts
	proc   *actor.Proc        // nil: it has not started

	mu           sync.Mutex // guards the fields below
	events       []actor.Event
	eventDropped bool            // an event was dropped
	failures     []actor.Event   // of actors without a parent
	expected     map[string]bool // actors with expected failures
	spawned      []string        // actors the test spawned, probes included
}

// sharedRig is the part shared by the rigs of one test.
type sharedRig struct {
	srv        *embed.Server
	log        *testLog
	inSynctest bool // the test runs in a testing/synctest bubble
	rigs       []*Rig
	held       heldReplies
	ended      bool // the test has ended
}

// New creates a rig with these defs. It ends with the test: its actors stop, and the test fails if
// one of them does not, or has failed unexpectedly.
func New(t testing.TB, defs ...actor.Def) *Rig {
	t.Helper()
	s := &sharedRig{srv: bustest.Server(t), log: &testLog{t: t}, inSynctest: inSynctest()}
	t.Cleanup(s.log.close) // after all log lines
	return s.rig(t, defs)
}

// Peer is a second proc on the same server: messages between the two are encoded and cross the bus.
// It knows the defs of the rig, and those given here.
func (r *Rig) Peer(defs ...actor.Def) *Rig {
	r.t.Helper()
	return r.shared.rig(r.t, append(append([]actor.Def(nil), r.defs...), defs...))
}

func (s *sharedRig) rig(t testing.TB, defs []actor.Def) *Rig {
	t.Helper()
	_, err := actor.NewRegistry(defs...)
	require.NoError(t, err)
	r := &Rig{t: t, shared: s, defs: defs, expected: map[string]bool{}}
	s.rigs = append(s.rigs, r)
	t.Cleanup(r.failOnUnexpected) // once its proc is closed
	return r
}

// Proc returns the rig's proc, and starts it on the first call; no more probes can be added then.
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
		ID: id.Proc(), Bus: bustest.Open(r.t, r.shared.srv), Registry: registry, Coordinator: r.recordFailure,
		Log: zerolog.New(zerolog.ConsoleWriter{
			Out: r.shared.log, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName},
		}).Level(zerolog.InfoLevel),
	})
	require.NoError(r.t, err)
	p.Observe(r.recordEvent)
	r.t.Cleanup(func() {
		r.shared.stopTested()
		ctx, cancel := endContext()
		defer cancel()
		if err := p.Close(ctx); err != nil { // KIT-1
			r.t.Errorf("actortest: %v", err)
		}
	})
	r.proc = p
	return p
}

// endContext bounds one half of the end of a test, whose own context is done by then.
func endContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), Timeout/2)
}

// stopTested stops the actors under test, while their probes still answer. Proc.Close stops the
// rest.
func (s *sharedRig) stopTested() {
	if s.ended {
		return
	}
	s.ended = true
	s.held.cancelAll()
	ctx, cancel := endContext()
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

// Spawn creates an actor of one of the rig's types, without a parent and under the name of its
// type, and waits for its constructor. An error ends the test. If the constructor is to fail, use
// actor.Spawn with the rig's Proc.
func Spawn[A, P any](r *Rig, typ actor.Type[A, P], params P, opts ...actor.Option) actor.Ref[A] {
	r.t.Helper()
	ref := spawn(r, typ, params, opts)
	r.tested = append(r.tested, ref.ID().Name)
	return ref
}

func spawn[A, P any](r *Rig, typ actor.Type[A, P], params P, opts []actor.Option) actor.Ref[A] {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), Timeout)
	defer cancel()
	ref, err := actor.Spawn(ctx, r.Proc(), typ, typ.Name(), params, opts...)
	require.NoError(r.t, err, "spawn")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spawned = append(r.spawned, ref.ID().Name)
	return ref
}
