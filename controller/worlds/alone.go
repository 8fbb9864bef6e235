package worlds

import (
	"context"
	"time"
)

// alone acts where nothing is saved, when nobody else does, until ctx ends.
func (s *Service) alone(ctx context.Context) {
	follows := false
	for ctx.Err() == nil && s.opts.Bus.Err() == nil {
		others, err := find(ctx, s.opts.Bus, s.opts.Space, elsewhere)
		follows = follows || len(others) > 0
		if err != nil || len(others) > 0 {
			s.pause(ctx, again)
			continue
		}
		now := s.begin(ctx, 0, follows)
		if now == nil {
			continue
		}
		if s.yields(ctx, now) {
			now.end()
			s.pause(ctx, again)
			continue
		}
		select {
		case <-now.over():
		case <-ctx.Done():
		case <-s.opts.Bus.Done():
		}
		quit := now.quit()
		now.end()
		if quit {
			return
		}
	}
}

// yields reports whether another one has begun at the same moment, and goes before this one.
func (s *Service) yields(ctx context.Context, now *running) bool {
	others, err := find(ctx, s.opts.Bus, s.opts.Space, elsewhere)
	if err != nil {
		return false
	}
	for _, o := range others {
		if o.actor.Proc.Mesh.Compare(now.proc.ID().Mesh) < 0 {
			return true
		}
	}
	return false
}

func (s *Service) pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-s.opts.Bus.Done():
	}
}
