package ours

import (
	"context"
	"errors"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bench/local"
)

var (
	cells = actor.NewType[*cell, job]("cell")
	take  = actor.NewEndpoint[*cell, any, any]("take")
)

// job is what an actor is made of.
type job struct {
	behavior local.Behavior
	system   *system
}

// cell is an actor. It is also the local.Context of its own handler.
type cell struct {
	job
	ctx *actor.Context // of the message that is being handled
}

func newCell(_ *actor.Context, j job) (*cell, error) {
	j.behavior.Started()
	return &cell{job: j}, nil
}

func (c *cell) take(ctx *actor.Context, m any) (any, error) {
	c.ctx = ctx
	return c.behavior.Receive(c, m), nil
}

// Tell sends a message to another actor, from this one.
func (c *cell) Tell(to local.Ref, m any) { c.system.post(c.ctx, to, m) }

// Stop ends the actor after this message.
func (c *cell) Stop() { c.ctx.Stop("it has done its work") }

// post sends a message, and waits for room when the mailbox is full.
func (s *system) post(ctx context.Context, to local.Ref, m any) {
	ref := to.(*actor.Ref[*cell])
	err := take.Send(ctx, *ref, m)
	if errors.Is(err, actor.ErrMailboxFull) && s.ctx.Err() == nil {
		err = take.SendWait(ctx, *ref, m)
	}
	if err != nil {
		s.fault(err)
	}
}
