package agent

import (
	"context"

	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Allocator supplies hosts.
type Allocator interface {
	// Allocate returns one answering host for each rank of an extent, in rank order.
	Allocate(ctx context.Context, e shape.Extent) (Allocation, error)
}

// ClientAllocator is an Allocator of hosts with the configuration of the calling program. They are
// on its bus, unless the allocator names another one.
type ClientAllocator interface {
	Allocator
	ForClient(bus BusSettings, space subjects.Space, c config.Snapshot) (Allocator, error)
}

// Allocation holds hosts until Close. A second Close does nothing, unless the first failed.
type Allocation interface {
	Hosts() []subjects.HostID
	Close(ctx context.Context) error
}
