package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/candidates"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/heldmesh"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

func growCommand(a *app.App) *cobra.Command {
	var invite inviting
	c := resizeCommand(a, &cobra.Command{
		Use:   "grow MESH [N]",
		Short: "Add hosts to a mesh",
		Long: `Start procs of a running mesh, and their actors, on N more hosts or on those of --hosts. N hosts
are those with the fewest procs that take procs; hosts and spares of the mesh are left out. The added
hosts come last in the first dimension of the mesh, so no rank changes its number. If a proc or an
actor does not start, the mesh stays as it was.

The owner of the mesh does the work. Actors follow if they have an owner: those of castnet up, of
castnet spawn without --detach, and of a program. A detached mesh has to be adopted first. Worlds do
not grow. --timeout bounds the search for hosts, and mesh.spawn-timeout the start.

With --invite the command adds nothing. It prints an invite, or writes it to the file of --out. The
invite is a secret. A hostd with that label joins the mesh with it, once: hostd --join-mesh FILE. An
invite ends after --for, and with the owner of the mesh. An owner keeps 64 invites.

JSON: for each added host mesh, host, id, region, ranks, result (added). Of an invite mesh, host,
valid_for, and file or invite.`,
		Example: "  castnet grow demo 2\n  castnet grow demo --hosts n07,n08\n" +
			"  castnet grow demo --invite n09 --for 1h --out n09.invite",
	}, grow)
	invite.register(a, c)
	return c
}

func shrinkCommand(a *app.App) *cobra.Command {
	return resizeCommand(a, &cobra.Command{
		Use:   "shrink MESH [N]",
		Short: "Remove the last hosts of a mesh",
		Long: `Stop the procs of a mesh on its last N hosts, after their actors: SIGTERM, and SIGKILL after the
grace. The other ranks go on, and keep their numbers. A mesh shrinks from its end only: --hosts names
the last hosts, as a check. ` + "`castnet hosts drain`" + ` empties any host whose mesh has a spare.

The owner of the mesh does the work. A detached mesh has to be adopted first. Worlds do not shrink.
--timeout bounds the search for the mesh, and mesh.stop-timeout the stop.

JSON: for each removed host mesh, host, id, region, ranks, result (removed).`,
		Example: "  castnet shrink demo 1\n  castnet shrink demo --hosts n08",
	}, shrink)
}

// resize changes the hosts of a mesh, by number or by name, and reports each added or removed host.
type resize func(
	ctx context.Context, a *app.App, conn *mesh.Net, p mesh.ProcMesh, hosts int, names []string,
) ([]resizeRecord, error)

func resizeCommand(a *app.App, c *cobra.Command, change resize) *cobra.Command {
	var hosts string
	c.Flags().StringVar(&hosts, "hosts", "", "`HOSTS` by label or ID, with commas between, in place of N")
	_ = c.RegisterFlagCompletionFunc("hosts", a.CompleteList(candidates.Hosts))
	c.Args = flags.WantArgs(1, 2)
	c.ValidArgsFunction = a.Complete(candidates.Meshes)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := target.ParseMesh(args[0], c.Name())
		if err != nil {
			return err
		}
		if (len(args) == 2) == (hosts != "") {
			return cli.Usagef("%s: want either a number of hosts, or --hosts with their names", c.Name())
		}
		n := 0
		var names []string
		if hosts != "" {
			names = strings.Split(hosts, ",")
		} else {
			n, err = flags.Count(args[1])
			if err != nil {
				return cli.Usagef("number of hosts %q: %w", args[1], err)
			}
		}
		return a.WithNet(c.Context(), func(conn *mesh.Net) error {
			find, cancel := context.WithTimeout(c.Context(), a.Conn.Timeout)
			defer cancel()
			p, err := t.Resolve(find, conn)
			if err != nil {
				return err
			}
			records, err := change(c.Context(), a, conn, p.Procs, n, names)
			if err != nil {
				return err
			}
			return showResized(a.Printer, records)
		})
	}
	return c
}

func grow(
	ctx context.Context, a *app.App, conn *mesh.Net, p mesh.ProcMesh, n int, names []string,
) ([]resizeRecord, error) {
	find, cancel := context.WithTimeout(ctx, a.Conn.Timeout)
	defer cancel()
	hosts, _, err := target.HostSelector{Names: names}.Attach(find, conn)
	if err == nil && len(names) == 0 {
		hosts, err = freeHosts(find, conn, p, hosts, n)
	}
	if err != nil {
		return nil, err
	}
	bar := a.NewProgress()
	defer bar.Clear()
	n = hosts.Extent().NumRanks()
	bar.Message(fmt.Sprintf("starting %s on %s", text.Pluralize(n*p.Describe().PerHost, "proc"),
		text.Pluralize(n, "host")))
	grown, err := p.Grow(ctx, hosts)
	if err != nil {
		return nil, heldmesh.ExplainSpawnError(err)
	}
	return resizeRecords(grown, n, "added")
}

// freeHosts returns the n of some hosts with the fewest procs, without those of a mesh and its
// spares.
func freeHosts(
	ctx context.Context, conn *mesh.Net, p mesh.ProcMesh, of mesh.HostMesh, n int,
) (mesh.HostMesh, error) {
	owner := actor.RefOf[agent.Agent](p.Describe().Owner).Via(conn.Proc())
	r, err := controller.Health.CallUrgent(ctx, owner, actor.None{})
	if err != nil {
		return mesh.HostMesh{}, err
	}
	used := slices.Concat(r.Procs.Hosts, r.RestartPolicy.Spares)
	infos := slices.DeleteFunc(of.Infos(), func(i agent.HostInfo) bool { return slices.Contains(used, i.ID) })
	if len(infos) < n {
		return mesh.HostMesh{}, fmt.Errorf("cannot grow %s by %s: %d of them free: `castnet hosts` lists them",
			p.ID(), text.Pluralize(n, "host"), len(infos))
	}
	slices.SortStableFunc(infos, func(a, b agent.HostInfo) int { return cmp.Compare(a.Procs, b.Procs) })
	var ids []subjects.HostID
	for _, i := range infos[:n] {
		ids = append(ids, i.ID)
	}
	return conn.Attach(ctx, "hosts", ids...)
}

func shrink(
	ctx context.Context, a *app.App, _ *mesh.Net, p mesh.ProcMesh, n int, names []string,
) ([]resizeRecord, error) {
	if len(names) > 0 {
		n = len(names)
	}
	if hosts := len(p.Describe().Hosts); n >= hosts {
		return nil, cli.Usagef("shrink by %s: mesh %s has %d: `castnet stop` ends it", text.Pluralize(n, "host"),
			p.ID(), hosts)
	}
	records, err := resizeRecords(p, n, "removed")
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if len(names) > 0 && !slices.Contains(names, r.Host) && !slices.Contains(names, r.ID) {
			return nil, cli.Usagef("--hosts %s: mesh %s shrinks from its end: the last %s %s",
				strings.Join(names, ","), p.ID(), text.Pluralize(n, "host"), hostLabels(records))
		}
	}
	bar := a.NewProgress()
	defer bar.Clear()
	bar.Message(fmt.Sprintf("stopping %s on %s", text.Pluralize(n*p.Describe().PerHost, "proc"),
		text.Pluralize(n, "host")))
	_, err = p.Shrink(ctx, n)
	return records, err
}

// hostLabels names hosts in an error: is a, or are a and b.
func hostLabels(records []resizeRecord) string {
	var labels []string
	for _, r := range records {
		labels = append(labels, r.Host)
	}
	if len(labels) == 1 {
		return "is " + labels[0]
	}
	return "are " + strings.Join(labels, ", ")
}

// resizeRecord is an added or removed host of a mesh. Its JSON names are stable.
type resizeRecord struct {
	Mesh   string `json:"mesh"`
	Host   string `json:"host"`
	ID     string `json:"id"`
	Region string `json:"region"` // of its ranks
	Ranks  int    `json:"ranks"`
	Result string `json:"result"`
}

// resizeRecords describes the last n hosts of a mesh.
func resizeRecords(p mesh.ProcMesh, n int, result string) (records []resizeRecord, err error) {
	d := p.Describe()
	for at := len(d.Hosts) - n; at < len(d.Hosts); at++ {
		host, err := p.Host(at * d.PerHost)
		if err != nil {
			return nil, err
		}
		region, err := hostRegion(d, at)
		if err != nil {
			return nil, err
		}
		records = append(records, resizeRecord{
			Mesh: p.ID().String(), Host: host.Label(), ID: host.String(), Region: region, Ranks: d.PerHost,
			Result: result,
		})
	}
	return records, nil
}

func showResized(out *output.Printer, records []resizeRecord) error {
	columns := []string{"mesh", "host", "region", "procs", "result"}
	return output.Records(out, records, columns, func(r resizeRecord) []string {
		return []string{r.Mesh, r.Host, r.Region, strconv.Itoa(r.Ranks), out.Paint(output.Green, r.Result)}
	})
}
