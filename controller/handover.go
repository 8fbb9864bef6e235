package controller

import (
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// WithoutSpares returns the policy without the given spare hosts. If no spare is left, ranks
// restart in place.
func (p RestartPolicy) WithoutSpares(hosts []subjects.HostID) RestartPolicy {
	excluded := func(h subjects.HostID) bool { return slices.Contains(hosts, h) }
	p.Spares = slices.DeleteFunc(slices.Clone(p.Spares), excluded)
	return p
}

// keepsOnStop reports whether the mesh goes on when its controller stops.
func (s Spec) keepsOnStop() bool { return s.KeepOnStop != nil && s.KeepOnStop() }
