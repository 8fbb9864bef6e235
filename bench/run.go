package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/castnet-io/castnet/bench/report"
)

// run measures what was asked for. Rows go to out as they are ready, the verdict on the machine at
// the end; notes tell a person what goes on. A family that fails is an error at the end: the others
// are measured all the same.
func run(ctx context.Context, s settings, out, notes io.Writer) (err error) {
	var c canary
	fmt.Fprintln(notes, machine())
	b := newBuilds(notes)
	defer func() { err = errors.Join(err, b.close()) }()
	var failed []error
	var table []report.Row
	for _, f := range families() {
		if !s.matches(f.names()) {
			continue
		}
		name := f.rows[0].name
		c.sing()
		results, err := measure(ctx, f, &ground{settings: s, builds: b, notes: notes})
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", name, errors.Join(errors.New("interrupted"), err))
		}
		if err != nil {
			fmt.Fprintf(notes, "%s: failed: %v\n", name, err)
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		c.sing()
		for i, r := range f.rows {
			if s.only.MatchString(r.name) {
				scores := results.scores(i)
				r.report(scores, out, notes)
				table = append(table, r.summary(scores))
			}
		}
	}
	fmt.Fprintln(out, c.line())
	if err := report.Text(notes, table); err != nil {
		failed = append(failed, fmt.Errorf("write the table: %w", err))
	}
	return errors.Join(failed...)
}

// summary is a row as people read it.
func (r row) summary(scores []score) report.Row {
	out := report.Row{Name: r.name, Unit: r.unit}
	for _, s := range scores {
		out.Scores = append(out.Scores, report.Score{Name: s.name, Median: s.median(), Min: slices.Min(s.values),
			Max: slices.Max(s.values), Repeats: len(s.values)})
	}
	return out
}

// report writes a row, and a line for each contender.
func (r row) report(scores []score, out, notes io.Writer) {
	for _, s := range scores {
		fmt.Fprintln(notes, r.note(s))
	}
	fmt.Fprintln(out, r.line(scores[0], scores[1:]))
}

// results is what a measurement brought, by contender, repeat and row of the family.
type results []result

type result struct {
	name    string
	repeats [][]float64
}

// scores is the results of one row.
func (rs results) scores(row int) []score {
	out := make([]score, len(rs))
	for i, r := range rs {
		out[i].name = r.name
		for _, values := range r.repeats {
			out[i].values = append(out[i].values, values[row])
		}
	}
	return out
}

// measure sets a family up on ground of its own, so that no row runs beside another's processes,
// and repeats all sides in turns.
func measure(ctx context.Context, f family, g *ground) (rs results, err error) {
	fmt.Fprintf(g.notes, "%s: setting up\n", f.rows[0].name)
	defer func() { err = errors.Join(err, g.close()) }()
	contest, err := f.setup(ctx, g)
	if err != nil {
		return nil, err
	}
	rs = make(results, len(contest))
	for i := range g.repeats + 1 {
		for j, c := range contest {
			values, err := once(ctx, c.do)
			if err != nil && ctx.Err() == nil { // once more: the machine may have been disturbed
				fmt.Fprintf(g.notes, "%s: %s failed, once more: %v\n", f.rows[0].name, c.name, err)
				values, err = once(ctx, c.do)
			}
			if err == nil && len(values) != len(f.rows) {
				err = fmt.Errorf("%d values for %d rows", len(values), len(f.rows))
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if i == 0 { // warm-up
				continue
			}
			fmt.Fprintf(g.notes, "%s: repeat %d of %d: %s %.1f %s\n",
				f.rows[0].name, i, g.repeats, c.name, values, f.rows[0].unit)
			rs[j] = result{c.name, append(rs[j].repeats, values)}
		}
	}
	return rs, nil
}

// once does one repeat, on a heap that was just collected.
func once(ctx context.Context, do side) ([]float64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	runtime.GC()
	return do(ctx)
}
