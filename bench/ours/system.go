package ours

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/subjects"
)

// system is a proc and what it stands on.
type system struct {
	ctx    context.Context // ends with the wait for the workload
	fault  local.Fault
	server *embed.Server
	bus    *bus.Bus
	proc   *actor.Proc
}

// New starts a proc on a server of its own.
func New(ctx context.Context, fault local.Fault) (local.System, error) {
	s := &system{ctx: ctx, fault: fault}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

func (s *system) start(ctx context.Context) (err error) {
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	s.server, err = embed.Start(ctx, embed.Options{DontListen: true, Log: log})
	if err != nil {
		return err
	}
	s.bus, err = bus.Open(ctx, bus.Options{Server: s.server, Name: "bench", Log: log})
	if err != nil {
		return err
	}
	registry, err := actor.NewRegistry(cells.Define(newCell, take.Handle((*cell).take)))
	if err != nil {
		return err
	}
	id, err := subjects.NewHostID("bench")
	if err != nil {
		return err
	}
	s.proc, err = actor.NewProc(ctx, actor.Options{ID: id.Proc(), Bus: s.bus, Registry: registry, Log: log})
	return err
}

// Spawn makes an actor and does not wait for its constructor: the workloads about spawning wait for
// all of them together, and to the others it makes no difference.
func (s *system) Spawn(b local.Behavior) local.Ref {
	ref, err := actor.Spawn(context.Background(), s.proc, cells, "cell", job{b, s}, actor.NoWait())
	if err != nil {
		s.fault(fmt.Errorf("spawn: %w", err))
	}
	return &ref
}

// Tell sends a message.
func (s *system) Tell(to local.Ref, m any) { s.post(context.Background(), to, m) }

// Ask sends a message and waits for its answer.
func (s *system) Ask(to local.Ref, m any) any {
	answer, err := take.Call(context.Background(), *to.(*actor.Ref[*cell]), m)
	if err != nil {
		s.fault(err)
	}
	return answer
}

// Close stops the actors, then what they stood on.
func (s *system) Close(ctx context.Context) error {
	var errs []error
	if s.proc != nil {
		errs = append(errs, s.proc.Close(ctx))
	}
	if s.bus != nil {
		errs = append(errs, s.bus.Close(ctx))
	}
	if s.server != nil {
		s.server.Shutdown()
	}
	return errors.Join(errs...)
}
