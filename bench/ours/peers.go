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
	"github.com/castnet-io/castnet/bus/signin"
	"github.com/castnet-io/castnet/subjects"
)

// Users is the kind of user of the ends of Peers.
type Users bool

const (
	// Unbounded users show the token of the server, with all permissions.
	Unbounded Users = false
	// Permitted users have a ticket each, with the permissions of a proc.
	Permitted Users = true
)

// open connects a proc.
func (u Users) open(ctx context.Context, o bus.Options, as subjects.User) (*bus.Bus, error) {
	if u == Permitted {
		var err error
		o, err = signin.As(o, subjects.Space{}, as)
		if err != nil {
			return nil, err
		}
	}
	return bus.Open(ctx, o)
}

// Peers is one process, speaking in turns with an actor in each of n others. The others share an
// OS process, but not a connection.
func Peers(o server.Options, n int, users Users) remote.Library {
	return remote.Library{
		Receive: func(ctx context.Context) (remote.Receiver, error) { return newPeers(ctx, o, n, users) },
		Send: func(ctx context.Context, address string) (remote.Sender, error) {
			return newSpeaker(ctx, o, users, address)
		},
	}
}

// peers is the n others. Their actors count their messages together.
type peers struct {
	all []*end
	ids []string
	url string
}

func newPeers(ctx context.Context, o server.Options, n int, users Users) (*peers, error) {
	p := &peers{url: o.URL}
	told := new(atomic.Int64)
	for range n {
		e, err := newEndOf(ctx, o, users, told)
		if err != nil {
			return nil, errors.Join(err, p.Close(ctx))
		}
		p.all = append(p.all, e)
		ref, err := actor.Spawn(ctx, e.proc, sinks, "sink", actor.None{})
		if err != nil {
			return nil, errors.Join(err, p.Close(ctx))
		}
		p.ids = append(p.ids, ref.ID().String())
	}
	return p, nil
}

// Address is the URL of the server, and the IDs of the actors.
func (p *peers) Address() string { return p.url + " " + strings.Join(p.ids, " ") }

func (p *peers) Close(ctx context.Context) error {
	var errs []error
	for _, e := range p.all {
		errs = append(errs, e.Close(ctx))
	}
	return errors.Join(errs...)
}

// speaker is the one process.
type speaker struct {
	*end
	to    []actor.Ref[*sink]
	told  int          // by the one telling goroutine
	asked atomic.Int64 // by many
}

func newSpeaker(ctx context.Context, o server.Options, users Users, address string) (*speaker, error) {
	words := strings.Fields(address)
	if len(words) < 2 {
		return nil, fmt.Errorf("address %q: want a URL and IDs of actors", address)
	}
	o.URL = words[0]
	e, err := newEndOf(ctx, o, users, new(atomic.Int64))
	if err != nil {
		return nil, err
	}
	s := &speaker{end: e}
	for _, text := range words[1:] {
		id, err := subjects.ParseActorID(text)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("address %q: %w", address, err), e.Close(ctx))
		}
		s.to = append(s.to, actor.RefOf[*sink](id).Via(e.proc))
	}
	return s, nil
}

func (s *speaker) Tell(ctx context.Context, m []byte) error {
	s.told++
	return tell.SendWait(ctx, s.to[s.told%len(s.to)], m)
}

func (s *speaker) Flush(ctx context.Context) error { return s.proc.Flush(ctx) }

func (s *speaker) Count(ctx context.Context) (int, error) {
	return count.Call(ctx, s.to[0], actor.None{})
}

func (s *speaker) Ask(ctx context.Context, m []byte) ([]byte, error) {
	to := s.to[int(s.asked.Add(1))%len(s.to)]
	return ask.Call(ctx, to, m)
}
