package system

import (
	"context"
	"errors"
	"slices"
	"time"
)

// runStandalone acts without a store while no other controller does, until ctx ends. A silent
// controller may act: it starts only if the servers see none.
func (s *Service) runStandalone(ctx context.Context) {
	follows := false
	for ctx.Err() == nil && s.opts.Bus.Err() == nil {
		_, err := findFirst(ctx, s.opts.Bus.Control(), s.opts.Space)
		if !errors.Is(err, ErrNoController) {
			follows = follows || err == nil || errors.Is(err, errSilent)
			if err != nil {
				s.opts.Log.Warn().Err(err).Msg("no term begins while another system controller may act")
			}
			s.sleep(ctx, beginRetry)
			continue
		}
		now := s.tryStartTerm(ctx, 0, follows)
		if now == nil {
			continue
		}
		s.awaitEndOrOther(ctx, now)
		quit := now.quit()
		now.stop()
		if quit {
			return
		}
	}
}

// awaitEndOrOther waits until the term ends, or yields to another controller. Two that start at the
// same time see each other only later.
func (s *Service) awaitEndOrOther(ctx context.Context, now *activeTerm) {
	look := time.NewTicker(beginRetry)
	defer look.Stop()
	for !s.yieldsToOther(ctx, now) {
		select {
		case <-look.C:
		case <-now.done():
			return
		case <-ctx.Done():
			return
		case <-s.opts.Bus.Done():
			return
		}
	}
}

// yieldsToOther reports whether another controller acts that has priority.
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
