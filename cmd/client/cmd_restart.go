package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	"github.com/castnet-io/castnet/subjects"
)

func meshRestartCommand(a *app.App) *cobra.Command {
	var r mesh.RollingRestart
	c := &cobra.Command{
		Use:   "restart MESH[region]",
		Short: "Restart procs, one after another",
		Long: `Restart the procs of a mesh in place, one at a time or --max-unavailable at a time: SIGTERM, and
SIGKILL after the grace. The next proc follows once this one and its actors run again. If a proc does
not come back, the restart stops and the remaining procs are unchanged. The owner of the mesh does
the work: its live program, or the system controller for a detached mesh. --timeout has no effect.

Actors come back if their owner answers and their restart policy is transient (castnet up --restart
transient), as they were when they were made. If any would be lost, they are named, and nothing is
restarted without --force. The actors of a detached mesh have no owner.

JSON: mesh, rank (of the whole mesh), point, host, status, reason, took (nanoseconds). NDJSON: one
line as each restart ends.`,
		Example: "  castnet mesh restart demo\n  castnet mesh restart 'demo[host=0]' " +
			"--max-unavailable 2 --reason 'new data'",
		Args:              flags.WantArgs(1, 1),
		ValidArgsFunction: a.Complete(candidates.MeshesAndWorlds),
	}
	rollingFlags(c, &r)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := target.Parse(args[0])
		if err != nil {
			return err
		}
		return a.WithNet(c.Context(), func(conn *mesh.Net) error {
			find, cancel := context.WithTimeout(c.Context(), a.Conn.Timeout)
			defer cancel()
			p, err := t.Resolve(find, conn)
			if err != nil {
				return err
			}
			restarted, err := restartRanks(c.Context(), a.Printer, []target.Resolved{p}, r)
			if err == nil && restarted == 0 {
				err = fmt.Errorf("restart %s: no rank of it runs: `castnet explain %s` says why", t, t.Name)
			}
			return err
		})
	}
	return c
}

func hostsRestartCommand(a *app.App, pick *target.HostSelector) *cobra.Command {
	var r mesh.RollingRestart
	c := &cobra.Command{
		Use:   "restart HOST…",
		Short: "Restart the procs of hosts, one after another",
		Long: `Restart the procs on the hosts in place: host by host, mesh by mesh, and each mesh as with
` + "`castnet mesh restart`" + `. The owner of each mesh does the work: its program, or the system controller for
a detached mesh. The restart stops at the first proc that does not come back. If actors of any mesh
would be lost, nothing restarts without --force. hostd itself keeps running. Hosts with procs of a
world are refused first: those procs restart with their hostd. --timeout has no effect.

Hosts are named by label or ID; --label alone takes every host that has it.

JSON: as with ` + "`castnet mesh restart`" + `.`,
		Example: "  castnet hosts restart n07 n08 --reason 'new data'\n  castnet hosts restart " +
			"--label zone=a --max-unavailable 2",
		ValidArgsFunction: a.CompleteEach(candidates.Hosts),
	}
	rollingFlags(c, &r)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 && len(pick.Labels) == 0 {
			return cli.Usagef(
				"hosts restart: want the labels of hosts, or --label KEY=VALUE; `castnet hosts` lists them",
			)
		}
		p := target.HostSelector{Names: args, Labels: pick.Labels}
		return a.WithNet(c.Context(), func(conn *mesh.Net) error {
			find, cancel := context.WithTimeout(c.Context(), a.Conn.Timeout)
			defer cancel()
			places, err := targetsOnHosts(find, conn, p)
			if err != nil {
				return err
			}
			if len(places) == 0 {
				a.Notef("no mesh has procs there")
			}
			_, err = restartRanks(c.Context(), a.Printer, places, r)
			return err
		})
	}
	return c
}

// rollingFlags adds the flags of a rolling restart.
func rollingFlags(c *cobra.Command, r *mesh.RollingRestart) {
	c.Flags().StringVar(&r.Reason, "reason", "", "`REASON` to record")
	flags.Add(
		c.Flags(), &r.Grace, "grace", "duration",
		"from SIGTERM to SIGKILL (default: that of the program that made the mesh)", flags.PositiveDuration,
	)
	c.Flags().BoolVar(&r.Force, "force", false, "restart even if actors are lost")
	flags.Add(
		c.Flags(), &r.MaxUnavailable, "max-unavailable", "N", "procs that restart at a time, 1 to 256 (default: 1)",
		flags.Concurrency,
	)
}

// targetsOnHosts returns the parts of live meshes on the selected hosts, host by host.
func targetsOnHosts(
	ctx context.Context, conn *mesh.Net, pick target.HostSelector,
) (places []target.Resolved, err error) {
	inv, infos, err := pick.Find(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, h := range infos {
		for _, m := range inv.Meshes {
			if !m.Alive() {
				continue
			}
			t := target.Target{Name: m.Procs.ID().String()}
			procs, err := inv.Lookup(t.Name)
			if err != nil {
				return nil, err
			}
			at := hostIndex(procs, h.ID)
			if at < 0 {
				continue
			}
			if w := procs.Describe().World; w != nil {
				return nil, fmt.Errorf("host %s has procs of world %s, which restart with their hostd: stop hostd "+
					"(SIGTERM) and start it again; "+
					"`castnet mesh restart` restarts procs of other meshes", h.Label, w.World)
			}
			t.Region, err = hostRegion(procs.Describe(), at)
			if err != nil {
				return nil, err
			}
			p, err := t.ResolveIn(procs)
			if err != nil {
				return nil, err
			}
			places = append(places, p)
		}
	}
	return places, nil
}

// hostIndex returns the index of a host in a mesh, or -1.
func hostIndex(p mesh.ProcMesh, id subjects.HostID) int {
	d := p.Describe()
	for at := range d.Hosts {
		if host, err := p.Host(at * d.PerHost); err == nil && host == id {
			return at
		}
	}
	return -1
}

// hostRegion returns the region of a mesh on one host, in target syntax.
func hostRegion(m agent.Mesh, place int) (string, error) {
	point, err := m.Extent.Point(place * m.PerHost)
	if err != nil {
		return "", err
	}
	var dims []string
	hosts := 1
	for _, dim := range m.Extent.Dims() {
		if hosts == len(m.Hosts) {
			break
		}
		i, _ := point.Coord(dim.Label)
		dims = append(dims, fmt.Sprintf("%s=%d", dim.Label, i))
		hosts *= dim.Size
	}
	return strings.Join(dims, ","), nil
}

// restartRecord is the result for one proc. Its JSON names are stable.
type restartRecord struct {
	Mesh   string        `json:"mesh"`
	Rank   int           `json:"rank"`
	Point  string        `json:"point"`
	Host   string        `json:"host"`
	Status string        `json:"status"`
	Reason string        `json:"reason,omitempty"`
	Took   time.Duration `json:"took"`
}

// restartRanks restarts the live ranks and counts them. It reports each one: as a line for scripts,
// else as a bar with a table at the end.
func restartRanks(
	ctx context.Context, out *output.Printer, places []target.Resolved, r mesh.RollingRestart,
) (restarted int, err error) {
	if len(places) > 1 && !r.Force { // a single target checks itself
		var lost []error
		for _, p := range places {
			lost = append(lost, p.Procs.CheckRestart(ctx))
		}
		if err := errors.Join(lost...); err != nil {
			return 0, suggestForce(err)
		}
	}
	bar := out.NewLineProgress()
	began := time.Now()
	of := 0
	if out.Format == output.NDJSON {
		bar = out.NewProgress()
	}
	for _, p := range places {
		of += p.Procs.Extent().NumRanks()
	}
	defer bar.Clear()
	bar.Update(0, of, "procs run again")
	var records []restartRecord
	var writing error
	for i := 0; i < len(places) && err == nil; i++ {
		r.OnRank = func(s mesh.RankStatus) {
			records = append(records, newRestartRecord(places[i], s, time.Since(began)))
			if out.Format == output.NDJSON && writing == nil {
				writing = out.WriteJSONLine(records[len(records)-1])
			}
			bar.Update(len(records), of, "procs run again")
		}
		err = places[i].Procs.Restart(ctx, r)
		if err != nil && i+1 < len(places) {
			err = fmt.Errorf("%w\n  %s after it were not restarted", err, text.Pluralize(len(places)-i-1, "share"))
		}
	}
	bar.Clear()
	if out.Format != output.NDJSON {
		writing = showRestarted(out, records)
	}
	var failed *mesh.RestartError
	if errors.As(err, &failed) && len(records) > len(failed.Failed) {
		err = cli.WithCode(cli.ExitPartial, err)
	}
	return len(records), errors.Join(writing, suggestForce(err))
}

// suggestForce adds advice to an error about lost actors or ranks.
func suggestForce(err error) error {
	lost, is := errors.AsType[*mesh.LostActorsError](err)
	if _, ends := errors.AsType[*mesh.NoSpareError](err); ends && !is {
		return fmt.Errorf("%w\nnothing was drained: --force drains in any case", err)
	}
	if !is {
		return err
	}
	return fmt.Errorf("%w\nnothing was %sed: --force %ss the procs without these actors;\n"+
		"actors of a mesh that was made with --restart transient come back", err, lost.Verb, lost.Verb)
}

// newRestartRecord converts the final status of a rank.
func newRestartRecord(p target.Resolved, s mesh.RankStatus, took time.Duration) restartRecord {
	return restartRecord{
		Mesh: p.Procs.ID().String(), Rank: s.Rank, Point: inspect.Point(
			p.Base, s.Rank,
		), Host: s.Host, Status: s.Status.Phase.String(),
		Reason: s.Status.Reason, Took: took,
	}
}

func showRestarted(out *output.Printer, records []restartRecord) error {
	columns := []string{"mesh", "rank", "point", "host", "status", "after", "reason"}
	return output.Records(out, records, columns, func(r restartRecord) []string {
		return []string{
			r.Mesh, strconv.Itoa(r.Rank), r.Point, text.HostLabel(r.Host), out.PaintStatus(r.Status), r.Took.Round(
				time.Millisecond,
			).String(),
			text.Reason(r.Reason),
		}
	})
}
