package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// imagined is the agent of a host whose procs are imagined, and run as soon as they are ordered.
type imagined struct {
	agent.Agent
	table *agent.Table
	id    subjects.HostID
}

func (h *imagined) Create(_ *actor.Context, c agent.CreateRequest) (agent.Overlay, error) {
	id := c.Procs.ID.String()
	ranks := make([]int, c.Procs.PerHost)
	first := 0
	if share := c.Procs.World; share != nil {
		ranks, first = ranks[:share.Count], share.First
	}
	for k := range ranks {
		ranks[k] = first + k
	}
	starts, err := h.table.Create(agent.ResourceSpec{ID: id, Hash: id, Ranks: ranks, Gen: c.Gen, ExactGen: true,
		Mesh: c.Procs, Claim: c.Claim})
	for _, s := range starts {
		h.table.Advance(id, s.Rank, agent.Status{Phase: agent.Running})
	}
	return h.table.Overlay(id), err
}

func (h *imagined) Wait(_ *actor.Context, w agent.WaitRequest) (agent.Overlay, error) {
	return h.table.Overlay(w.ID), nil
}

func (h *imagined) Get(_ *actor.Context, q agent.GetRequest) ([]agent.State, error) {
	return h.table.States(q.ID), nil
}

func (h *imagined) Keepalive(_ *actor.Context, l agent.Lease) (agent.Overlay, error) {
	err := h.table.AcceptClaim(h.id.Label(), l.ID, l.Claim, subjects.Sender{})
	return h.table.Overlay(l.ID), err
}

func (h *imagined) info() agent.HostInfo {
	return agent.HostInfo{ID: h.id, Started: time.Unix(1, 0), Revision: h.table.Revision()}
}

// imagine starts a host that is imagined.
func (c *continent) imagine(ctx context.Context, label string) (*imagined, error) {
	id, err := subjects.NewHostID(label)
	if err != nil {
		return nil, err
	}
	h := &imagined{table: agent.NewTable(), id: id}
	typ := actor.NewType[agent.Agent, actor.None](agent.HostType)
	registry, err := actor.NewRegistry(
		typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) { return h, nil },
			append(agent.Methods(), agent.Renew.Handle(func(a agent.Agent, ctx *actor.Context, leases []agent.Lease) (
				[]agent.RenewResult, error) {
				return agent.HandleRenew(ctx, a, leases)
			}), agent.Info.Handle(func(agent.Agent, *actor.Context, actor.None) (agent.HostInfo,
				error) {
				return h.info(), nil
			}))...))
	if err != nil {
		return nil, err
	}
	p, err := c.proc(ctx, id, subjects.Host.Principal(id.Label()), registry)
	if err != nil {
		return nil, err
	}
	_, err = p.Spawn(ctx, actor.SpawnSpec{Type: typ.Name(), Name: agent.Name, Params: actor.None{}})
	return h, err
}

// detach hands meshes over to the system controller.
func (c *continent) detach(ctx context.Context, ref actor.Ref[*system.Controller]) error {
	failed := make([]error, len(c.hosts))
	var all sync.WaitGroup
	for i, h := range c.hosts {
		all.Go(func() {
			for n := i; n < c.detached && failed[i] == nil; n += len(c.hosts) {
				failed[i] = c.handOver(ctx, ref, h, fmt.Sprintf("d%d", n))
			}
		})
	}
	all.Wait()
	c.epoch = 2 // the maker's was the first
	return errors.Join(failed...)
}

// handOver detaches a mesh that runs on a host.
func (c *continent) handOver(ctx context.Context, ref actor.Ref[*system.Controller], h *imagined,
	name string) error {
	id, err := subjects.NewMeshID(name)
	if err != nil {
		return err
	}
	claim := agent.Claim{Epoch: 1, Owner: c.client.ID().Actor("owner")}
	m := agent.Mesh{
		ID: id, Extent: shape.Of("x", worldProcs), PerHost: worldProcs, Hosts: []subjects.HostID{h.id},
		Owner:   claim.Owner,
		Command: agent.Command{Path: agent.Builtin},
	}
	_, err = agent.Create.Call(ctx, agent.Of(h.id.Proc()).Via(c.client),
		agent.CreateRequest{Procs: &m, Claim: claim})
	if err != nil {
		return err
	}
	_, err = system.Detach.Call(ctx, ref, system.DetachRequest{Mesh: id, Claim: claim, Hosts: m.Hosts,
		Lease: time.Minute})
	return err
}

// owned waits until the hosts of all detached meshes have heard who owns them now.
func (c *continent) owned(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		epochs := map[uint64]int{}
		for _, h := range c.hosts {
			states, err := agent.Get.Call(ctx, agent.Of(h.id.Proc()).Via(c.client), agent.GetRequest{})
			if err != nil {
				return err
			}
			for _, s := range states {
				if s.Mesh != nil && s.Mesh.World == nil && s.Claim != nil {
					epochs[s.Claim.Epoch]++
				}
			}
		}
		if epochs[c.epoch] == c.detached {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("meshes by the epoch of their owners: %v: %w", epochs, ctx.Err())
		}
	}
}
