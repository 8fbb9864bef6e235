package main

import (
	"slices"
	"strconv"
)

// plannedRecord is a rank in the plan of a cast. Its JSON names are stable.
type plannedRecord struct {
	Rank  int    `json:"rank"`
	Point string `json:"point"`
	Host  string `json:"host"`
	Batch int    `json:"batch"` // from 1
}

// plan returns the ranks in send order.
func (k resolvedCast) plan() ([]plannedRecord, error) {
	var out []plannedRecord
	for i, batch := range k.batches {
		for _, view := range slices.Sorted(slices.Values(batch)) {
			host, err := k.procs.Host(view)
			if err != nil {
				return nil, err
			}
			out = append(out, plannedRecord{Rank: k.rank(view), Point: k.point(view), Host: host.String(), Batch: i + 1})
		}
	}
	return out, nil
}

// showPlan prints the plan of a cast.
func (a *app) showPlan(k resolvedCast) error {
	records, err := k.plan()
	if err != nil {
		return err
	}
	columns := []string{"batch", "rank", "point", "host"}
	err = showRecords(a, records, columns, func(r plannedRecord) []string {
		return []string{strconv.Itoa(r.Batch), strconv.Itoa(r.Rank), r.Point, hostLabel(r.Host)}
	})
	if err != nil || a.output != asTable {
		return err
	}
	would := "would ask"
	switch k.collect {
	case collectChoose:
		would = "would ask one of"
	case collectSend:
		would = "would send to"
	}
	a.notef("%s %d of %s in %s; nothing was sent", would, len(records), pluralize(k.base.NumRanks(), "rank"), countBatches(len(k.batches)))
	return nil
}

func countBatches(n int) string {
	if n == 1 {
		return "one batch"
	}
	return strconv.Itoa(n) + " batches"
}
