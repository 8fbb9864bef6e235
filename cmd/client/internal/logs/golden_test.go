package logs

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
)

func TestGolden_logs(t *testing.T) {
	p := target.Resolved{Base: grid, Region: grid.Region()}
	var lines []Record
	for rank := range 4 {
		for _, l := range []Record{
			{Stream: "stdout", Line: "ready"}, {Stream: "stdout", Line: "step 100 loss 0.33" + string(rune('1'+rank))},
		} {
			l.Rank = rank
			l.Point = p.Point(rank)
			lines = append(lines, l)
		}
	}
	lines = append(lines, Record{Rank: 2, Point: p.Point(2), Stream: "stderr", Line: "out of memory"})
	golden.Check(t, "logs", func(out *output.Printer) error {
		v := newLogView(out, p, Options{Window: time.Minute})
		return errors.Join(v.show(lines...), v.flush())
	})
	golden.Check(t, "logs-timestamps", func(out *output.Printer) error {
		timed := slices.Clone(lines[2:])
		for i := range timed[1:] {
			timed[i+1].Time = time.Date(2026, 11, 26, 9, 30, i, 0, time.UTC)
		}
		return newLogView(out, p, Options{Timestamps: true, MergeSet: true}).show(timed...)
	})
}
