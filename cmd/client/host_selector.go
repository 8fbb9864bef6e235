package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// hostSelector selects hosts by name, or all, restricted by labels.
type hostSelector struct {
	names  []string // labels or IDs
	labels map[string]string
}

// readLabels parses required labels such as zone=a,disk=nvme.
func readLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || subjects.CheckLabel("key", key) != nil {
			return nil, fmt.Errorf("want KEY=VALUE, several with commas between, such as zone=a,disk=nvme")
		}
		labels[key] = value
	}
	return labels, nil
}

// find selects among the answering hosts. An unknown name is an error before anything is sent. The
// labels of silent hosts are known, their other labels are not.
func (p hostSelector) find(ctx context.Context, net *mesh.Net) (mesh.Inventory, []agent.HostInfo, error) {
	inv, err := net.Inventory(ctx)
	if err != nil {
		return inv, nil, err
	}
	picked, err := p.filter(inv.Hosts)
	_, unknown := errors.AsType[*mesh.NotFoundError](err)
	if unknown && (len(p.labels) > 0 || inv.TimedOut || inv.NoHostList) {
		err = withMissingHosts(inv, err)
	}
	return inv, picked, err
}

func (p hostSelector) filter(hosts []mesh.HostState) ([]agent.HostInfo, error) {
	for _, name := range p.names {
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
		if p.matches(h.HostInfo) {
			out = append(out, h.HostInfo)
		}
	}
	if len(out) == 0 && len(p.labels) > 0 {
		return nil, &mesh.NotFoundError{What: "host labelled", Name: formatLabels(p.labels), Known: allLabels(infos)}
	}
	return out, nil
}

// checkName refuses a name without an answering host.
func (p hostSelector) checkName(hosts []mesh.HostState, name string) error {
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

// attach returns a mesh of the selected hosts. It skips hosts that take no procs, unless named.
func (p hostSelector) attach(ctx context.Context, net *mesh.Net) (hosts mesh.HostMesh, passed []agent.HostInfo, err error) {
	if len(p.names) == 0 && len(p.labels) == 0 {
		hosts, err = net.AllHosts(ctx)
	} else {
		var infos []agent.HostInfo
		_, infos, err = p.find(ctx, net)
		if err != nil {
			return hosts, nil, err
		}
		var ids []subjects.HostID
		for _, h := range infos {
			ids = append(ids, h.ID)
		}
		hosts, err = net.Attach(ctx, "hosts", ids...)
	}
	if err != nil || len(p.names) > 0 {
		return hosts, nil, err
	}
	open, closed := hosts.Schedulable()
	if open.Extent().NumRanks() == 0 {
		return hosts, nil, &mesh.UnschedulableError{Hosts: closed}
	}
	return open, closed, nil
}

func hostMatches(h agent.HostInfo, name string) bool { return h.Label == name || h.ID.String() == name }

func (p hostSelector) matches(h agent.HostInfo) bool {
	if len(p.names) > 0 && !slices.ContainsFunc(p.names, func(n string) bool { return hostMatches(h, n) }) {
		return false
	}
	for key, value := range p.labels {
		if got, ok := h.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// formatLabels formats labels in flag syntax.
func formatLabels(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ",")
}

func allLabels(infos []agent.HostInfo) (all []string) {
	for _, h := range infos {
		for key, value := range h.Labels {
			all = append(all, key+"="+value)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hostNames returns the labels of live hosts.
func hostNames(ctx context.Context, net *mesh.Net, taken []string) ([]string, error) {
	hosts, err := net.AllHosts(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, h := range hosts.Infos() {
		if !slices.Contains(taken, h.Label) {
			names = append(names, h.Label)
		}
	}
	return names, nil
}

// hostLabelPairs returns the key-value labels of live hosts.
func hostLabelPairs(ctx context.Context, net *mesh.Net, _ []string) ([]string, error) {
	hosts, err := net.AllHosts(ctx)
	if err != nil {
		return nil, err
	}
	return allLabels(hosts.Infos()), nil
}
