package main

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

const (
	restartDelay = time.Second      // pause before a restart, also after a failed start
	startTimeout = 10 * time.Second // bounds a start
)

// service is a gateway or the system controller.
type service interface {
	Done() <-chan struct{} // closed when it no longer serves
	Err() error
	Close(context.Context) error
}

// supervisor keeps a service running. The loss of a service's bus does not end the host and its
// procs.
type supervisor struct {
	name   string
	start  func(context.Context) (service, error)
	drain  time.Duration // time for its close
	log    zerolog.Logger
	cancel context.CancelFunc
	closed chan error // result of the last close
}

// supervise starts a service and restarts it after failures.
func supervise(ctx context.Context, name string, start func(context.Context) (service, error),
	drain time.Duration, log zerolog.Logger) (*supervisor, error) {
	s, err := start(ctx)
	if err != nil {
		return nil, err
	}
	u := &supervisor{name: name, start: start, drain: drain, log: log, closed: make(chan error, 1)}
	ctx, u.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() { u.closed <- u.run(ctx, s) }()
	return u, nil
}

// run supervises until the end of ctx.
func (u *supervisor) run(ctx context.Context, s service) error {
	for {
		if s != nil {
			select {
			case <-ctx.Done():
				return u.closeService(s)
			case <-s.Done():
			}
			u.log.Error().Err(s.Err()).Msg("the " + u.name + " is lost: starting another one")
			_ = u.closeService(s) // already broken
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartDelay):
		}
		s = u.restart(ctx)
	}
}

// restart starts the service again. It returns nil if the start fails.
func (u *supervisor) restart(ctx context.Context) service {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := u.start(ctx)
	if err != nil {
		u.log.Warn().Err(err).Msg("no " + u.name + " so far")
		return nil
	}
	return s
}

func (u *supervisor) closeService(s service) error {
	ctx, cancel := context.WithTimeout(context.Background(), u.drain)
	defer cancel()
	return s.Close(ctx)
}

// close ends the service for good.
func (u *supervisor) close(ctx context.Context) error {
	u.cancel()
	select {
	case err := <-u.closed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
