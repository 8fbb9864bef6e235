package logs

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

var grid = shape.Of("host", 2).With("gpu", 2)

func TestGolden_logs(t *testing.T) {
	var lines []mesh.LogLine
	for rank := range 4 {
		for _, text := range []string{"ready", "step 100 loss 0.33" + string(rune('1'+rank))} {
			lines = append(lines, mesh.LogLine{
				Rank: rank, Ranks: inspect.Point(grid, rank), Count: 1, Stream: "stdout", Text: text,
			})
		}
	}
	lines = append(lines, mesh.LogLine{
		Rank: 2, Ranks: inspect.Point(grid, 2), Count: 1, Stream: "stderr", Text: "out of memory",
	})
	golden.Check(t, "logs", func(out *output.Printer) error {
		return logView{out, false}.show(mesh.FoldLogs(grid, lines)...)
	})
	golden.Check(t, "logs-timestamps", func(out *output.Printer) error {
		timed := slices.Clone(lines[2:])
		for i := range timed[1:] {
			timed[i+1].Time = time.Date(2026, 11, 26, 9, 30, i, 0, time.UTC)
		}
		return logView{out, true}.show(timed...)
	})
}

// Of four hosts, one is frozen, one is dead, and one has a full disk.
func TestGolden_logsInTrouble(t *testing.T) {
	e := shape.Of("host", 4).With("gpu", 2)
	var lines []mesh.LogLine
	add := func(rank int, stream, text string) {
		lines = append(lines, mesh.LogLine{Rank: rank, Ranks: inspect.Point(e, rank), Count: 1, Stream: stream, Text: text})
	}
	for _, rank := range []int{0, 1, 6, 7} {
		add(rank, "stdout", "step 120100 loss 0.331")
	}
	for _, rank := range []int{6, 7} {
		add(rank, "stdout", "[castnet] the disk of the log files is full: older output is dropped")
	}
	add(7, "stderr", "[castnet] the output of this proc is not kept: log file: open "+
		"/var/lib/castnet/logs/pretrain-7kd93x0b5m2qa/7.0.stderr: no space left on device")
	hosts := []mesh.HostState{
		{HostInfo: agent.HostInfo{Label: "gpu-node-0042"}, State: agent.HostSuspect, Silence: 2 * time.Second},
		{HostInfo: agent.HostInfo{Label: "gpu-node-0043"}, State: agent.HostDead, Silence: 17 * time.Minute},
	}
	missing := target.MissingRanks(target.Target{Name: "pretrain"}, 4, e.NumRanks(), hosts)
	golden.Check(t, "logs-trouble", func(out *output.Printer) error {
		return errors.Join(logView{out, false}.show(mesh.FoldLogs(e, lines)...), missing)
	})
	golden.Check(t, "logs-trouble-follow", func(out *output.Printer) error {
		news := mesh.LogLine{Rank: -1, Host: "gpu-node-0042", Text: "[castnet] host gpu-node-0042 does not answer: " + actor.ErrDeadline.Error()}
		v := logView{out, false}
		out.Notef("castnet: %v", missing)
		return errors.Join(v.show(append(lines[:2:2], news)...), missing)
	})
}
