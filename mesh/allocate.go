package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Allocator provides hosts; see agent.Allocator. Package agent/host has allocators that start
// hosts.
type Allocator = agent.Allocator

// Allocation is a set of held hosts; see agent.Allocation.
type Allocation = agent.Allocation

// Allocate gets hosts and attaches to them. They belong to this Net: Shutdown of the mesh, Close of
// the Net, or a failure here returns them. Hosts started for it have this Net's configuration, and
// use its bus unless configured for another one.
func (n *Net) Allocate(ctx context.Context, a Allocator, name string, e shape.Extent) (HostMesh, error) {
	if err := e.Err(); err != nil {
		return HostMesh{}, fmt.Errorf("allocate %q: %w", name, err)
	}
	if e.NumRanks() == 0 {
		return HostMesh{}, fmt.Errorf("allocate %q: no hosts for %s: want at least 1", name, e)
	}
	emitHostStep(n.proc, "hosts.allocate.attempt", name, e.NumRanks(), agent.Initializing, nil)
	h, err := n.allocate(ctx, a, name, e)
	if err != nil {
		emitHostStep(n.proc, "hosts.allocate.failed", name, e.NumRanks(), agent.Failed, err)
		return HostMesh{}, fmt.Errorf("allocate %q: %w", name, err)
	}
	emitHostStep(n.proc, "hosts.allocate.success", name, e.NumRanks(), agent.Running, nil)
	return h, nil
}

func (n *Net) allocate(ctx context.Context, a Allocator, name string, e shape.Extent) (HostMesh, error) {
	ctx, cancel := withTimeout(ctx, config.AttachTimeout.Get(n.config))
	defer cancel()
	if own, ok := a.(agent.ClientAllocator); ok {
		var err error
		a, err = own.ForClient(agent.AllocatorClient{
			Bus: n.settings, Space: n.proc.Space(), Config: n.config.Snapshot(), Sender: n.proc.Sender(),
		})
		if err != nil {
			return HostMesh{}, err
		}
	}
	return n.controllers.acquire(ctx, name, e, false, func(ctx context.Context) (HostMesh, Allocation, error) {
		got, err := a.Allocate(ctx, e)
		if err != nil {
			return HostMesh{}, nil, err
		}
		h, err := n.Attach(ctx, name, got.Hosts()...)
		if err == nil {
			h = h.Reshape(e)
			err = h.Err()
		}
		return h, got, err
	})
}

// StaticHosts allocates the first of these running hosts. They need no return.
type StaticHosts []subjects.HostID

// Allocate returns the first hosts, one for each rank of the extent.
func (s StaticHosts) Allocate(_ context.Context, e shape.Extent) (Allocation, error) {
	if e.NumRanks() > len(s) {
		return nil, fmt.Errorf("%d hosts in the list: want %d for %s", len(s), e.NumRanks(), e)
	}
	return s[:e.NumRanks()], nil
}

// Hosts returns the hosts of the list.
func (s StaticHosts) Hosts() []subjects.HostID { return slices.Clone(s) }

// Close does nothing: the list did not start them.
func (s StaticHosts) Close(context.Context) error { return nil }

// OnProcs allocates a host in each proc of a region. It spawns an actor of the type there; the
// actor's endpoint returns its host. Package agent/host has such a type.
func OnProcs[A, P any](
	procs ProcMesh, typ actor.Type[A, P], params P, started actor.Endpoint[A, actor.None, subjects.HostID],
) Allocator {
	return procAllocator[A, P]{procs, typ, params, started}
}

type procAllocator[A, P any] struct {
	procs   ProcMesh
	typ     actor.Type[A, P]
	params  P
	started actor.Endpoint[A, actor.None, subjects.HostID]
}

// Allocate spawns the actors and asks each for its host. The hosts are in the order of the procs.
func (o procAllocator[A, P]) Allocate(ctx context.Context, e shape.Extent) (Allocation, error) {
	if err := o.procs.Err(); err != nil {
		return nil, err
	}
	if e.NumRanks() != o.procs.Extent().NumRanks() {
		return nil, fmt.Errorf("%d procs: want %d for %s", o.procs.Extent().NumRanks(), e.NumRanks(), e)
	}
	actors, err := Spawn(ctx, o.procs, o.typ, "hosts", o.params)
	if err != nil {
		return nil, err
	}
	hosts, err := cast.Gather(ctx, actors, o.started, actor.None{})
	if err != nil {
		limit := config.MeshCleanupTimeout.Get(o.procs.net.config)
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		return nil, errors.Join(err, actors.Stop(stop))
	}
	return &onProcsAllocation{hosts: hosts.Values(), stop: actors.Stop}, nil
}

type onProcsAllocation struct {
	hosts []subjects.HostID
	stop  func(context.Context) error // can be repeated
}

func (a *onProcsAllocation) Hosts() []subjects.HostID { return slices.Clone(a.hosts) }

func (a *onProcsAllocation) Close(ctx context.Context) error { return a.stop(ctx) }
