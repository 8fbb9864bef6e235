package main

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

const (
	restartAfter = time.Second      // a service that broke is started anew, and so is one that did not start
	startWithin  = 10 * time.Second // is how long that may take
)

// service is a gateway, or the system controller.
type service interface {
	Done() <-chan struct{} // closed when it serves nobody any more
	Err() error
	Close(context.Context) error
}

// upkeep keeps a service running: one whose bus breaks is no reason to end a host and its procs.
type upkeep struct {
	name   string
	start  func(context.Context) (service, error)
	drain  time.Duration // what it may take to end
	log    zerolog.Logger
	cancel context.CancelFunc
	closed chan error // of the last one
}

// keepUp starts a service, and others after it.
func keepUp(ctx context.Context, name string, start func(context.Context) (service, error), drain time.Duration, log zerolog.Logger) (*upkeep, error) {
	s, err := start(ctx)
	if err != nil {
		return nil, err
	}
	u := &upkeep{name: name, start: start, drain: drain, log: log, closed: make(chan error, 1)}
	ctx, u.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() { u.closed <- u.run(ctx, s) }()
	return u, nil
}

// run is over when ctx is.
func (u *upkeep) run(ctx context.Context, s service) error {
	for {
		if s != nil {
			select {
			case <-ctx.Done():
				return u.end(s)
			case <-s.Done():
			}
			u.log.Error().Err(s.Err()).Msg("the " + u.name + " is lost: starting another one")
			_ = u.end(s) // it has nothing left to lose
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartAfter):
		}
		s = u.again(ctx)
	}
}

// again starts another one; nil: there is none yet.
func (u *upkeep) again(ctx context.Context) service {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	s, err := u.start(ctx)
	if err != nil {
		u.log.Warn().Err(err).Msg("no " + u.name + " so far")
		return nil
	}
	return s
}

func (u *upkeep) end(s service) error {
	ctx, cancel := context.WithTimeout(context.Background(), u.drain)
	defer cancel()
	return s.Close(ctx)
}

// close ends the one there is, and starts no more.
func (u *upkeep) close(ctx context.Context) error {
	u.cancel()
	select {
	case err := <-u.closed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
