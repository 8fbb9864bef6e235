package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/anthdm/hollywood/actor"
	hollywood "github.com/anthdm/hollywood/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/remote"
)

// readBuffer is room for a batch of its writer, 4,096 messages of 1 KiB, which comes to the
// default.
const readBuffer = 64 << 20

// The kinds and IDs of the receiver's actors: who counts, and who answers.
const (
	sinkKind = "sink"
	echoKind = "echo"
	onlyID   = "1"
)

func library() remote.Library {
	return remote.Library{
		Receive: func(context.Context) (remote.Receiver, error) {
			e, err := newEnd()
			if err != nil {
				return nil, err
			}
			e.engine.Spawn(func() actor.Receiver { return &sink{} }, sinkKind, actor.WithID(onlyID))
			e.engine.Spawn(func() actor.Receiver { return echo{} }, echoKind, actor.WithID(onlyID))
			return e, nil
		},
		Send: func(_ context.Context, address string) (remote.Sender, error) {
			e, err := newEnd()
			if err != nil {
				return nil, err
			}
			id := func(kind string) *actor.PID { return actor.NewPID(address, kind+"/"+onlyID) }
			return &sender{end: e, sink: id(sinkKind), echo: id(echoKind)}, nil
		},
	}
}

// end is an engine that others can reach.
type end struct {
	engine *actor.Engine
	remote *hollywood.Remote
}

func newEnd() (*end, error) {
	port, err := remote.FreePort()
	if err != nil {
		return nil, err
	}
	r := hollywood.New(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		hollywood.NewConfig().WithBufferSize(readBuffer))
	engine, err := actor.NewEngine(actor.NewEngineConfig().WithRemote(r))
	return &end{engine, r}, err
}

func (e *end) Address() string { return e.remote.Address() }

func (e *end) Close(context.Context) error {
	e.remote.Stop().Wait()
	return nil
}

// sink counts messages, and says how many when it is asked for a number.
type sink struct{ told int64 }

func (s *sink) Receive(ctx *actor.Context) {
	switch ctx.Message().(type) {
	case *wrapperspb.BytesValue:
		s.told++
	case *wrapperspb.Int64Value:
		ctx.Respond(wrapperspb.Int64(s.told))
	}
}

// echo answers with what it was asked.
type echo struct{}

func (echo) Receive(ctx *actor.Context) {
	if m, ok := ctx.Message().(*wrapperspb.BytesValue); ok {
		ctx.Respond(m)
	}
}

type sender struct {
	*end
	sink, echo *actor.PID
}

func (s *sender) Tell(_ context.Context, m []byte) error {
	s.engine.Send(s.sink, wrapperspb.Bytes(m))
	return nil
}

func (s *sender) Flush(context.Context) error { return nil }

func (s *sender) Count(context.Context) (int, error) {
	answer, err := s.engine.Request(s.sink, wrapperspb.Int64(0), local.Patience).Result()
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
	answer, err := s.engine.Request(s.echo, wrapperspb.Bytes(m), local.Patience).Result()
	if err != nil {
		return nil, err
	}
	b, ok := answer.(*wrapperspb.BytesValue)
	if !ok {
		return nil, fmt.Errorf("answered with %T", answer)
	}
	return b.Value, nil
}
