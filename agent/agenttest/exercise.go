package agenttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// Subject is an agent and what it can be asked for.
type Subject struct {
	Agent  actor.Ref[agent.Agent] // bound to Client
	Client *actor.Proc
	// New is a resource that comes to run; each call a fresh one, where the agent can have many.
	New func(t *testing.T) agent.Creation
	// ID is the name of what a creation makes.
	ID func(agent.Creation) string
	// Other is the same ID with another spec; nil: the agent has one spec and no other.
	Other func(agent.Creation) agent.Creation
	// Failing is a resource that fails to start; nil: it cannot be told to.
	Failing func(t *testing.T) agent.Creation
	// Again says that the same ID can be created anew after a stop.
	Again bool
	// Leases says that resources have leases of their own.
	Leases bool
}

// subject is a Subject in a test.
type subject struct {
	Subject
	t   *testing.T
	ctx context.Context
}

// Exercise shows the promises of package agent of an agent.
func Exercise(t *testing.T, fresh func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		run  func(subject)
	}{
		{"AGT1_theSameSpecAgainChangesNothingAnotherIsAConflict", subject.idempotence},
		{"AGT1_whatFailedToStartStaysOnRecordUntilItIsStopped", subject.failure},
		{"AGT3_whatNoAgentHoldsCannotBeWaitedFor", subject.impossible},
		{"AGT4_whatIsUnknownIsAnEmptyAnswer", subject.unknown},
		{"AGT5_waitsAnswerBeforeTheAskerGivesUp", subject.patience},
		{"AGT6_whatWasStoppedMayBeMadeAgainAsTheNextGeneration", subject.generations},
		{"AGT7_aLeaseThatNobodyRenewsEndsTheResource", subject.leases},
		{"AGT8_stopAllStopsEverythingAndTakesNoMore", subject.stopAll},
		{"AGT9_aStreamBeginsWithHowThingsAreAndHasEveryChange", subject.stream},
		{"stopIsAnsweredWhenAllHasEndedAndAsOftenAsItIsAsked", subject.stop},
		{"pingIsAnswered", subject.ping},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			c.run(subject{fresh(t), t, ctx})
		})
	}
}

// create makes a resource and waits until it runs.
func (s subject) create() (agent.Creation, string) {
	c := s.New(s.t)
	id := s.ID(c)
	_, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	s.awaits(id, agent.Running)
	return c, id
}

func (s subject) awaits(id string, p agent.Phase) {
	s.t.Helper()
	o, err := agent.Wait.Call(s.ctx, s.Agent, agent.Waiting{ID: id, Until: p})
	require.NoError(s.t, err)
	s.all(o, p)
}

// all requires that an overlay says one phase of at least one rank, and nothing else.
func (s subject) all(o agent.Overlay, p agent.Phase) {
	s.t.Helper()
	require.NotEmpty(s.t, o)
	for _, run := range o {
		require.Equal(s.t, p, run.Status.Phase, "%v", o)
	}
}

func (s subject) states(id string) []agent.State {
	s.t.Helper()
	states, err := agent.Get.Call(s.ctx, s.Agent, agent.Query{ID: id})
	require.NoError(s.t, err)
	return states
}

func (s subject) halt(id string) agent.Overlay {
	s.t.Helper()
	o, err := agent.Stop.Call(s.ctx, s.Agent, agent.Stopping{ID: id, Reason: "enough", Grace: 5 * time.Second})
	require.NoError(s.t, err)
	return o
}

func (s subject) idempotence() {
	c, id := s.create()
	before := s.states(id)
	o, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	s.all(o, agent.Running)
	require.Equal(s.t, before[0].Generation, s.states(id)[0].Generation, "nothing has changed")
	if s.Other == nil {
		return
	}
	_, err = agent.Create.Call(s.ctx, s.Agent, s.Other(c))
	require.ErrorContains(s.t, err, id+" exists already with another spec")
	s.all(s.overlay(id), agent.Running)
}

func (s subject) overlay(id string) agent.Overlay {
	s.t.Helper()
	o, err := agent.Wait.Call(s.ctx, s.Agent, agent.Waiting{ID: id, Until: agent.NotExist, Every: agent.In(agent.Initializing, agent.Running, agent.ShuttingDown, agent.Stopped, agent.Failed)})
	require.NoError(s.t, err)
	return o
}

func (s subject) failure() {
	if s.Failing == nil {
		return
	}
	c := s.Failing(s.t)
	id := s.ID(c)
	c.Wait = true
	o, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err, "what fails is recorded, and no error of the request")
	s.all(o, agent.Failed)
	require.NotEmpty(s.t, o[0].Status.Reason)
	o, err = agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	s.all(o, agent.Failed)
	require.Zero(s.t, s.states(id)[0].Gen)
	some, err := agent.Wait.Call(s.ctx, s.Agent, agent.Waiting{ID: id, Some: agent.In(agent.Failed)})
	require.NoError(s.t, err)
	s.all(some, agent.Failed)
	s.all(s.halt(id), agent.Failed)
	if s.Again {
		_, err = agent.Create.Call(s.ctx, s.Agent, c)
		require.NoError(s.t, err)
		require.Equal(s.t, 1, s.states(id)[0].Gen, "another try says that it is one")
	}
}

func (s subject) impossible() {
	_, id := s.create()
	for _, w := range []agent.Waiting{
		{ID: id, Until: agent.Timeout}, {ID: id, Until: agent.Unknown}, {ID: id, Some: agent.In(agent.Timeout)}, {ID: id, Every: agent.In(agent.NotExist)},
	} {
		_, err := agent.Wait.Call(s.ctx, s.Agent, w)
		require.ErrorContains(s.t, err, "that a rank can be in", "%+v", w)
	}
}

func (s subject) unknown() {
	const nobody = "nobody-000000000000n"
	_, id := s.create()
	require.Empty(s.t, s.states(nobody))
	for name, ask := range map[string]func(id string) (agent.Overlay, error){
		"wait": func(id string) (agent.Overlay, error) {
			return agent.Wait.Call(s.ctx, s.Agent, agent.Waiting{ID: id, Until: agent.Running})
		},
		"stop": func(id string) (agent.Overlay, error) {
			return agent.Stop.Call(s.ctx, s.Agent, agent.Stopping{ID: id})
		},
		"keepalive": func(id string) (agent.Overlay, error) {
			return agent.Keepalive.Call(s.ctx, s.Agent, agent.Lease{ID: id, For: time.Minute})
		},
	} {
		for _, other := range []string{nobody, "", id + "0"} {
			o, err := ask(other)
			require.NoError(s.t, err, "%s of %q", name, other)
			require.Empty(s.t, o, "%s of %q", name, other)
			s.all(s.overlay(id), agent.Running)
		}
	}
	port := actor.OpenPort[actor.Event](s.Client)
	defer port.Close()
	_, err := agent.Streaming.Call(s.ctx, s.Agent, agent.Stream{ID: nobody, To: port.Ref()})
	require.NoError(s.t, err)
	e, err := port.Recv(s.ctx)
	require.NoError(s.t, err)
	require.Equal(s.t, agent.NotExist.String(), e.Status)
}

func (s subject) patience() {
	_, id := s.create()
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	o, err := agent.Wait.Call(ctx, s.Agent, agent.Waiting{ID: id, Until: agent.Stopped})
	require.NoError(s.t, err, "with the statuses as they are")
	s.all(o, agent.Running)
}

func (s subject) generations() {
	if !s.Again {
		return
	}
	c, id := s.create()
	ahead := c
	ahead.Gen = 5
	_, err := agent.Create.Call(s.ctx, s.Agent, ahead)
	require.ErrorContains(s.t, err, "generation 0 is still running")
	s.halt(id)
	c.Wait = true
	o, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	s.all(o, agent.Running)
	require.Equal(s.t, 1, s.states(id)[0].Gen)
	s.halt(id)
	ahead.Wait = true
	o, err = agent.Create.Call(s.ctx, s.Agent, ahead)
	require.NoError(s.t, err)
	s.all(o, agent.Running)
	require.Equal(s.t, 5, s.states(id)[0].Gen)
	behind := c
	behind.Gen = 2
	_, err = agent.Create.Call(s.ctx, s.Agent, behind)
	require.ErrorContains(s.t, err, "generation 2 was asked for, which is over: it has had generation 5")
	s.all(s.overlay(id), agent.Running)
}

func (s subject) leases() {
	if !s.Leases {
		return
	}
	c := s.New(s.t)
	id := s.ID(c)
	c.Lease, c.Wait = time.Second, true
	_, err := agent.Create.Call(s.ctx, s.Agent, c)
	require.NoError(s.t, err)
	for range 4 { // longer than the lease
		o, err := agent.Keepalive.Call(s.ctx, s.Agent, agent.Lease{ID: id, For: time.Second})
		require.NoError(s.t, err)
		s.all(o, agent.Running)
		time.Sleep(300 * time.Millisecond)
	}
	port := actor.OpenPort[actor.Event](s.Client)
	defer port.Close()
	_, err = agent.Streaming.Call(s.ctx, s.Agent, agent.Stream{ID: id, To: port.Ref()})
	require.NoError(s.t, err)
	s.awaits(id, agent.Stopped)
	require.Contains(s.t, s.overlay(id)[0].Status.Reason, "orphaned: its owner was silent for ")
	for e := (actor.Event{}); !e.Terminal(); { // its subscribers hear of it
		e, err = port.Recv(s.ctx)
		require.NoError(s.t, err)
		require.Equal(s.t, e.Terminal(), e.Status == agent.Stopped.String())
	}
	if s.Other == nil {
		return
	}
	for _, bad := range []error{
		second(agent.Keepalive.Call(s.ctx, s.Agent, agent.Lease{ID: id, For: -1})),
		second(agent.Create.Call(s.ctx, s.Agent, agent.Creation{Procs: c.Procs, Actors: c.Actors, Lease: -1})),
	} {
		require.ErrorContains(s.t, bad, "lease of -1ns")
	}
}

func second[T any](_ T, err error) error { return err }

func (s subject) stop() {
	_, id := s.create()
	s.all(s.halt(id), agent.Stopped)
	o := s.halt(id)
	s.all(o, agent.Stopped)
	require.Equal(s.t, "enough", o[0].Status.Reason)
}

func (s subject) stopAll() {
	c, id := s.create()
	n := len(s.states(id))
	sum, err := agent.StopAll.Call(s.ctx, s.Agent, agent.StoppingAll{Reason: "closing", Grace: 5 * time.Second})
	require.NoError(s.t, err)
	require.Equal(s.t, n, sum.Asked)
	require.Equal(s.t, n, sum.Ended)
	require.Empty(s.t, sum.Left)
	if s.Other != nil {
		c = s.New(s.t)
	}
	_, err = agent.Create.Call(s.ctx, s.Agent, c)
	require.Error(s.t, err, "it takes no more, or is gone already")
}

func (s subject) stream() {
	_, id := s.create()
	n := len(s.states(id))
	port := actor.OpenPort[actor.Event](s.Client)
	defer port.Close()
	_, err := agent.Streaming.Call(s.ctx, s.Agent, agent.Stream{ID: id})
	require.Error(s.t, err, "to nowhere")
	for range 2 { // the second time it is told nothing again
		_, err = agent.Streaming.Call(s.ctx, s.Agent, agent.Stream{ID: id, To: port.Ref()})
		require.NoError(s.t, err)
	}
	s.halt(id)
	heard := map[int][]string{}
	for ended := 0; ended < n; {
		e, err := port.Recv(s.ctx)
		require.NoError(s.t, err)
		heard[e.Rank] = append(heard[e.Rank], e.Status)
		if e.Terminal() {
			ended++
		}
	}
	require.Len(s.t, heard, n)
	for rank, h := range heard {
		require.Equal(s.t, agent.Stopped.String(), h[len(h)-1], "rank %d: %v", rank, h)
		if s.Other != nil { // a controller tells of ends alone
			require.Equal(s.t, []string{"running", "stopping", "stopped"}, h, "rank %d", rank)
		}
	}
	_, err = agent.Streaming.Call(s.ctx, s.Agent, agent.Stream{To: port.Ref(), End: true})
	require.NoError(s.t, err)
}

func (s subject) ping() {
	_, err := agent.Ping.Call(s.ctx, s.Agent, actor.None{})
	require.NoError(s.t, err)
}
