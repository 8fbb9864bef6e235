package mesh

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller/worlds"
)

// stopWorld makes the system controller stop a world and remove it. Members that have not ended are
// an error.
func (p ProcMesh) stopWorld(ctx context.Context) error {
	name := p.desc.World.World
	if n := p.region.NumRanks(); n < p.desc.Extent.NumRanks() {
		return fmt.Errorf("stop %d ranks of world %s: it is stopped as a whole: want all %d", n, name, p.desc.Extent.NumRanks())
	}
	ctx, cancel := withTimeout(ctx, config.MeshStopDeadline.Get(p.net.config))
	defer cancel()
	system, err := worlds.Find(ctx, p.net.proc)
	if err != nil {
		return fmt.Errorf("stop world %s: %w", name, err)
	}
	port := actor.OpenPort[worlds.StopReport](p.net.proc)
	defer port.Close()
	to := port.Ref()
	accepted, err := worlds.Stop.Call(ctx, system, worlds.StopRequest{Worlds: []string{name}, Reason: "stopped by its user", Report: &to})
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
			return fmt.Errorf("stop world %s: %v never answered", name, w.Silent)
		}
	}
	return nil
}
