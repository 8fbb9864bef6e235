package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/local/lines"
)

const (
	floorName   = "mutexq"
	floorSuffix = "-floor"
)

// hasFloor says which workloads are also measured against the floor: not Savina's, which combine
// what those measure one by one.
func hasFloor(w local.Workload) bool { return !strings.HasPrefix(w.Name, "savina-") }

// starter starts a program that runs workloads.
type starter func() (*child, error)

func roleStarter(role string) starter {
	return func() (*child, error) { return startRole(role) }
}

// floorContest measures ours against the floor.
func floorContest(w local.Workload) setup {
	return func(_ context.Context, g *ground) (contest, error) {
		o, err := workloadSide(g, w, roleStarter(actorsRole))
		if err != nil {
			return nil, err
		}
		f, err := workloadSide(g, w, roleStarter(floorRole))
		return against(floorName, o, f), err
	}
}

// peersContest measures ours against all peers. When one cannot be built there is no contest: the
// best of the others might not be the best.
func peersContest(w local.Workload) setup {
	return func(ctx context.Context, g *ground) (contest, error) {
		o, err := workloadSide(g, w, roleStarter(actorsRole))
		if err != nil {
			return nil, err
		}
		c := contest{{oursName, o}}
		for _, p := range peersFor(w) {
			program, err := g.builds.program(ctx, p)
			if err != nil {
				return nil, err
			}
			name := p.String()
			s, err := workloadSide(g, w, func() (*child, error) {
				return startChild(name, exec.Command(program, p.args...))
			})
			if err != nil {
				return nil, err
			}
			c = append(c, contender{name, s})
		}
		return c, nil
	}
}

// workloadSide runs a workload once for each repeat, in a process that lasts as long as the ground
// or, where the workload wants a fresh one, only as long as the repeat.
func workloadSide(g *ground, w local.Workload, start starter) (side, error) {
	n := max(w.Size/g.shrink, 1)
	if w.Fresh {
		return func(ctx context.Context) (_ []float64, err error) {
			c, err := start()
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, endChildren(c)) }()
			return c.perform(ctx, w.Name, n)
		}, nil
	}
	c, err := start()
	if err != nil {
		return nil, err
	}
	g.later(func(context.Context) error { return endChildren(c) })
	return func(ctx context.Context) ([]float64, error) { return c.perform(ctx, w.Name, n) }, nil
}

// perform asks a child for n of a workload.
func (c *child) perform(ctx context.Context, name string, n int) ([]float64, error) {
	reply, err := c.ask(ctx, lines.Request(name, n))
	if err != nil {
		return nil, err
	}
	return lines.Parse(reply)
}
