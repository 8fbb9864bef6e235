package casts

import (
	"fmt"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Processes is over how many the ranks of most rows are spread, when there are as many.
const Processes = 8

// Share tells one process its ranks of the mesh.
type Share struct {
	Mesh  subjects.MeshID
	Ranks int // in the mesh
	Each  int // in a process
	First int // in this one
}

// Spread gives each process its share of the ranks of a new mesh, in fewer processes if there are
// fewer ranks. All shares are of one size.
func Spread(ranks, processes int) ([]Share, error) {
	if ranks < 1 || ranks > processes && ranks%processes != 0 {
		return nil, fmt.Errorf("spread %d ranks: want at most %d, or a multiple of it", ranks, processes)
	}
	mesh, err := subjects.NewMeshID("ranks")
	if err != nil {
		return nil, err
	}
	var all []Share
	each := max(ranks/processes, 1)
	for first := 0; first < ranks; first += each {
		all = append(all, Share{mesh, ranks, each, first})
	}
	return all, nil
}

// String is the form of the share in an argument of its process.
func (s Share) String() string { return fmt.Sprintf("%s %d %d %d", s.Mesh, s.Ranks, s.Each, s.First) }

// ParseShare reads it.
func ParseShare(text string) (s Share, err error) {
	var mesh string
	_, err = fmt.Sscanf(text, "%s %d %d %d", &mesh, &s.Ranks, &s.Each, &s.First)
	if err == nil {
		s.Mesh, err = subjects.ParseMeshID(mesh)
	}
	if err != nil {
		return s, fmt.Errorf("share %q: want a mesh and three numbers: %w", text, err)
	}
	return s, nil
}

// processes is how many processes have a share.
func (s Share) processes() int { return s.Ranks / s.Each }

// placement is the mesh as casts see it. Each process is a host.
func (s Share) placement() cast.Placement {
	return cast.Placement{Mesh: s.Mesh, Extent: shape.Of("rank", s.Ranks), PerHost: s.Each, PerProcess: s.Each}
}
