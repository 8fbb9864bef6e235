package main

import (
	"cmp"
	"fmt"
	"slices"
)

// replies shows the answers of a cast as they arrive.
type replies struct {
	a     *app
	p     place
	bar   *progress
	ranks []int // of the region, that are asked
	width int   // of the widest point
	all   []reply
}

func (a *app) newReplies(p place, ranks []int, bar *progress) *replies {
	rs := &replies{a: a, p: p, bar: bar, ranks: ranks}
	for _, view := range ranks {
		rs.width = max(rs.width, len(p.point(view)))
	}
	rs.draw()
	return rs
}

func (rs *replies) draw() { rs.bar.step(len(rs.all), len(rs.ranks), "ranks") }

// add shows one answer. Failures are shown in the end, each reason once; who was not asked, then only.
func (rs *replies) add(r reply) (err error) {
	rs.all = append(rs.all, r)
	a := rs.a
	switch {
	case r.skipped:
		return nil
	case a.output == asNDJSON:
		return a.line(r)
	case a.output == asTable && r.err == nil:
		rs.bar.clear()
		point := a.paint(cyan, fmt.Sprintf("%-*s", rs.width+2, "["+r.Point+"]"))
		_, err = fmt.Fprintf(a.out, "%s %s\n", point, r.Value)
	}
	rs.draw()
	return err
}

// finish sums up; its error says why some ranks have no value.
func (rs *replies) finish(c coverage) (err error) {
	rs.bar.clear()
	switch a := rs.a; a.output {
	case asJSON:
		answered := slices.DeleteFunc(slices.Clone(rs.all), func(r reply) bool { return r.err != nil })
		slices.SortFunc(answered, func(x, y reply) int { return cmp.Compare(x.Rank, y.Rank) })
		err = a.document(struct {
			Replies  []reply  `json:"replies"`
			Coverage coverage `json:"coverage"`
		}{answered, c})
	case asNDJSON:
		err = a.line(struct {
			Coverage coverage `json:"coverage"`
		}{c})
	default:
		a.noteCoverage(c)
	}
	if err != nil {
		return err
	}
	return c.verdict(rs.p.base)
}
