package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/tochemey/goakt/v4/actor"
	"github.com/tochemey/goakt/v4/log"
	goakt "github.com/tochemey/goakt/v4/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/remote"
)

const host = "127.0.0.1"

// The names of the receiver's actors: who counts, and who answers.
const (
	sinkName = "sink"
	echoName = "echo"
)

func library() remote.Library {
	return remote.Library{
		Receive: func(ctx context.Context) (remote.Receiver, error) {
			e, err := newEnd(ctx)
			if err != nil {
				return nil, err
			}
			_, err = e.Spawn(ctx, sinkName, &sink{}, actor.WithLongLived())
			_, err2 := e.Spawn(ctx, echoName, &echo{}, actor.WithLongLived())
			return e, errors.Join(err, err2)
		},
		Send: func(ctx context.Context, address string) (remote.Sender, error) {
			e, err := newEnd(ctx)
			if err != nil {
				return nil, err
			}
			return newSender(ctx, e, address)
		},
	}
}

// end is an actor system that others can reach.
type end struct {
	actor.ActorSystem
	port int
}

func newEnd(ctx context.Context) (*end, error) {
	port, err := remote.FreePort()
	if err != nil {
		return nil, err
	}
	s, err := actor.NewActorSystem("bench", actor.WithLogger(log.DiscardLogger),
		actor.WithActorInitMaxRetries(1),
		actor.WithRemote(goakt.NewConfig(host, port)))
	if err != nil {
		return nil, err
	}
	return &end{s, port}, s.Start(ctx)
}

func (e *end) Address() string { return net.JoinHostPort(host, strconv.Itoa(e.port)) }

func (e *end) Close(ctx context.Context) error { return e.Stop(ctx) }

// idle is what actors have nothing to do for.
type idle struct{}

func (idle) PreStart(*actor.Context) error { return nil }

func (idle) PostStop(*actor.Context) error { return nil }

// sink counts messages, and says how many when it is asked for a number.
type sink struct {
	idle
	told int64
}

func (s *sink) Receive(ctx *actor.ReceiveContext) {
	switch ctx.Message().(type) {
	case *wrapperspb.BytesValue:
		s.told++
	case *wrapperspb.Int64Value:
		ctx.Response(wrapperspb.Int64(s.told))
	}
}

// echo answers with what it was asked.
type echo struct{ idle }

func (*echo) Receive(ctx *actor.ReceiveContext) {
	if m, ok := ctx.Message().(*wrapperspb.BytesValue); ok {
		ctx.Response(m)
	}
}

type sender struct {
	*end
	self, sink, echo *actor.PID
}

// newSender looks the receiver's actors up: there is no other way to their addresses.
func newSender(ctx context.Context, e *end, address string) (s *sender, err error) {
	_, digits, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(digits)
	if err != nil {
		return nil, err
	}
	s = &sender{end: e}
	s.self, err = e.Spawn(ctx, "sender", &cell{behavior: nothing{}}, actor.WithLongLived())
	if err != nil {
		return nil, err
	}
	s.sink, err = s.self.RemoteLookup(ctx, host, port, sinkName)
	if err != nil {
		return nil, err
	}
	s.echo, err = s.self.RemoteLookup(ctx, host, port, echoName)
	return s, err
}

func (s *sender) Tell(ctx context.Context, m []byte) error {
	return s.self.Tell(ctx, s.sink, wrapperspb.Bytes(m))
}

func (s *sender) Flush(context.Context) error { return nil }

func (s *sender) Count(ctx context.Context) (int, error) {
	answer, err := s.self.Ask(ctx, s.sink, wrapperspb.Int64(0), local.Patience)
	if err != nil {
		return 0, err
	}
	n, ok := answer.(*wrapperspb.Int64Value)
	if !ok {
		return 0, fmt.Errorf("answered with %T", answer)
	}
	return int(n.Value), nil
}

func (s *sender) Ask(ctx context.Context, m []byte) ([]byte, error) {
	answer, err := s.self.Ask(ctx, s.echo, wrapperspb.Bytes(m), local.Patience)
	if err != nil {
		return nil, err
	}
	b, ok := answer.(*wrapperspb.BytesValue)
	if !ok {
		return nil, fmt.Errorf("answered with %T", answer)
	}
	return b.Value, nil
}
