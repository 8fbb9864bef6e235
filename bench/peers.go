package main

import (
	"slices"

	"github.com/castnet-io/castnet/bench/local"
)

// peer is an actor library that ours is measured against.
type peer struct {
	name, version string // of its module
	dir           string // of its program; also its name in the folder where all are built
	args          []string
	variant       string // what the args stand for in the report; "" for its defaults
}

func (p peer) String() string {
	s := p.name + "@" + p.version
	if p.variant != "" {
		s += "/" + p.variant
	}
	return s
}

// peers are all there are, with their defaults.
func peers() []peer {
	return []peer{
		{name: "hollywood", version: "v1.0.5", dir: "hollywood"},
		{name: "protoactor-go", version: "v0.0.0-20240822202345-3c0e61ca19c9", dir: "protoactor"},
		{name: "goakt", version: "v4.2.13", dir: "goakt"},
	}
}

// peersFor are the peers of a workload within a process. Hollywood's inbox takes 28 KB of an actor
// by default; in workloads that make actors it takes part with a small inbox, too.
func peersFor(w local.Workload) []peer {
	all := peers()
	switch w.Name {
	case "rss-per-million-actors": // by default hollywood would take 28 GB
		all[0].args, all[0].variant = []string{"-inbox", "16"}, "inbox16"
		all = slices.DeleteFunc(all, func(p peer) bool { return p.name == "goakt" }) // it needs more than local.Patience
	case "spawn-time", "spawn-bytes", "savina-forkjoin-create":
		small := all[0]
		small.args, small.variant = []string{"-inbox", "16"}, "inbox16"
		all = append(all, small)
	}
	return all
}
