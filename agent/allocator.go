package agent

import (
	"context"

	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Allocator gets hosts from somewhere.
type Allocator interface {
	// Allocate returns one host for each rank of an extent, in rank order, each of which answers.
	Allocate(ctx context.Context, e shape.Extent) (Allocation, error)
}

// Joiner is an Allocator whose hosts are on the bus of whoever asks for them, unless it names another.
type Joiner interface {
	Allocator
	Joining(bus BusSettings, space subjects.Space) Allocator
}

// Allocation is hosts that somebody holds. Close gives them back; a second call does nothing, unless the first has failed.
type Allocation interface {
	Hosts() []subjects.HostID
	Close(ctx context.Context) error
}
