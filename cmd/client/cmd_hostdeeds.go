package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

// hostDeed is something to be done to hosts.
type hostDeed struct {
	name, short, long, done string
	stops                   bool // procs
	do                      func(ctx context.Context, host actor.Ref[agent.Agent], how deedFlags) (agent.Summary, error)
}

// deedFlags is how it is to be done.
type deedFlags struct {
	reason string
	grace  time.Duration
	atOnce int
}

// deedAllowance is what hosts get beyond the time that their procs may take.
const deedAllowance = 10 * time.Second

var hostDeeds = [...]hostDeed{
	{
		name: "cordon", short: "Close hosts for new procs", done: "cordoned",
		long: "Close hosts for new procs, until they are uncordoned. Those they have are not touched.",
		do: func(ctx context.Context, h actor.Ref[agent.Agent], f deedFlags) (agent.Summary, error) {
			_, err := agent.Cordon.Call(ctx, h, agent.Cordoning{On: true, Reason: f.reason})
			return agent.Summary{}, err
		},
	},
	{
		name: "uncordon", short: "Open hosts for new procs again", done: "open",
		long: "Open hosts for new procs again that were cordoned.",
		do: func(ctx context.Context, h actor.Ref[agent.Agent], f deedFlags) (agent.Summary, error) {
			_, err := agent.Cordon.Call(ctx, h, agent.Cordoning{Reason: f.reason})
			return agent.Summary{}, err
		},
	},
	{
		name: "drain", short: "Empty hosts, which stay: move their procs, or stop them", done: "drained", stops: true,
		long: `Empty the hosts. Meshes that have spare hosts (policy replace) move what they have there, one proc
of a mesh at a time or as many as --at-once says: it ends, and starts on the spare host as its next
generation. Every other proc is stopped: SIGTERM, and SIGKILL after the grace. Returns once none is
left. Meanwhile the hosts take no procs, and afterwards only those that are not cordoned.
` + "`client events -f`" + ` tells of each move; progress is on stderr, in lines where that is no terminal.`,
		do: func(ctx context.Context, h actor.Ref[agent.Agent], f deedFlags) (agent.Summary, error) {
			return agent.Drain.Call(ctx, h, agent.Draining{Reason: f.reason, Grace: f.grace, AtOnce: f.atOnce})
		},
	},
	{
		name: "shutdown", short: "Stop every proc of hosts, and then hostd", done: "shut down", stops: true,
		long: "Stop every proc of the hosts: SIGTERM, and SIGKILL after the grace. Then hostd itself ends.",
		do: func(ctx context.Context, h actor.Ref[agent.Agent], f deedFlags) (agent.Summary, error) {
			return agent.StopAll.Urge(ctx, h, agent.StoppingAll{Reason: f.reason, Grace: f.grace})
		},
	},
}

func (a *app) hostDeedCommand(d hostDeed, pick *hostPick) *cobra.Command {
	f := deedFlags{}
	c := &cobra.Command{
		Use: d.name + " HOST…", Short: d.short,
		Long: d.long + `

Hosts are named by label or ID; --label alone takes every host that has it.

JSON: host, id, result (` + d.done + ` or failed), error; asked, ended, killed and moved procs.`,
		Example:           fmt.Sprintf("  client hosts %s n07 n08 --reason 'new disks'\n  client hosts %s --label zone=a", d.name, d.name),
		ValidArgsFunction: a.completeEach(hostNames),
	}
	c.Flags().StringVar(&f.reason, "reason", "", "`WHY`, for others to read")
	if d.stops {
		readFlag(c.Flags(), &f.grace, "grace", "duration", "from SIGTERM to SIGKILL (default: the host's own)", readPause)
	}
	if d.name == "drain" {
		readFlag(c.Flags(), &f.atOnce, "at-once", "N", "procs that a host stops at a time, and a mesh moves, 1 to 256 (default: the host's own, and 1)", readAtOnce)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 && len(pick.labels) == 0 {
			return cli.Usagef("%s which hosts? want their labels, or --label KEY=VALUE; `client hosts` lists them", d.name)
		}
		p := hostPick{names: args, labels: pick.labels}
		return a.connected(c.Context(), func(net *mesh.Net) error { return a.doToHosts(c.Context(), net, d, p, f) })
	}
	return c
}

// readAtOnce reads how many procs are stopped at a time.
func readAtOnce(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 256 {
		return 0, fmt.Errorf("want a whole number from 1 to 256")
	}
	return n, nil
}

// deedRecord is what came of one host; its JSON names are stable.
type deedRecord struct {
	Host   string `json:"host"`
	ID     string `json:"id"`
	Result string `json:"result"`
	Asked  int    `json:"asked"`
	Ended  int    `json:"ended"`
	Killed int    `json:"killed"`
	Moved  int    `json:"moved,omitempty"`
	Error  string `json:"error,omitempty"`
}

// doToHosts does it to all of them at the same time.
func (a *app) doToHosts(ctx context.Context, net *mesh.Net, d hostDeed, pick hostPick, f deedFlags) error {
	infos, err := pick.find(ctx, net)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.deedLimit(d, f, infos))
	defer cancel()
	records := make([]deedRecord, len(infos))
	all := make(chan struct{})
	var wg sync.WaitGroup
	for i, h := range infos {
		wg.Go(func() {
			done, err := d.do(ctx, agent.Of(h.ID.Proc()).Via(net.Proc()), f)
			records[i] = d.record(h, done, err)
		})
	}
	go func() {
		wg.Wait()
		close(all)
	}()
	a.watchDeed(ctx, net, infos, d, all)
	return a.showDeeds(d, records)
}

// deedLimit is how long it may take: procs that do not heed SIGTERM have their grace, so many at a time.
func (a *app) deedLimit(d hostDeed, f deedFlags, infos []agent.HostInfo) time.Duration {
	if !d.stops {
		return a.conn.Timeout
	}
	grace, atOnce, most := f.grace, f.atOnce, 1
	if grace == 0 {
		grace = agent.DefaultGrace
	}
	if atOnce == 0 {
		atOnce = 1 // as many as a mesh moves
	}
	for _, h := range infos {
		most = max(most, h.Procs)
	}
	return max(a.conn.Timeout, time.Duration((most+atOnce-1)/atOnce)*(grace+deedAllowance)+deedAllowance)
}

// record says what came of a host.
func (d hostDeed) record(h agent.HostInfo, done agent.Summary, err error) deedRecord {
	r := deedRecord{Host: h.Label, ID: h.ID.String(), Result: d.done, Asked: done.Asked, Ended: done.Ended, Killed: done.Failed, Moved: done.Moved}
	switch {
	case err != nil:
		r.Result, r.Error = "failed", err.Error()
	case done.Ended < done.Asked:
		r.Result, r.Error = "failed", fmt.Sprintf("%s left", count(done.Asked-done.Ended, "proc"))
	}
	return r
}

// deedLook is how often hosts are asked how many procs they have left.
const deedLook = 300 * time.Millisecond

// watchDeed shows how many procs are left until all is done.
func (a *app) watchDeed(ctx context.Context, net *mesh.Net, infos []agent.HostInfo, d hostDeed, all <-chan struct{}) {
	bar := a.newPlainProgress()
	defer bar.clear()
	total := 0
	for _, h := range infos {
		total += h.Procs
	}
	if !d.stops || total == 0 {
		<-all // ctx ends it at the latest
		return
	}
	tick := time.NewTicker(deedLook)
	defer tick.Stop()
	bar.step(0, total, d.progress())
	for {
		select {
		case <-all:
			return
		case <-tick.C:
			left := 0
			for _, h := range infos {
				now, err := agent.Info.Call(ctx, agent.Of(h.ID.Proc()).Via(net.Proc()), actor.None{})
				if err == nil {
					left += now.Procs
				}
			}
			bar.step(max(0, total-left), total, d.progress())
		}
	}
}

// progress is what the bar counts.
func (d hostDeed) progress() string {
	if d.name == "drain" {
		return "procs have moved or ended"
	}
	return "procs have ended"
}

// showDeeds shows what came of each host. Some that failed are a partial failure.
func (a *app) showDeeds(d hostDeed, records []deedRecord) error {
	columns := []string{"host", "result"}
	if d.stops {
		columns = append(columns, "procs")
	}
	failed, last := 0, ""
	for _, r := range records {
		if r.Error != "" {
			failed, last = failed+1, r.Error
		}
	}
	if failed > 0 {
		columns = append(columns, "error")
	}
	err := show(a, records, columns, func(r deedRecord) []string {
		colour := green
		if r.Error != "" {
			colour = red
		}
		row := []string{r.Host, a.paint(colour, r.Result)}
		if d.stops {
			procs := fmt.Sprintf("%d ended", r.Ended)
			if r.Killed > 0 {
				procs += fmt.Sprintf(", %d of them badly", r.Killed)
			}
			if r.Moved > 0 {
				procs += fmt.Sprintf(", %d moved", r.Moved)
			}
			row = append(row, procs)
		}
		if failed > 0 {
			row = append(row, orDash(shorten(r.Error, 80)))
		}
		return row
	})
	switch {
	case err != nil || failed == 0:
		return err
	case len(records) == 1:
		return fmt.Errorf("%s %s: %s", d.name, records[0].Host, last)
	case failed == len(records):
		return fmt.Errorf("%s: all of %s failed", d.name, count(failed, "host"))
	}
	return cli.WithCode(cli.ExitPartial, fmt.Errorf("%s: %d of %s failed", d.name, failed, count(len(records), "host")))
}
