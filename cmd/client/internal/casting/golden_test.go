package casting

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
)

func TestGolden_cast(t *testing.T) {
	p := somePlace()
	replies := []Reply{
		{Rank: 0, Point: p.Point(0), Value: json.RawMessage(`5`), MS: 1.5},
		{Rank: 3, Point: p.Point(3), Value: json.RawMessage(`{"loss":0.331,"step":100}`), MS: 2.25},
		failedReply(p, 1, &actor.Error{Code: actor.CodePanic,
			Text: "panicked: runtime error: index out of range [5] with length 3"}),
		failedReply(p, 2, actor.ErrDeadline),
	}
	golden.Check(t, "cast", func(out *output.Printer) error {
		show := newReplies(out, p, []int{0, 1, 2, 3}, &output.Progress{})
		for _, r := range replies {
			if err := show.add(r); err != nil {
				return err
			}
		}
		return show.finish(summarize(p, show.all))
	})
	skipped := []Reply{replies[0], skippedReply(p, 1, errors.New("stopped after 1 failures")), replies[3]}
	golden.Check(t, "cast-reduce", func(out *output.Printer) error {
		f := ReduceResult{Value: json.RawMessage(`5`), Reducer: "sum", Coverage: summarize(p, skipped)}
		return showReduced(out, f, p.Base)
	})
	golden.Check(t, "cast-plan", func(out *output.Printer) error {
		return showPlanned(out, []PlannedRecord{
			{Batch: 1, Rank: 0, Point: p.Point(0), Host: "node-a-0123456789abc"},
			{Batch: 2, Rank: 2, Point: p.Point(2), Host: "node-b-0123456789abd"},
		})
	})
}
