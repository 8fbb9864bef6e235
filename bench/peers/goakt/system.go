package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tochemey/goakt/v4/actor"
	"github.com/tochemey/goakt/v4/log"

	"github.com/castnet-io/castnet/bench/local"
)

// system is an actor system.
type system struct {
	actor.ActorSystem
	fault   local.Fault
	sender  *actor.PID // sends for code that is not an actor
	spawned int
}

func newSystem(ctx context.Context, fault local.Fault) (local.System, error) {
	s, err := actor.NewActorSystem("bench", actor.WithLogger(log.DiscardLogger),
		actor.WithActorInitMaxRetries(1))
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	sender, err := s.Spawn(ctx, "sender", &cell{behavior: nothing{}})
	if err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	return &system{ActorSystem: s, fault: fault, sender: sender}, nil
}

func (s *system) Spawn(b local.Behavior) local.Ref {
	s.spawned++
	pid, err := s.ActorSystem.Spawn(context.Background(), "cell-"+strconv.Itoa(s.spawned), &cell{behavior: b})
	if err != nil {
		s.fault(fmt.Errorf("spawn: %w", err))
	}
	return pid
}

func (s *system) Tell(to local.Ref, m any) {
	if err := s.sender.Tell(context.Background(), to.(*actor.PID), m); err != nil {
		s.fault(fmt.Errorf("tell: %w", err))
	}
}

func (s *system) Ask(to local.Ref, m any) any {
	answer, err := s.sender.Ask(context.Background(), to.(*actor.PID), m, local.Patience)
	if err != nil {
		s.fault(fmt.Errorf("ask: %w", err))
	}
	return answer
}

func (s *system) Close(ctx context.Context) error { return s.Stop(ctx) }

// cell is an actor. It is also the local.Context of its own handler.
type cell struct {
	behavior local.Behavior
	ctx      *actor.ReceiveContext
}

func (c *cell) PreStart(*actor.Context) error {
	c.behavior.Started()
	return nil
}

func (c *cell) Receive(ctx *actor.ReceiveContext) {
	if _, started := ctx.Message().(*actor.PostStart); started {
		return
	}
	c.ctx = ctx
	if answer := c.behavior.Receive(c, ctx.Message()); answer != nil {
		ctx.Response(answer)
	}
}

func (c *cell) PostStop(*actor.Context) error { return nil }

func (c *cell) Tell(to local.Ref, m any) { c.ctx.Tell(to.(*actor.PID), m) }

func (c *cell) Stop() { c.ctx.Shutdown() }

// nothing is what the sender does.
type nothing struct{}

func (nothing) Started() {}

func (nothing) Receive(local.Context, any) any { return nil }
