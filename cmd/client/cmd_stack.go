package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/stacks"
	"github.com/castnet-io/castnet/mesh"
)

// maxProfiled bounds the ranks of one command: each answer is a profile.
const maxProfiled = 1024

func stackCommand(a *app.App) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "stack MESH[region]",
		Short: "Show what the goroutines of ranks are doing, equal stacks once",
		Long: `Show the stacks of all goroutines in the procs of a mesh, or of a region of it. Equal stacks are one
group with its ranks and its number of goroutines. It also works while a handler does not return.

Stacks without code of the program are left out, except with --all. The exit code is 4 if a rank did
not answer.

JSON: region, ranks, goroutines, frames (function file:line, the innermost first).`,
		Example:           "  castnet stack demo\n  castnet stack 'demo[host=0]' --all",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.Meshes),
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also stacks of castnet and Go alone")
	c.RunE = func(c *cobra.Command, args []string) error {
		r := agent.ProfileRequest{Kind: agent.ProfileGoroutines}
		return takeProfiles(c.Context(), a, args[0], r, func(p target.Resolved, profiles map[int][]byte) error {
			grouped, err := stacks.Group(p.Base, profiles, all)
			if err != nil {
				return err
			}
			if a.Printer.Format == output.Table {
				if len(grouped) == 0 {
					a.Printer.Notef("no goroutine runs code of the program; --all shows those of castnet and Go")
				}
				return stacks.Print(a.Printer.Stdout, grouped)
			}
			return output.Records(a.Printer, grouped, nil, nil)
		})
	}
	return c
}

func profileCommand(a *app.App) *cobra.Command {
	var cpu time.Duration
	var heap bool
	var file string
	c := &cobra.Command{
		Use:   "profile MESH[region]",
		Short: "Take a CPU or heap profile of ranks, merged into one file",
		Long: `Take a profile of each process of a mesh, or of a region of it, at the same time. The sum is one file
in the format of go tool pprof. A heap profile shows the memory in use.

The exit code is 4 if a rank did not answer; the file then has the others.`,
		Example: `  castnet profile demo --cpu 10s
  castnet profile 'demo[host=0]' --heap --file heap.pprof
  go tool pprof -top cpu.pprof`,
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.Meshes),
	}
	flags.Add(c.Flags(), &cpu, "cpu", "DURATION", "processor time for this long", flags.PositiveDuration)
	c.Flags().BoolVar(&heap, "heap", false, "memory in use")
	c.Flags().StringVar(&file, "file", "", "the `FILE` to write (default cpu.pprof or heap.pprof)")
	c.RunE = func(c *cobra.Command, args []string) error {
		r := agent.ProfileRequest{Kind: agent.ProfileHeap}
		if cpu > 0 {
			r = agent.ProfileRequest{Kind: agent.ProfileCPU, Duration: cpu}
		}
		if heap == (cpu > 0) {
			return cli.Usagef("profile: want either --cpu DURATION or --heap")
		}
		if err := r.Check(); err != nil {
			return cli.Usagef("%s", err)
		}
		if file == "" {
			file = string(r.Kind) + ".pprof"
		}
		return takeProfiles(c.Context(), a, args[0], r, func(_ target.Resolved, profiles map[int][]byte) error {
			return writeProfile(a, file, profiles)
		})
	}
	return c
}

func writeProfile(a *app.App, file string, profiles map[int][]byte) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := errors.Join(stacks.Merge(f, profiles), f.Close()); err != nil {
		return fmt.Errorf("cannot write %s: %w", file, err)
	}
	a.Printer.Notef("%s: %d processes; see go tool pprof -top %s", file, len(profiles), file)
	return nil
}

// takeProfiles takes the profiles of a target and shows them. Ranks without an answer are an error
// afterwards.
func takeProfiles(ctx context.Context, a *app.App, name string, r agent.ProfileRequest,
	show func(target.Resolved, map[int][]byte) error) error {
	t, err := target.Parse(name)
	if err != nil {
		return err
	}
	return a.WithNet(ctx, func(conn *mesh.Net) error {
		ctx, cancel := context.WithTimeout(ctx, a.Conn.Timeout+r.Duration)
		defer cancel()
		p, err := t.Resolve(ctx, conn)
		if err != nil {
			return err
		}
		if n := p.Region.NumRanks(); n > maxProfiled {
			return cli.Usagef("%s has %d ranks: want a region of at most %d", t, n, maxProfiled)
		}
		found, err := p.Procs.Profile(ctx, r)
		if _, partial := errors.AsType[*cast.CoverageError](err); err != nil && !partial {
			return err
		}
		profiles := map[int][]byte{}
		for view, data := range found.Values() {
			if len(data) > 0 {
				profiles[p.Rank(view)] = data
			}
		}
		if len(profiles) == 0 {
			return err
		}
		return errors.Join(show(p, profiles), err)
	})
}
