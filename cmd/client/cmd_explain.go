package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
)

func explainCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "explain MESH",
		Short: "Explain why a mesh is not running",
		Long: `Explain why a mesh is not running, or not completely: a line per cause with its ranks, the root cause
first; then the next automatic steps, and suggestions. A healthy mesh is reported as healthy.

The owner of the mesh, its hosts and its procs are asked; silent ones are named. Of a mesh that ended
and that no host remembers, the system controller knows the latest failures.

JSON: mesh, phase, healthy, answer, causes (kind, region, ranks, reason, since, stderr_tail), next, suggestions.`,
		Example:           "  castnet explain demo\n  castnet explain demo -o json",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.MeshesAndWorlds),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := target.ParseMesh(args[0], "explain")
			if err != nil {
				return err
			}
			return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
				v, missing, err := t.Inspect(ctx, conn)
				if x, ok := inspect.Forgotten(ctx, conn, t.Name, v, err); ok {
					if silent, partial := errors.AsType[*mesh.MissingHostsError](err); partial {
						missing = silent // which may have a live one
					}
					return errors.Join(showExplanation(a.Printer, x), missing)
				}
				if err != nil {
					return err
				}
				return errors.Join(showExplanation(a.Printer, v.Explanation()), missing)
			})
		},
	}
}

// shownStderr is the number of shown stderr lines of a proc.
const shownStderr = 5

func showExplanation(out *output.Printer, x inspect.Explanation) error {
	if written, err := out.WriteDocument(x); written {
		return err
	}
	answer := x.Answer
	colour := output.Green
	if !x.Healthy {
		colour = output.Red
	}
	if len(x.Causes) > 0 {
		answer += ":"
	}
	lines := []error{out.Println(2, out.Paint(colour, answer))}
	show := func(line string) { lines = append(lines, out.Println(4, "  "+line)) }
	for i, c := range x.Causes {
		if i == inspect.MaxReasons {
			show(fmt.Sprintf("and %d more causes; --output json has all", len(x.Causes)-i))
			break
		}
		show(c.String())
		for _, line := range c.StderrTail[max(0, len(c.StderrTail)-shownStderr):] {
			lines = append(lines, out.Println(6, "    "+out.Paint(output.Yellow, "| "+text.Shorten(line, 120))))
		}
	}
	for _, part := range []struct {
		name  string
		lines []string
	}{{"What happens next:", x.Next}, {"What to do:", x.Suggestions}} {
		if len(part.lines) > 0 {
			lines = append(lines, out.Println(0, part.name))
		}
		for _, line := range part.lines[:min(len(part.lines), inspect.MaxReasons)] {
			show(line)
		}
		if more := len(part.lines) - inspect.MaxReasons; more > 0 {
			show(fmt.Sprintf("and %d more; --output json has all", more))
		}
	}
	return errors.Join(lines...)
}
