package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/system"
)

// Conditions of wait.
const (
	waitRunning = "running"
	waitLive    = "live"
	waitEnded   = "ended"
)

func waitCommand(a *app.App) *cobra.Command {
	condition := waitRunning
	c := &cobra.Command{
		Use:   "wait MESH",
		Short: "Wait until a mesh or world runs, is live or has ended",
		Long: `Wait until a mesh or world meets a condition, for --timeout at most:

  running   every rank runs (the default)
  live      every rank runs, ` + "`castnet explain`" + ` finds no problem, and a world is live: each host and
            each proc has answered
  ended     every rank has ended for good; a world is removed

A mesh of that name has to exist (exit code 3). Exit code 5: the time is over, and the error has
the last state. Exit code 1: the mesh has ended, and cannot run.

JSON: mesh, condition, phase, status (of a world), running, ranks, took (nanoseconds).`,
		Example: "  castnet wait demo\n  castnet wait train --for live --timeout 5m\n" +
			"  castnet wait demo --for ended",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.MeshesAndWorlds),
	}
	conditions := []string{waitRunning, waitLive, waitEnded}
	flags.Add(
		c.Flags(), &condition, "for", "CONDITION", "running, live or ended (default running)",
		flags.Choice(conditions...),
	)
	_ = c.RegisterFlagCompletionFunc(
		"for", cobra.FixedCompletions(conditions, cobra.ShellCompDirectiveNoFileComp),
	)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := target.ParseMesh(args[0], "wait")
		if err != nil {
			return err
		}
		return a.WithNetTimeout(c.Context(), func(ctx context.Context, conn *mesh.Net) error {
			began := time.Now()
			r, err := awaitCondition(ctx, conn, t, condition)
			if err != nil {
				return err
			}
			r.Took = time.Since(began)
			return showWaited(a.Printer, r)
		})
	}
	return c
}

// waitRecord is a mesh that meets a condition. Its JSON names are stable.
type waitRecord struct {
	Mesh      string        `json:"mesh"`
	Condition string        `json:"condition"`
	Phase     string        `json:"phase"`
	Status    system.Status `json:"status,omitempty"`
	Running   int           `json:"running"`
	Ranks     int           `json:"ranks"`
	Took      time.Duration `json:"took"`

	live, ended bool
}

// isMet reports whether the mesh meets the condition.
func (r waitRecord) isMet() bool {
	switch r.Condition {
	case waitLive:
		return r.live
	case waitEnded:
		return r.ended
	default:
		return r.Running == r.Ranks && !r.ended
	}
}

// waitPollInterval is the pause between two looks at a mesh.
const waitPollInterval = 250 * time.Millisecond

// awaitCondition asks all parties of a mesh until it meets a condition. A mesh that was seen and is
// forgotten has ended.
func awaitCondition(
	ctx context.Context, conn *mesh.Net, t target.Target, condition string,
) (r waitRecord, err error) {
	r.Condition = condition
	last := t.Name + " did not answer"
	for {
		v, missing, err := t.Inspect(ctx, conn)
		if ctx.Err() != nil {
			return r, cli.WithCode(cli.ExitTimeout, fmt.Errorf("it is not %s in time: %s", condition, last))
		}
		if r, last, err = r.after(v, missing, err); err != nil {
			return r, err
		}
		if r.Mesh != "" && r.isMet() {
			return r, nil
		}
		if r.ended {
			return r, fmt.Errorf("it will not be %s: %s", condition, last)
		}
		if v.World == nil && r.Mesh != "" {
			t.Name = r.Mesh // a later mesh of the name is another one
		}
		select {
		case <-time.After(waitPollInterval):
		case <-ctx.Done():
		}
	}
}

// after returns the record after another look at the mesh, and why it does not meet the condition.
func (r waitRecord) after(v inspect.View, missing, err error) (now waitRecord, why string, failed error) {
	seen := r.Mesh != ""
	_, silent := errors.AsType[*mesh.MissingHostsError](err)
	switch {
	case seen && silent: // it may be on them, or move from them to a spare
		return r, err.Error(), nil
	case seen && cli.ExitCode(err) == cli.ExitNotFound:
		now = waitRecord{Mesh: r.Mesh, Condition: r.Condition, Phase: agent.Stopped.String(), Ranks: r.Ranks}
		now.ended = true
		return now, r.Mesh + " is gone", nil
	case err != nil:
		return r, "", err
	case missing != nil: // a live mesh of the name may be on the silent hosts
		return r, missing.Error(), nil
	default:
		return newWaitRecord(v, r.Condition), v.Explanation().Answer, nil
	}
}

// newWaitRecord judges the view of a mesh.
func newWaitRecord(v inspect.View, condition string) waitRecord {
	r := waitRecord{Mesh: v.Mesh, Condition: condition, Phase: v.Phase, Running: v.Running(), Ranks: v.Ranks}
	r.live = v.Explanation().Healthy
	if v.World == nil {
		r.ended = inspect.Ended(v.Phase)
		return r
	}
	r.Status = v.World.Status
	r.live = r.live && r.Status == system.StatusLive && v.World.StoppingReason == ""
	return r
}

func showWaited(out *output.Printer, r waitRecord) error {
	columns := []string{"mesh", "condition", "phase", "status", "running", "after"}
	return output.Records(out, []waitRecord{r}, columns, func(r waitRecord) []string {
		return []string{
			r.Mesh, r.Condition, out.PaintStatus(r.Phase), text.OrDash(string(r.Status)),
			fmt.Sprintf("%d/%d", r.Running, r.Ranks), r.Took.Round(time.Millisecond).String(),
		}
	})
}
