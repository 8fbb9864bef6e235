package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
)

// run measures what was asked for. Rows go to out as they are ready, the verdict on the machine at
// the end; notes tell a person what goes on.
func run(ctx context.Context, s settings, out, notes io.Writer) error {
	var c canary
	fmt.Fprintf(notes, "%s %s/%s, %d CPUs\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	for _, f := range families() {
		if !s.matches(f.names()) {
			continue
		}
		c.sing()
		results, err := measure(ctx, f, s, notes)
		if err != nil {
			if ctx.Err() != nil {
				err = errors.Join(errors.New("interrupted"), err)
			}
			return fmt.Errorf("%s: %w", f.rows[0].name, err)
		}
		c.sing()
		for i, r := range f.rows {
			if s.only.MatchString(r.name) {
				fmt.Fprintln(out, r.line(results.ours.column(i), results.base.column(i)))
			}
		}
	}
	fmt.Fprintln(out, c.line())
	return nil
}

// samples holds the values of a side: one line per repeat, one column per row of the family.
type samples [][]float64

func (s samples) column(i int) []float64 {
	var out []float64
	for _, line := range s {
		out = append(out, line[i])
	}
	return out
}

// results is what a measurement brought.
type results struct{ ours, base samples }

// measure sets a family up on a rig of its own, so that no row runs beside another's processes,
// and repeats both sides in turns (BENCH-1, BENCH-2).
func measure(ctx context.Context, f family, s settings, notes io.Writer) (res results, err error) {
	fmt.Fprintf(notes, "%s: setting up\n", f.rows[0].name)
	r, err := newRig(ctx)
	defer func() { err = errors.Join(err, r.close()) }()
	if err != nil {
		return res, err
	}
	c, err := f.setup(ctx, r, s)
	if err != nil {
		return res, err
	}
	for i := range s.repeats + 1 {
		ours, err := once(ctx, c.ours)
		if err != nil {
			return res, fmt.Errorf("ours: %w", err)
		}
		base, err := once(ctx, c.base)
		if err != nil {
			return res, fmt.Errorf("base %s: %w", f.rows[0].base, err)
		}
		if i == 0 { // warm-up
			continue
		}
		fmt.Fprintf(notes, "%s: repeat %d of %d: ours %.1f, base %.1f %s\n",
			f.rows[0].name, i, s.repeats, ours, base, f.rows[0].unit)
		res.ours, res.base = append(res.ours, ours), append(res.base, base)
	}
	return res, nil
}

// once does one repeat, on a heap that was just collected.
func once(ctx context.Context, do side) ([]float64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	runtime.GC()
	return do(ctx)
}
