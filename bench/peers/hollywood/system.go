package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/anthdm/hollywood/actor"

	"github.com/castnet-io/castnet/bench/local"
)

// system is an engine.
type system struct {
	engine  *actor.Engine
	fault   local.Fault
	options []actor.OptFunc
	spawned int
}

// maker makes engines whose actors have an inbox of that size; 0 is the default.
func maker(inbox int) local.Maker {
	return func(_ context.Context, fault local.Fault) (local.System, error) {
		engine, err := actor.NewEngine(actor.NewEngineConfig())
		if err != nil {
			return nil, err
		}
		s := &system{engine: engine, fault: fault}
		if inbox > 0 {
			s.options = []actor.OptFunc{actor.WithInboxSize(inbox)}
		}
		return s, nil
	}
}

func (s *system) Spawn(b local.Behavior) local.Ref {
	s.spawned++
	options := append(s.options[:len(s.options):len(s.options)], actor.WithID(strconv.Itoa(s.spawned)))
	return s.engine.Spawn(func() actor.Receiver { return &cell{behavior: b} }, "cell", options...)
}

func (s *system) Tell(to local.Ref, m any) { s.engine.Send(to.(*actor.PID), m) }

func (s *system) Ask(to local.Ref, m any) any {
	answer, err := s.engine.Request(to.(*actor.PID), m, local.Patience).Result()
	if err != nil {
		s.fault(fmt.Errorf("ask: %w", err))
	}
	return answer
}

func (s *system) Close(context.Context) error { return nil }

// cell is an actor. It is also the local.Context of its own handler.
type cell struct {
	behavior local.Behavior
	ctx      *actor.Context
}

func (c *cell) Receive(ctx *actor.Context) {
	switch m := ctx.Message().(type) {
	case actor.Initialized, actor.Stopped:
	case actor.Started:
		c.behavior.Started()
	default:
		c.ctx = ctx
		if answer := c.behavior.Receive(c, m); answer != nil {
			ctx.Respond(answer)
		}
	}
}

func (c *cell) Tell(to local.Ref, m any) { c.ctx.Send(to.(*actor.PID), m) }

func (c *cell) Stop() { c.ctx.Engine().Poison(c.ctx.PID()) }
