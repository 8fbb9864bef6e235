package mesh

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/system"
)

// stopWorld makes the system controller stop a world and remove it. It returns an error if a member
// has not ended.
func (p ProcMesh) stopWorld(ctx context.Context) error {
	name := p.desc.World.World
	if n := p.region.NumRanks(); n < p.desc.Extent.NumRanks() {
		return fmt.Errorf("cannot stop %d ranks of world %s: want all %d", n, name, p.desc.Extent.NumRanks())
	}
	ctx, cancel := withTimeout(ctx, config.MeshStopTimeout.Get(p.net.config))
	defer cancel()
	var report system.StopReport
	var accepted bool // by an earlier term, which may have removed the world
	err := p.net.askSystem(ctx, func(ctl actor.Ref[*system.Controller]) (err error) {
		report, accepted, err = p.net.requestStop(ctx, ctl, name, accepted)
		return err
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

// requestStop makes one term of the system controller stop a world, and returns its report.
// accepted says that a term has accepted the request. Then a world that is gone has stopped. If the
// term ends before its report, the error is that of its end.
func (n *Net) requestStop(
	ctx context.Context, ctl actor.Ref[*system.Controller], world string, accepted bool,
) (system.StopReport, bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unwatch, err := n.proc.Monitor(ctl.ID(), func(d actor.Down) { cancel(d.Reason) })
	if err != nil {
		return system.StopReport{}, accepted, err
	}
	defer unwatch()
	port := actor.OpenPort[system.StopReport](n.proc)
	defer port.Close()
	to := port.Ref()
	request := system.StopRequest{Worlds: []string{world}, Reason: "stopped by its user", Report: &to}
	got, err := system.Stop.Call(ctx, ctl, request)
	if err != nil {
		return system.StopReport{}, accepted, endOr(ctx, err)
	}
	if why, skipped := got.Skipped[world]; skipped {
		if accepted && why == system.SkippedNotFound {
			return system.StopReport{}, accepted, nil
		}
		return system.StopReport{}, accepted, errors.New(why)
	}
	report, err := port.Recv(ctx)
	if err != nil {
		return report, true, fmt.Errorf("no report: %w", endOr(ctx, err))
	}
	return report, true, nil
}

// endOr returns the end of the watched actor if it has ended ctx, else err.
func endOr(ctx context.Context, err error) error {
	if end, ok := errors.AsType[*actor.Error](context.Cause(ctx)); ok {
		return end
	}
	return err
}
