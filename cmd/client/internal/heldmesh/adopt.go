package heldmesh

import (
	"context"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/mesh"
)

func Adopt(ctx context.Context, a *app.App, conn *mesh.Net, t target.Target, epoch uint64) error {
	procs, err := conn.Adopt(ctx, t.Name, epoch)
	if err != nil {
		return err
	}
	h := &heldMesh{App: a, spec: Spec{name: procs.ID().Label()}, net: conn, procs: procs}
	for _, id := range procs.Describe().Hosts {
		h.hosts = append(h.hosts, agent.HostInfo{ID: id, Label: id.Label()})
	}
	if err := h.printBanner(ctx); err != nil {
		return err
	}
	return h.attach(ctx, nil)
}
