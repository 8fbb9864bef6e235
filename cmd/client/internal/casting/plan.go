package casting

import (
	"slices"
	"strconv"

	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/text"
)

// PlannedRecord is a rank in the plan of a cast. Its JSON names are stable.
type PlannedRecord struct {
	Rank  int    `json:"rank"`
	Point string `json:"point"`
	Host  string `json:"host"`
	Batch int    `json:"batch"` // from 1
}

// plan returns the ranks in send order.
func (k resolved) plan() ([]PlannedRecord, error) {
	var out []PlannedRecord
	for i, batch := range k.batches {
		for _, view := range slices.Sorted(slices.Values(batch)) {
			host, err := k.Procs.Host(view)
			if err != nil {
				return nil, err
			}
			out = append(
				out, PlannedRecord{Rank: k.Rank(view), Point: k.Point(view), Host: host.String(), Batch: i + 1},
			)
		}
	}
	return out, nil
}

// showPlan prints the plan of a cast.
func showPlan(out *output.Printer, k resolved) error {
	records, err := k.plan()
	if err != nil {
		return err
	}
	err = showPlanned(out, records)
	if err != nil || out.Format != output.Table {
		return err
	}
	would := "would ask"
	switch k.collect {
	case collectChoose:
		would = "would ask one of"
	case collectSend:
		would = "would send to"
	}
	out.Notef(
		"%s %d of %s in %s; nothing was sent", would, len(records), text.Pluralize(k.Base.NumRanks(), "rank"),
		countBatches(len(k.batches)),
	)
	return nil
}

func countBatches(n int) string {
	if n == 1 {
		return "one batch"
	}
	return strconv.Itoa(n) + " batches"
}

func showPlanned(out *output.Printer, records []PlannedRecord) error {
	columns := []string{"batch", "rank", "point", "host"}
	return output.Records(out, records, columns, func(r PlannedRecord) []string {
		return []string{strconv.Itoa(r.Batch), strconv.Itoa(r.Rank), r.Point, text.HostLabel(r.Host)}
	})
}
