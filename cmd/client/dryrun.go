package main

import (
	"slices"
	"strconv"
)

// plannedRecord is a rank that a cast would ask; its JSON names are stable.
type plannedRecord struct {
	Rank  int    `json:"rank"`
	Point string `json:"point"`
	Host  string `json:"host"`
	Batch int    `json:"batch"` // from 1
}

// plan are the ranks in the order in which they would be asked.
func (k casting) plan() ([]plannedRecord, error) {
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

// showPlan prints who would be asked.
func (a *app) showPlan(k casting) error {
	records, err := k.plan()
	if err != nil {
		return err
	}
	columns := []string{"batch", "rank", "point", "host"}
	err = show(a, records, columns, func(r plannedRecord) []string {
		return []string{strconv.Itoa(r.Batch), strconv.Itoa(r.Rank), r.Point, hostLabel(r.Host)}
	})
	if err != nil || a.output != asTable {
		return err
	}
	would := "would ask"
	switch k.collect {
	case collectChoose:
		would = "would ask one of"
	case collectPost:
		would = "would tell"
	}
	a.note("%s %d of %s in %s; nobody was asked", would, len(records), count(k.base.NumRanks(), "rank"), countBatches(len(k.batches)))
	return nil
}

func countBatches(n int) string {
	if n == 1 {
		return "one batch"
	}
	return strconv.Itoa(n) + " batches"
}
