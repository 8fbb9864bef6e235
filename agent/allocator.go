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

// ClientAllocator is an Allocator of hosts for a program.
type ClientAllocator interface {
	Allocator
	ForClient(AllocatorClient) (Allocator, error)
}

// AllocatorClient is the program for which an allocator starts hosts. They have its configuration,
// are on its bus unless the allocator names another one, and obey its sender.
type AllocatorClient struct {
	Bus    BusSettings
	Space  subjects.Space
	Config config.Snapshot
	Sender subjects.Sender
}

// Allocation holds hosts until Close. A second Close does nothing, unless the first failed.
type Allocation interface {
	Hosts() []subjects.HostID
	Close(ctx context.Context) error
}
