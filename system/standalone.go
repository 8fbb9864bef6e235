package system

import (
	"context"
	"slices"
	"time"
)

// runStandalone acts without a store while no other controller does, until ctx ends.
func (s *Service) runStandalone(ctx context.Context) {
	follows := false
	for ctx.Err() == nil && s.opts.Bus.Err() == nil {
		others, err := find(ctx, s.opts.Bus, s.opts.Space)
		follows = follows || len(others) > 0
		if err != nil || len(others) > 0 {
			s.sleep(ctx, beginRetry)
			continue
		}
		now := s.tryStartTerm(ctx, 0, follows)
		if now == nil {
			continue
		}
		if s.yieldsToOther(ctx, now) {
			now.stop()
			s.sleep(ctx, beginRetry)
			continue
		}
		select {
		case <-now.done():
		case <-ctx.Done():
		case <-s.opts.Bus.Done():
		}
		quit := now.quit()
		now.stop()
		if quit {
			return
		}
	}
}

// yieldsToOther reports whether another controller started at the same time and has priority.
func (s *Service) yieldsToOther(ctx context.Context, now *activeTerm) bool {
	others, err := find(ctx, s.opts.Bus, s.opts.Space)
	return err == nil && slices.ContainsFunc(others, func(o candidate) bool {
		return o.actor.Proc.Mesh.Compare(now.proc.ID().Mesh) < 0
	})
}

func (s *Service) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-s.opts.Bus.Done():
	}
}
