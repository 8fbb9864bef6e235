package target

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// HostSelector selects hosts by name, or all, restricted by labels.
type HostSelector struct {
	Names  []string // Labels or IDs
	Labels map[string]string
}

// Find selects among the answering hosts. An unknown name is an error before anything is sent. The
// labels of silent hosts are known, their other labels are not. Find asks a named host again, for
// 5 s at most, unless it is dead.
func (p HostSelector) Find(ctx context.Context, conn *mesh.Net) (mesh.Inventory, []agent.HostInfo, error) {
	inv, err := conn.InventoryUntil(ctx, func(i mesh.Inventory) bool {
		return !slices.ContainsFunc(i.Silent(), func(h mesh.HostState) bool {
			return h.State != agent.HostDead && p.names(h.HostInfo)
		})
	})
	if err != nil {
		return inv, nil, err
	}
	picked, err := p.filter(inv.Hosts)
	_, unknown := errors.AsType[*mesh.NotFoundError](err)
	if unknown && (len(p.Labels) > 0 || inv.TimedOut || inv.NoHostList) {
		err = WithMissingHosts(inv, err)
	}
	return inv, picked, err
}

func (p HostSelector) filter(hosts []mesh.HostState) ([]agent.HostInfo, error) {
	for _, name := range p.Names {
		if err := p.checkName(hosts, name); err != nil {
			return nil, err
		}
	}
	var infos, out []agent.HostInfo
	for _, h := range hosts {
		if h.State != agent.HostAlive {
			continue
		}
		infos = append(infos, h.HostInfo)
		if p.Matches(h.HostInfo) {
			out = append(out, h.HostInfo)
		}
	}
	if len(out) == 0 && len(p.Labels) > 0 {
		return nil, &mesh.NotFoundError{
			What: "host with labels", Name: FormatLabels(p.Labels), Known: AllLabels(infos),
		}
	}
	return out, nil
}

// checkName refuses a name without an answering host.
func (p HostSelector) checkName(hosts []mesh.HostState, name string) error {
	var silent *mesh.HostState
	var known []string
	for _, h := range hosts {
		known = append(known, h.Label)
		switch {
		case !hostMatches(h.HostInfo, name):
		case h.State == agent.HostAlive:
			return nil
		default:
			silent = &h
		}
	}
	if silent != nil {
		return cli.WithCode(cli.ExitTimeout, fmt.Errorf("host %s is known, but does not answer", silent))
	}
	return &mesh.NotFoundError{What: "host", Name: name, Known: known}
}

// Attach returns a mesh of the selected hosts. It skips hosts that take no procs, unless named.
func (p HostSelector) Attach(
	ctx context.Context, conn *mesh.Net,
) (hosts mesh.HostMesh, passed []agent.HostInfo, err error) {
	if len(p.Names) == 0 && len(p.Labels) == 0 {
		hosts, err = conn.AllHosts(ctx)
	} else {
		var infos []agent.HostInfo
		_, infos, err = p.Find(ctx, conn)
		if err != nil {
			return hosts, nil, err
		}
		var ids []subjects.HostID
		for _, h := range infos {
			ids = append(ids, h.ID)
		}
		hosts, err = conn.Attach(ctx, "hosts", ids...)
	}
	if err != nil || len(p.Names) > 0 {
		return hosts, nil, err
	}
	open, closed := hosts.Schedulable()
	if open.Extent().NumRanks() == 0 {
		return hosts, nil, &mesh.UnschedulableError{Hosts: closed}
	}
	return open, closed, nil
}

// HostNames lists some hosts by label.
func HostNames(ids []subjects.HostID) string {
	var labels []string
	for _, id := range ids {
		labels = append(labels, id.Label())
	}
	return text.Names(labels)
}

func hostMatches(h agent.HostInfo, name string) bool { return h.Label == name || h.ID.String() == name }

// names reports whether the selector has the name of a host.
func (p HostSelector) names(h agent.HostInfo) bool {
	return slices.ContainsFunc(p.Names, func(n string) bool { return hostMatches(h, n) })
}

// Matches reports whether the host has one of the names, if any, and all the labels.
func (p HostSelector) Matches(h agent.HostInfo) bool {
	if len(p.Names) > 0 && !p.names(h) {
		return false
	}
	for key, value := range p.Labels {
		if got, ok := h.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// FormatLabels formats labels in flag syntax.
func FormatLabels(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ",")
}

func AllLabels(infos []agent.HostInfo) (all []string) {
	for _, h := range infos {
		for key, value := range h.Labels {
			all = append(all, key+"="+value)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// maxLogTroubles bounds the hosts in a LogTrouble.
const maxLogTroubles = 5

// LogTrouble says why hosts may lose output of procs, in one line; "": they keep it.
func LogTrouble(hosts []agent.HostInfo) string {
	var lost []string
	for _, h := range hosts {
		if h.LogTrouble != "" {
			lost = append(lost, h.Label+": "+h.LogTrouble)
		}
	}
	if n := len(lost) - maxLogTroubles; n > 0 {
		lost = append(lost[:maxLogTroubles], "and "+text.Pluralize(n, "more host"))
	}
	return strings.Join(lost, "; ")
}
