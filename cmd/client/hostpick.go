package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// hostPick says which hosts are meant: those named, or all; and of these, those with the labels.
type hostPick struct {
	names  []string // labels or IDs
	labels map[string]string
}

// readLabels reads what hosts must be labelled with, such as zone=a,disk=nvme.
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

// of picks among the hosts there are. A name that none has is an error, before anything is asked.
func (p hostPick) of(infos []agent.HostInfo) ([]agent.HostInfo, error) {
	for _, name := range p.names {
		if !slices.ContainsFunc(infos, func(h agent.HostInfo) bool { return hostIs(h, name) }) {
			var known []string
			for _, h := range infos {
				known = append(known, h.Label)
			}
			return nil, &mesh.NotFoundError{What: "host", Name: name, Known: known}
		}
	}
	var out []agent.HostInfo
	for _, h := range infos {
		if p.takes(h) {
			out = append(out, h)
		}
	}
	if len(out) == 0 && len(p.labels) > 0 {
		return nil, &mesh.NotFoundError{What: "host labelled", Name: labelText(p.labels), Known: everyLabel(infos)}
	}
	return out, nil
}

// attach is a mesh of those that are picked.
func (p hostPick) attach(ctx context.Context, net *mesh.Net) (mesh.HostMesh, error) {
	hosts, err := net.Hosts(ctx)
	if err != nil || len(p.names) == 0 && len(p.labels) == 0 {
		return hosts, err
	}
	infos, err := p.of(hosts.Infos())
	if err != nil {
		return hosts, err
	}
	var ids []subjects.HostID
	for _, h := range infos {
		ids = append(ids, h.ID)
	}
	return net.Attach(ctx, hosts.Name(), ids...)
}

func hostIs(h agent.HostInfo, name string) bool { return h.Label == name || h.ID.String() == name }

func (p hostPick) takes(h agent.HostInfo) bool {
	if len(p.names) > 0 && !slices.ContainsFunc(p.names, func(n string) bool { return hostIs(h, n) }) {
		return false
	}
	for key, value := range p.labels {
		if got, ok := h.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// labelText writes labels as --label reads them.
func labelText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ",")
}

func everyLabel(infos []agent.HostInfo) (all []string) {
	for _, h := range infos {
		for key, value := range h.Labels {
			all = append(all, key+"="+value)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hostNames are the labels of the live hosts.
func hostNames(ctx context.Context, net *mesh.Net, taken []string) ([]string, error) {
	hosts, err := net.Hosts(ctx)
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

// hostLabelPairs are the labels that live hosts have.
func hostLabelPairs(ctx context.Context, net *mesh.Net, _ []string) ([]string, error) {
	hosts, err := net.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	return everyLabel(hosts.Infos()), nil
}
