package top

import (
	"testing"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/mesh/inspect"
)

func TestGolden_top(t *testing.T) {
	busy := inspect.Counters{Queued: 300, Handled: 1234567, Rate: 15321.4, CPU: 387.6, Memory: 3 << 30}
	l := inspect.Sample{
		Hosts: []inspect.HostCounters{
			{Host: "node-b", State: agent.HostSuspect, Counters: inspect.Counters{Queued: 12}},
			{Host: "node-a", State: agent.HostAlive, Procs: 4, Counters: busy},
		},
		Procs: []inspect.ProcCounters{
			{
				Mesh: "demo-7kd93x0b5m2qa", Point: "host=0,gpu=0", Host: "node-a-0123456789abc",
				Status: "running", Actors: 3,
				Counters: busy, Busy: "trainer.step",
			},
			{
				Mesh: "demo-7kd93x0b5m2qa", Rank: 1, Point: "host=0,gpu=1", Host: "node-a-0123456789abc",
				Status: "running", Actors: 1,
				Counters: inspect.Counters{Handled: 17, Rate: 0.5}, Busy: "a-trainer-with-a-long-name.load-the-checkpoint",
			},
			{Mesh: "demo-7kd93x0b5m2qa", Rank: 4, Point: "host=1,gpu=0", Host: "node-b-0123456789abd",
				Status: "unknown", Silent: true},
		},
	}
	golden.Check(t, "top", func(out *output.Printer) error { return showTop(out, l, 2) })
}
