package heldmesh

import (
	"testing"

	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
)

func TestGolden_banner(t *testing.T) {
	r := Started{Mesh: "demo-7kd93x0b5m2qa", Label: "demo", Extent: "host=2,gpu=4", Ranks: 8,
		Hosts: []string{"node-a", "node-b"}, Type: "counter"}
	examples := []string{
		"castnet procs demo", "castnet call 'demo[host=0,gpu=0]' counter add 1",
		"castnet cast demo counter add 1 --reduce sum",
		`eval "$(castnet env)" && nats req castnet.v1.default.cast.demo.counter.add.u-anon.x 1 -H Castnet-Reduce:sum`,
		"castnet logs demo -f", "castnet stop demo",
	}
	golden.Check(t, "banner", func(out *output.Printer) error {
		return showBanner(out, r, examples,
			"Ctrl-C stops it. Its events:")
	})
}
