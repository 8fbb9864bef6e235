package casting

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
)

// replies prints the replies of a cast on arrival.
type replies struct {
	out   *output.Printer
	p     target.Resolved
	bar   *output.Progress
	ranks []int // addressed ranks of the region
	width int   // of the widest point
	all   []Reply
}

func newReplies(out *output.Printer, p target.Resolved, ranks []int, bar *output.Progress) *replies {
	rs := &replies{out: out, p: p, bar: bar, ranks: ranks}
	for _, view := range ranks {
		rs.width = max(rs.width, len(p.Point(view)))
	}
	rs.draw()
	return rs
}

func (rs *replies) draw() { rs.bar.Update(len(rs.all), len(rs.ranks), "ranks") }

// add prints one reply. Failures are printed at the end, each reason once, as are skipped ranks.
func (rs *replies) add(r Reply) (err error) {
	rs.all = append(rs.all, r)
	out := rs.out
	switch {
	case r.outcome == notAsked:
		return nil
	case out.Format == output.NDJSON:
		return out.WriteJSONLine(r)
	case out.Format == output.Table && r.err == nil:
		rs.bar.Clear()
		point := out.Paint(output.Cyan, fmt.Sprintf("%-*s", rs.width+2, "["+r.Point+"]"))
		_, err = fmt.Fprintf(out.Stdout, "%s %s\n", point, r.Value)
	}
	rs.draw()
	return err
}

// finish prints the summary. Its error explains ranks without a value.
func (rs *replies) finish(c Coverage) (err error) {
	rs.bar.Clear()
	switch out := rs.out; out.Format {
	case output.JSON:
		answered := slices.DeleteFunc(slices.Clone(rs.all), func(r Reply) bool { return r.err != nil })
		slices.SortFunc(answered, func(x, y Reply) int { return cmp.Compare(x.Rank, y.Rank) })
		err = out.WriteJSON(struct {
			Replies  []Reply  `json:"replies"`
			Coverage Coverage `json:"coverage"`
		}{answered, c})
	case output.NDJSON:
		err = out.WriteJSONLine(struct {
			Coverage Coverage `json:"coverage"`
		}{c})
	default:
		noteCoverage(out, c)
	}
	if err != nil {
		return err
	}
	return c.asError(rs.p.Base)
}
