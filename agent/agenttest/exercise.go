package agenttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// maxWithin bounds the time of a wait that is to end before its caller's deadline.
const maxWithin = 8 * time.Second

// Fixture is an agent under test with functions that make its requests.
type Fixture struct {
	Agent  actor.Ref[agent.Agent] // bound to Client
	Client *actor.Proc
	// New returns a resource able to reach Running. Each call returns a fresh one, if the agent can
	// have many.
	New func(t *testing.T) agent.CreateRequest
	// ID returns the resource ID of a request.
	ID func(agent.CreateRequest) string
	// Other returns the same ID with another spec; nil: the agent has one fixed spec.
	Other func(agent.CreateRequest) agent.CreateRequest
	// Failing returns a resource with a failing start; nil: none can fail.
	Failing func(t *testing.T) agent.CreateRequest
	// Recreatable enables tests that create an ID again after a stop.
	Recreatable bool
	// Leases enables tests of resource leases.
	Leases bool
}

// testCase is a Fixture in a test.
type testCase struct {
	Fixture
	t        *testing.T
	ctx      context.Context
	inBubble bool
}

// TestAgent tests an agent against the promises of package agent.
func TestAgent(t *testing.T, fresh func(t *testing.T) Fixture) {
	for _, e := range exercises() {
		t.Run(e.name, func(t *testing.T) { e.test(t, fresh, false) })
	}
}

// exercise is one test of the suite.
type exercise struct {
	name string
	run  func(testCase)
}

// test runs it against a fresh fixture.
func (e exercise) test(t *testing.T, fresh func(t *testing.T) Fixture, inBubble bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	e.run(testCase{fresh(t), t, ctx, inBubble})
}

// exercises returns the suite.
func exercises() []exercise {
	return []exercise{
		{"AGT1_theSameSpecAgainChangesNothingAnotherIsAConflict", testCase.idempotence},
		{"AGT1_whatFailedToStartStaysOnRecordUntilItIsStopped", testCase.failure},
		{"AGT3_whatNoAgentHoldsCannotBeWaitedFor", testCase.invalidWaits},
		{"AGT4_whatIsUnknownIsAnEmptyAnswer", testCase.unknownResource},
		{"AGT5_waitsAnswerBeforeTheAskerGivesUp", testCase.waitTimeout},
		{"AGT6_whatWasStoppedMayBeMadeAgainAsTheNextGeneration", testCase.generations},
		{"AGT7_aLeaseThatNobodyRenewsEndsTheResource", testCase.leases},
		{"AGT8_stopAllStopsEverythingAndTakesNoMore", testCase.stopAll},
		{"AGT9_everyEndIsOneEventAndGetHasTheLatestState", testCase.ends},
		{"stopIsAnsweredWhenAllHasEndedAndAsOftenAsItIsAsked", testCase.stop},
		{"pingIsAnswered", testCase.ping},
	}
}

// create makes a resource and waits until it runs.
func (s testCase) create() (agent.CreateRequest, string) {
	c := s.New(s.t)
	id := s.ID(c)
	_, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	s.awaitPhase(id, agent.Running)
	return c, id
}

func (s testCase) awaitPhase(id string, p agent.Phase) {
	s.t.Helper()
	o, err := agent.Wait.Call(s.ctx, s.Agent, agent.WaitRequest{ID: id, Until: p})
	require.NoError(s.t, err)
	s.requirePhase(o, p)
}

// requirePhase requires an overlay of at least one rank, all in one phase.
func (s testCase) requirePhase(o agent.Overlay, p agent.Phase) {
	s.t.Helper()
	require.NotEmpty(s.t, o)
	for _, run := range o {
		require.Equal(s.t, p, run.Status.Phase, "%v", o)
	}
}

func (s testCase) states(id string) []agent.State {
	s.t.Helper()
	states, err := agent.Get.Call(s.ctx, s.Agent, agent.GetRequest{ID: id})
	require.NoError(s.t, err)
	return states
}

func (s testCase) stopResource(id string) agent.Overlay {
	s.t.Helper()
	o, err := agent.Stop.Call(s.ctx, s.Agent,
		agent.StopRequest{ID: id, Reason: "enough", Grace: 5 * time.Second})
	require.NoError(s.t, err)
	return o
}

func (s testCase) idempotence() {
	c, id := s.create()
	before := s.states(id)
	o, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	s.requirePhase(o, agent.Running)
	require.Equal(s.t, before[0].Revision, s.states(id)[0].Revision, "nothing has changed")
	if s.Other == nil {
		return
	}
	_, err = agent.Create.Call(s.ctx, s.Agent, s.Other(c))
	require.ErrorContains(s.t, err, id+" exists already with another spec")
	s.requirePhase(s.overlay(id), agent.Running)
}

func (s testCase) overlay(id string) agent.Overlay {
	s.t.Helper()
	o, err := agent.Wait.Call(s.ctx, s.Agent,
		agent.WaitRequest{ID: id, Until: agent.Initializing})
	require.NoError(s.t, err)
	return o
}

func (s testCase) failure() {
	if s.Failing == nil {
		return
	}
	c := s.Failing(s.t)
	id := s.ID(c)
	c.Wait = true
	o, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err, "what fails is recorded, and no error of the request")
	s.requirePhase(o, agent.Failed)
	require.NotEmpty(s.t, o[0].Status.Reason)
	o, err = agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	s.requirePhase(o, agent.Failed)
	require.Zero(s.t, s.states(id)[0].Gen)
	s.requirePhase(s.stopResource(id), agent.Failed)
	if s.Recreatable {
		_, err = agent.Create.Call(s.ctx, s.Agent, c)
		require.NoError(s.t, err)
		require.Equal(s.t, 1, s.states(id)[0].Gen, "another try says that it is one")
	}
}

func (s testCase) invalidWaits() {
	_, id := s.create()
	for _, w := range []agent.WaitRequest{
		{ID: id}, {ID: id, Until: agent.Timeout}, {ID: id, Until: agent.Unknown},
	} {
		_, err := agent.Wait.Call(s.ctx, s.Agent, w)
		require.ErrorContains(s.t, err, "that a rank can be in", "%+v", w)
	}
}

func (s testCase) unknownResource() {
	const nobody = "nobody-000000000000n"
	_, id := s.create()
	require.Empty(s.t, s.states(nobody))
	for name, ask := range map[string]func(id string) (agent.Overlay, error){
		"wait": func(id string) (agent.Overlay, error) {
			return agent.Wait.Call(s.ctx, s.Agent, agent.WaitRequest{ID: id, Until: agent.Running})
		},
		"stop": func(id string) (agent.Overlay, error) {
			return agent.Stop.Call(s.ctx, s.Agent, agent.StopRequest{ID: id})
		},
		"keepalive": func(id string) (agent.Overlay, error) {
			return agent.Keepalive.Call(s.ctx, s.Agent, agent.Lease{ID: id, TTL: time.Minute})
		},
	} {
		for _, other := range []string{nobody, "", id + "0"} {
			o, err := ask(other)
			require.NoError(s.t, err, "%s of %q", name, other)
			require.Empty(s.t, o, "%s of %q", name, other)
			s.requirePhase(s.overlay(id), agent.Running)
		}
	}
}

func (s testCase) waitTimeout() {
	_, id := s.create()
	for within := time.Second; ; within *= 2 {
		ctx, cancel := context.WithTimeout(s.ctx, within)
		o, err := agent.Wait.Call(ctx, s.Agent, agent.WaitRequest{ID: id, Until: agent.Stopped})
		cancel()
		// on a busy machine request and reply may take longer than the margin of the agent
		if errors.Is(err, context.DeadlineExceeded) && !s.inBubble && within < maxWithin {
			continue
		}
		require.NoError(s.t, err, "with the statuses as they are")
		s.requirePhase(o, agent.Running)
		return
	}
}

func (s testCase) generations() {
	if !s.Recreatable {
		return
	}
	c, id := s.create()
	ahead := c
	ahead.Gen = 5
	_, err := agent.Create.Call(s.ctx, s.Agent, ahead)
	require.ErrorContains(s.t, err, "generation 0 is still running")
	s.stopResource(id)
	c.Wait = true
	o, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	s.requirePhase(o, agent.Running)
	require.Equal(s.t, 1, s.states(id)[0].Gen)
	s.stopResource(id)
	ahead.Wait = true
	o, err = agent.Create.Call(s.ctx, s.Agent, ahead)
	require.NoError(s.t, err)
	s.requirePhase(o, agent.Running)
	require.Equal(s.t, 5, s.states(id)[0].Gen)
	behind := c
	behind.Gen = 2
	_, err = agent.Create.Call(s.ctx, s.Agent, behind)
	require.ErrorContains(s.t, err, "generation 2 is over: the latest is generation 5")
	s.requirePhase(s.overlay(id), agent.Running)
}

func (s testCase) leases() {
	if !s.Leases {
		return
	}
	c := s.New(s.t)
	id := s.ID(c)
	const lease = time.Second
	c.Lease = lease
	c.Wait = true
	renewedAfter := time.Now()
	_, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	for range 4 { // longer than the lease
		asked := time.Now()
		o, err := agent.Keepalive.Call(s.ctx, s.Agent, agent.Lease{ID: id, TTL: lease})
		require.NoError(s.t, err)
		if time.Since(renewedAfter) < lease { // else the lease may have expired in between
			s.requirePhase(o, agent.Running)
		}
		renewedAfter = asked
		time.Sleep(300 * time.Millisecond)
	}
	heard := s.listen(id)
	s.awaitPhase(id, agent.Stopped)
	require.Contains(s.t, s.overlay(id)[0].Status.Reason, "orphaned: its owner was silent for ")
	e := s.next(heard)
	require.Equal(s.t, agent.Stopped.String(), e.Status)
	require.Contains(s.t, e.Reason, "orphaned")
	if s.Other == nil {
		return
	}
	for _, bad := range []error{
		errOf(agent.Keepalive.Call(s.ctx, s.Agent, agent.Lease{ID: id, TTL: -1})),
		errOf(agent.Create.Call(s.ctx, s.Agent, agent.CreateRequest{Procs: c.Procs, Actors: c.Actors, Lease: -1})),
	} {
		require.ErrorContains(s.t, bad, "lease of -1ns")
	}
}

func errOf[T any](_ T, err error) error { return err }

func (s testCase) stop() {
	_, id := s.create()
	s.requirePhase(s.stopResource(id), agent.Stopped)
	o := s.stopResource(id)
	s.requirePhase(o, agent.Stopped)
	require.Equal(s.t, "enough", o[0].Status.Reason)
}

func (s testCase) stopAll() {
	c, id := s.create()
	n := len(s.states(id))
	sum, err := agent.StopAll.Call(s.ctx, s.Agent,
		agent.StopAllRequest{Reason: "closing", Grace: 5 * time.Second})
	require.NoError(s.t, err)
	require.Equal(s.t, n, sum.Requested)
	require.Equal(s.t, n, sum.Ended)
	require.Empty(s.t, sum.Remaining)
	if s.Other != nil {
		c = s.New(s.t)
	}
	_, err = agent.Create.Call(s.ctx, s.Agent, c)
	require.Error(s.t, err, "it takes no more, or is gone already")
}

// listen returns the ends of a resource that agents publish from now on, one event for each rank.
func (s testCase) listen(id string) chan actor.Event {
	s.t.Helper()
	heard := make(chan actor.Event, 64)
	control := s.Client.Bus().Control()
	space := s.Client.Space()
	for _, filter := range []string{space.HostEvents(subjects.MeshID{}), space.Events("", subjects.MeshID{})} {
		sub, err := control.Subscribe(filter, func(m bus.Msg) {
			e, err := actor.DecodeEventFrom(space, m)
			ofIt := e.Mesh == id && e.Kind == actor.KindProc || e.Actor == id && e.Kind == actor.KindActor
			if err == nil && ofIt && e.Terminal() {
				e.Each(func(e actor.Event) { heard <- e })
			}
		})
		require.NoError(s.t, err)
		s.t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	require.NoError(s.t, control.Flush(s.ctx))
	return heard
}

func (s testCase) next(heard <-chan actor.Event) actor.Event {
	s.t.Helper()
	select {
	case e := <-heard:
		return e
	case <-s.ctx.Done():
		require.FailNow(s.t, "no event arrives")
		return actor.Event{}
	}
}

func (s testCase) ends() {
	_, id := s.create()
	n := len(s.states(id))
	heard := s.listen(id)
	for range 2 { // the second stop ends nothing
		s.stopResource(id)
	}
	if s.Other == nil { // a controller lists its decisions
		l, err := agent.ListEvents.Call(s.ctx, s.Agent, agent.ListEventsRequest{})
		require.NoError(s.t, err)
		require.False(s.t, l.More)
		heard = make(chan actor.Event, n)
		for _, run := range l.Events {
			run.Each(func(e actor.Event) { heard <- e })
		}
	}
	ended := map[int]string{}
	for range n {
		e := s.next(heard)
		require.NotContains(s.t, ended, e.Rank)
		ended[e.Rank] = e.Status
	}
	require.Len(s.t, ended, n)
	for rank, status := range ended {
		require.Equal(s.t, agent.Stopped.String(), status, "rank %d", rank)
	}
	for _, st := range s.states(id) {
		require.Equal(s.t, agent.Stopped, st.Status.Phase)
	}
	require.NoError(s.t, s.Client.Bus().Control().Flush(s.ctx))
	require.Empty(s.t, heard)
}

func (s testCase) ping() {
	_, err := agent.Ping.Call(s.ctx, s.Agent, actor.None{})
	require.NoError(s.t, err)
}
