package main

import (
	"cmp"
	"fmt"
	"slices"
)

// replies prints the replies of a cast on arrival.
type replies struct {
	a     *app
	p     resolvedTarget
	bar   *progress
	ranks []int // addressed ranks of the region
	width int   // of the widest point
	all   []reply
}

func (a *app) newReplies(p resolvedTarget, ranks []int, bar *progress) *replies {
	rs := &replies{a: a, p: p, bar: bar, ranks: ranks}
	for _, view := range ranks {
		rs.width = max(rs.width, len(p.point(view)))
	}
	rs.draw()
	return rs
}

func (rs *replies) draw() { rs.bar.update(len(rs.all), len(rs.ranks), "ranks") }

// add prints one reply. Failures are printed at the end, each reason once, as are skipped ranks.
func (rs *replies) add(r reply) (err error) {
	rs.all = append(rs.all, r)
	a := rs.a
	switch {
	case r.skipped:
		return nil
	case a.output == asNDJSON:
		return a.writeJSONLine(r)
	case a.output == asTable && r.err == nil:
		rs.bar.clear()
		point := a.paint(cyan, fmt.Sprintf("%-*s", rs.width+2, "["+r.Point+"]"))
		_, err = fmt.Fprintf(a.stdout, "%s %s\n", point, r.Value)
	}
	rs.draw()
	return err
}

// finish prints the summary. Its error explains ranks without a value.
func (rs *replies) finish(c coverage) (err error) {
	rs.bar.clear()
	switch a := rs.a; a.output {
	case asJSON:
		answered := slices.DeleteFunc(slices.Clone(rs.all), func(r reply) bool { return r.err != nil })
		slices.SortFunc(answered, func(x, y reply) int { return cmp.Compare(x.Rank, y.Rank) })
		err = a.writeJSON(struct {
			Replies  []reply  `json:"replies"`
			Coverage coverage `json:"coverage"`
		}{answered, c})
	case asNDJSON:
		err = a.writeJSONLine(struct {
			Coverage coverage `json:"coverage"`
		}{c})
	default:
		a.noteCoverage(c)
	}
	if err != nil {
		return err
	}
	return c.asError(rs.p.base)
}
