package logs

import (
	"slices"
	"testing"
	"time"

	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
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
