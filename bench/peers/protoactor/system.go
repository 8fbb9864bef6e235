package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/castnet-io/castnet/bench/local"
)

// system is an actor system.
type system struct {
	*actor.ActorSystem
	fault    local.Fault
	behavior local.Behavior // of the actor that was spawned last
	props    *actor.Props   // for it
}

func newSystem(_ context.Context, fault local.Fault) (local.System, error) {
	return &system{ActorSystem: actor.NewActorSystem(actor.WithLoggerFactory(quiet)), fault: fault}, nil
}

// quiet is the log of a system.
func quiet(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }

// Spawn uses the same props for actors that do the same, as they are meant to be.
func (s *system) Spawn(b local.Behavior) local.Ref {
	if s.behavior != b {
		s.behavior = b
		s.props = actor.PropsFromProducer(func() actor.Actor { return &cell{behavior: b} })
	}
	return s.Root.Spawn(s.props)
}

func (s *system) Tell(to local.Ref, m any) { s.Root.Send(to.(*actor.PID), m) }

func (s *system) Ask(to local.Ref, m any) any {
	answer, err := s.Root.RequestFuture(to.(*actor.PID), m, local.Patience).Result()
	if err != nil {
		s.fault(fmt.Errorf("ask: %w", err))
	}
	return answer
}

func (s *system) Close(context.Context) error {
	s.Shutdown()
	return nil
}

// cell is an actor. It is also the local.Context of its own handler.
type cell struct {
	behavior local.Behavior
	ctx      actor.Context
}

func (c *cell) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.behavior.Started()
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		c.ctx = ctx
		if answer := c.behavior.Receive(c, m); answer != nil {
			ctx.Respond(answer)
		}
	}
}

func (c *cell) Tell(to local.Ref, m any) { c.ctx.Send(to.(*actor.PID), m) }

func (c *cell) Stop() { c.ctx.Stop(c.ctx.Self()) }
