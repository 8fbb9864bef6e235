package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/mesh"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain MESH",
		Short: "Explain why a mesh is not running",
		Long: `Explain why a mesh is not running, or not completely: a line per cause with its ranks, the root cause
first; then the next automatic steps, and suggestions. A healthy mesh is reported as healthy.

The owner of the mesh, its hosts and its procs are asked; silent ones are named.

JSON: mesh, phase, healthy, answer, causes (kind, region, ranks, reason, since, stderr_tail), next, suggestions.`,
		Example:           "  castnet explain demo\n  castnet explain demo -o json",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: a.complete(meshNames),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := parseMesh(args[0], "explain")
			if err != nil {
				return err
			}
			return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error {
				v, missing, err := t.inspect(ctx, net)
				if err != nil {
					return err
				}
				return errors.Join(a.showExplanation(v.explanation()), missing)
			})
		},
	}
}

// shownStderr is the number of shown stderr lines of a proc.
const shownStderr = 5

func (a *app) showExplanation(x explanation) error {
	switch a.output {
	case asJSON:
		return a.writeJSON(x)
	case asNDJSON:
		return a.writeJSONLine(x)
	}
	answer := x.Answer
	colour := green
	if !x.Healthy {
		colour = red
	}
	if len(x.Causes) > 0 {
		answer += ":"
	}
	fmt.Fprintln(a.stdout, a.paint(colour, answer))
	for i, c := range x.Causes {
		if i == maxReasons {
			fmt.Fprintf(a.stdout, "  and %d more causes; --output json has all\n", len(x.Causes)-i)
			break
		}
		fmt.Fprintln(a.stdout, "  "+c.String())
		for _, line := range c.StderrTail[max(0, len(c.StderrTail)-shownStderr):] {
			fmt.Fprintln(a.stdout, "    "+a.paint(yellow, "| "+shorten(line, 120)))
		}
	}
	for _, part := range []struct {
		name  string
		lines []string
	}{{"What happens next:", x.Next}, {"What to do:", x.Todo}} {
		if len(part.lines) > 0 {
			fmt.Fprintln(a.stdout, part.name)
		}
		for _, line := range part.lines {
			fmt.Fprintln(a.stdout, "  "+line)
		}
	}
	return nil
}
