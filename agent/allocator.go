package agent

import (
	"context"

	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Allocator supplies hosts.
type Allocator interface {
	// Allocate returns one answering host for each rank of an extent, in rank order.
	Allocate(ctx context.Context, e shape.Extent) (Allocation, error)
}

// BusAllocator is an Allocator of hosts on the caller's bus, unless it names another bus.
type BusAllocator interface {
	Allocator
	OnBus(bus BusSettings, space subjects.Space) Allocator
}

// Allocation holds hosts until Close. A second Close does nothing, unless the first failed.
type Allocation interface {
	Hosts() []subjects.HostID
	Close(ctx context.Context) error
}
