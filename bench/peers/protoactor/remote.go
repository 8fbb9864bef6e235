package main

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	proto "github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/remote"
)

// The names of the receiver's actors: who counts, and who answers.
const (
	sinkName = "sink"
	echoName = "echo"
)

func library() remote.Library {
	return remote.Library{
		Receive: func(context.Context) (remote.Receiver, error) {
			e := newEnd()
			for name, make := range map[string]actor.Producer{
				sinkName: func() actor.Actor { return &sink{} },
				echoName: func() actor.Actor { return echo{} },
			} {
				if _, err := e.Root.SpawnNamed(actor.PropsFromProducer(make), name); err != nil {
					return nil, err
				}
			}
			return e, nil
		},
		Send: func(_ context.Context, address string) (remote.Sender, error) {
			return &sender{newEnd(), actor.NewPID(address, sinkName), actor.NewPID(address, echoName)}, nil
		},
	}
}

// end is an actor system that others can reach.
type end struct {
	*actor.ActorSystem
	remote *proto.Remote
}

func newEnd() *end {
	s := actor.NewActorSystem(actor.WithLoggerFactory(quiet))
	r := proto.NewRemote(s, proto.Configure("127.0.0.1", 0))
	r.Start()
	return &end{s, r}
}

// Close cuts connections: to end them in order takes ten seconds.
func (e *end) Close(context.Context) error {
	e.remote.Shutdown(false)
	e.Shutdown()
	return nil
}

// sink counts messages, and says how many when it is asked for a number.
type sink struct{ told int64 }

func (s *sink) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *wrapperspb.BytesValue:
		s.told++
	case *wrapperspb.Int64Value:
		ctx.Respond(wrapperspb.Int64(s.told))
	}
}

// echo answers with what it was asked.
type echo struct{}

func (echo) Receive(ctx actor.Context) {
	if m, ok := ctx.Message().(*wrapperspb.BytesValue); ok {
		ctx.Respond(m)
	}
}

type sender struct {
	*end
	sink, echo *actor.PID
}

func (s *sender) Tell(_ context.Context, m []byte) error {
	s.Root.Send(s.sink, wrapperspb.Bytes(m))
	return nil
}

func (s *sender) Flush(context.Context) error { return nil }

func (s *sender) Count(context.Context) (int, error) {
	answer, err := s.Root.RequestFuture(s.sink, wrapperspb.Int64(0), local.Patience).Result()
	if err != nil {
		return 0, err
	}
	n, ok := answer.(*wrapperspb.Int64Value)
	if !ok {
		return 0, fmt.Errorf("answered with %T", answer)
	}
	return int(n.Value), nil
}

func (s *sender) Ask(_ context.Context, m []byte) ([]byte, error) {
	answer, err := s.Root.RequestFuture(s.echo, wrapperspb.Bytes(m), local.Patience).Result()
	if err != nil {
		return nil, err
	}
	b, ok := answer.(*wrapperspb.BytesValue)
	if !ok {
		return nil, fmt.Errorf("answered with %T", answer)
	}
	return b.Value, nil
}
