package mesh

import (
	"context"
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
	ctx, cancel := withTimeout(ctx, config.MeshStopDeadline.Get(p.net.config))
	defer cancel()
	ctl, err := system.Find(ctx, p.net.proc)
	if err != nil {
		return fmt.Errorf("stop world %s: %w", name, err)
	}
	port := actor.OpenPort[system.StopReport](p.net.proc)
	defer port.Close()
	to := port.Ref()
	request := system.StopRequest{Worlds: []string{name}, Reason: "stopped by its user", Report: &to}
	accepted, err := system.Stop.Call(ctx, ctl, request)
	if err == nil && len(accepted.Worlds) == 0 {
		err = fmt.Errorf("%s", accepted.Skipped[name])
	}
	if err != nil {
		return fmt.Errorf("stop world %s: %w", name, err)
	}
	report, err := port.Recv(ctx)
	if err != nil {
		return fmt.Errorf("stop world %s: no report: %w", name, err)
	}
	for _, w := range report.Worlds {
		if len(w.Silent) > 0 {
			return fmt.Errorf("stop world %s: no reply from %v", name, w.Silent)
		}
	}
	return nil
}
