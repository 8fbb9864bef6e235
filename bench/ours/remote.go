package ours

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bench/remote"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

var (
	sinks = actor.NewType[*sink, actor.None]("sink")
	tell  = actor.NewEndpoint[*sink, []byte, actor.None]("tell")
	ask   = actor.NewEndpoint[*sink, []byte, []byte]("ask")
	count = actor.NewEndpoint[*sink, actor.None, int]("count")
)

// sink counts its messages, perhaps with other actors, and answers a call with the same bytes.
type sink struct{ told *atomic.Int64 }

func (s *sink) tell(*actor.Context, []byte) (none actor.None, _ error) {
	s.told.Add(1)
	return none, nil
}

func (*sink) ask(_ *actor.Context, m []byte) ([]byte, error) { return m, nil }

func (s *sink) count(*actor.Context, actor.None) (int, error) { return int(s.told.Load()), nil }

// Remote is castnet between two processes on that server, or on one in each.
func Remote(o server.Options) remote.Library {
	return remote.Library{
		Receive: func(ctx context.Context) (remote.Receiver, error) { return newReceiver(ctx, o) },
		Send: func(ctx context.Context, address string) (remote.Sender,
			error) {
			return newSender(ctx, o, address)
		},
	}
}

// end is a proc and what it stands on.
type end struct {
	server *server.Server
	bus    *bus.Bus
	proc   *actor.Proc
}

func newEnd(ctx context.Context, o server.Options) (*end, error) {
	return newEndOf(ctx, o, Unbounded, new(atomic.Int64))
}

// newEndOf starts an end whose actors count their messages in told.
func newEndOf(ctx context.Context, o server.Options, users Users, told *atomic.Int64) (*end, error) {
	e := &end{}
	if err := e.start(ctx, o, users, told); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return e, nil
}

func (e *end) start(ctx context.Context, o server.Options, users Users, told *atomic.Int64) error {
	s, err := server.Open(ctx, o)
	if err != nil {
		return err
	}
	e.server = s
	id, err := subjects.NewHostID("bench")
	if err != nil {
		return err
	}
	principal := subjects.Proc.Principal("bench")
	e.bus, err = users.open(ctx, s.Bus(), subjects.User{Principal: principal, Process: id.Proc().Process()})
	if err != nil {
		return err
	}
	newSink := func(*actor.Context, actor.None) (*sink, error) { return &sink{told}, nil }
	registry, err := actor.NewRegistry(sinks.Define(newSink, tell.Handle((*sink).tell), ask.Handle((*sink).ask),
		count.Handle((*sink).count)))
	if err != nil {
		return err
	}
	e.proc, err = actor.NewProc(ctx,
		actor.Options{ID: id.Proc(), Bus: e.bus, Principal: principal, Registry: registry, Log: server.Log()})
	return err
}

func (e *end) Close(ctx context.Context) error {
	var errs []error
	if e.proc != nil {
		errs = append(errs, e.proc.Close(ctx))
	}
	if e.bus != nil {
		errs = append(errs, e.bus.Close(ctx))
	}
	if e.server != nil {
		e.server.Close()
	}
	return errors.Join(errs...)
}

type receiver struct {
	*end
	id subjects.ActorID
}

func newReceiver(ctx context.Context, o server.Options) (*receiver, error) {
	e, err := newEnd(ctx, o)
	if err != nil {
		return nil, err
	}
	ref, err := actor.Spawn(ctx, e.proc, sinks, "sink", actor.None{})
	if err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return &receiver{e, ref.ID()}, nil
}

// Address is where the server is, and the actor's ID.
func (r *receiver) Address() string { return r.server.URL() + " " + r.id.String() }

type sender struct {
	*end
	to actor.Ref[*sink]
}

// newSender connects to the server the receiver is on, unless it has a server of its own.
func newSender(ctx context.Context, o server.Options, address string) (*sender, error) {
	url, text, _ := strings.Cut(address, " ")
	id, err := subjects.ParseActorID(text)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", address, err)
	}
	if o.ConfigFile == "" {
		o.URL = url
	}
	e, err := newEnd(ctx, o)
	if err != nil {
		return nil, err
	}
	return &sender{e, actor.RefOf[*sink](id).Via(e.proc)}, nil
}

func (s *sender) Tell(ctx context.Context, m []byte) error { return tell.SendWait(ctx, s.to, m) }

func (s *sender) Flush(ctx context.Context) error { return s.proc.Flush(ctx) }

func (s *sender) Count(ctx context.Context) (int, error) { return count.Call(ctx, s.to, actor.None{}) }

func (s *sender) Ask(ctx context.Context, m []byte) ([]byte, error) { return ask.Call(ctx, s.to, m) }
