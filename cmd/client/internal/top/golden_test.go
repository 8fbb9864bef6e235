package top

import (
	"fmt"
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
	golden.Check(t, "top-trouble", func(out *output.Printer) error { return showTop(out, inTrouble(), 20) })
	golden.Check(t, "top", func(out *output.Printer) error { return showTop(out, l, 2) })
}

// inTrouble has a frozen and a dead host, and a frozen proc on a live one.
func inTrouble() (l inspect.Sample) {
	busy := inspect.Counters{Queued: 2, Handled: 987654321, Rate: 812.5, CPU: 799.6, Memory: 61 << 30}
	for i, state := range []string{agent.HostSuspect, agent.HostDead, agent.HostAlive} {
		h := inspect.HostCounters{Host: fmt.Sprintf("gpu-node-004%d", i+2), State: state}
		if state == agent.HostAlive {
			h.Procs, h.Counters = 2, busy
		}
		l.Hosts = append(l.Hosts, h)
		for gpu := range 2 {
			p := inspect.ProcCounters{Mesh: "pretrain-7kd93x0b5m2qa", Rank: 2*i + gpu,
				Point: fmt.Sprintf("host=%d,gpu=%d", i, gpu), Host: h.Host + "-0123456789abc", Status: "unknown", Silent: true}
			if state == agent.HostAlive {
				p.Status, p.Silent, p.Counters = "running", gpu == 1, busy
				p.Busy = "trainer.step"
			}
			l.Procs = append(l.Procs, p)
		}
	}
	l.Sort("cpu")
	return l
}
