package controller

import (
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// On is the policy for a mesh that has hosts which may have been spare ones: with the others. Where none is left, ranks
// are started again where they were.
func (p Policy) On(hosts []subjects.HostID) Policy {
	p.Spares = slices.DeleteFunc(slices.Clone(p.Spares), func(h subjects.HostID) bool { return slices.Contains(hosts, h) })
	if p.Recovery == Replace && len(p.Spares) == 0 {
		p.Recovery = Restart
	}
	return p
}

// leaves reports whether the mesh goes on when its controller stops.
func (s Spec) leaves() bool { return s.Leave != nil && s.Leave() }
