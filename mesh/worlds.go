package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/system"
)

// stopWorld makes the system controller stop a world and remove it. It returns an error if a member
// has not ended.
func stopWorld(ctx context.Context, p ProcMesh, reason string) error {
	name := p.desc.World.World
	if n := p.region.NumRanks(); n < p.desc.Extent.NumRanks() {
		return fmt.Errorf("cannot stop %d ranks of world %s: want all %d", n, name, p.desc.Extent.NumRanks())
	}
	ctx, cancel := withTimeout(ctx, config.MeshStopTimeout.Get(p.net.config))
	defer cancel()
	var report system.StopReport
	err := askSystem(ctx, p.net.proc, func(ctl actor.Ref[*system.Controller]) (err error) {
		for {
			report, err = requestStop(ctx, p.net.proc, ctl, name, reason)
			switch {
			case errors.Is(err, errNoWorld):
				ended, silent := haveEnded(ctx, p)
				if ended {
					return nil
				}
				if silent != nil {
					return errors.Join(err, silent)
				}
			case !errors.Is(err, errStopping):
				return err
			}
			select {
			case <-time.After(termRetry):
			case <-ctx.Done():
				return err
			}
		}
	})
	if err != nil {
		return fmt.Errorf("stop world %s: %w", name, err)
	}
	for _, w := range report.Worlds {
		if len(w.Silent) > 0 {
			return fmt.Errorf("stop world %s: no reply from %v", name, w.Silent)
		}
	}
	return nil
}

// haveEnded reports whether every proc of the region has ended. Its error names hosts that do not answer.
func haveEnded(ctx context.Context, p ProcMesh) (bool, error) {
	states, err := p.States(ctx)
	if err != nil {
		return errors.As(err, new(*NotFoundError)), nil
	}
	for rank, s := range states.Values() {
		switch {
		case s.Status.Phase == agent.Timeout:
			return false, fmt.Errorf("rank %d: %s", rank, s.Status.Reason)
		case !s.Status.Phase.Terminal():
			return false, nil
		}
	}
	return true, nil
}

var (
	errStopping = errors.New(system.SkippedStopping)
	errNoWorld  = errors.New(system.SkippedNotFound)
)

// requestStop makes one term of the system controller stop a world, and returns its report. If the
// term ends before its report, the error is that of its end. It is errStopping for a world that is
// already stopping, and errNoWorld if the term does not know the world.
func requestStop(
	ctx context.Context, p *actor.Proc, ctl actor.Ref[*system.Controller], world, reason string,
) (report system.StopReport, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unwatch, err := p.Monitor(ctl.ID(), func(d actor.Down) { cancel(d.Reason) })
	if err != nil {
		return report, err
	}
	defer unwatch()
	port := actor.OpenPort[system.StopReport](p)
	defer port.Close()
	to := port.Ref()
	request := system.StopRequest{Worlds: []string{world}, Reason: reason, Report: &to}
	got, err := system.Stop.Call(ctx, ctl, request)
	if err != nil {
		return report, endOr(ctx, err)
	}
	switch why := got.Skipped[world]; why {
	case "":
	case system.SkippedStopping:
		return report, errStopping
	case system.SkippedNotFound:
		return report, errNoWorld
	default:
		return report, errors.New(why)
	}
	report, err = port.Recv(ctx)
	if err != nil {
		return report, fmt.Errorf("no report: %w", endOr(ctx, err))
	}
	return report, nil
}

// endOr returns the end of the watched actor if it has ended ctx, else err.
func endOr(ctx context.Context, err error) error {
	if end, ok := errors.AsType[*actor.Error](context.Cause(ctx)); ok {
		return end
	}
	return err
}
