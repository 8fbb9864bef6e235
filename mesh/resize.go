package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Grow adds hosts at the end of the mesh's first dimension, and starts their procs. Every rank
// keeps its number. Actors of an actor mesh on the whole mesh start there, too, with the same
// params. A handle on the whole mesh follows, in every process that uses it; a slice keeps its
// region. If an added rank does not run, the error is a *SpawnError, and the mesh stays as it was.
//
// Any program may grow a mesh; its owner does the work. The hosts must form one dimension, the
// first. A detached mesh must be adopted first.
func (p ProcMesh) Grow(ctx context.Context, hosts HostMesh) (ProcMesh, error) {
	p = resolved(p)
	fail := func(err error) (ProcMesh, error) { return ProcMesh{}, fmt.Errorf("grow %s: %w", p.desc.ID, err) }
	if err := cmp.Or(checkResize(p), hosts.Err()); err != nil {
		return fail(err)
	}
	isRemote := func(i agent.HostInfo) bool { return !i.Local }
	if p.desc.PerProcess > 1 && slices.ContainsFunc(hosts.Infos(), isRemote) {
		return fail(errors.New("its procs share processes: want hosts that run procs in their own process"))
	}
	grown, err := p.desc.Resize(slices.Concat(p.desc.Hosts, hosts.hosts))
	if err != nil {
		return fail(err)
	}
	ctx, cancel := withTimeout(ctx, config.MeshSpawnTimeout.Get(p.net.config))
	defer cancel()
	began := time.Now()
	request := agent.ResizeRequest{ID: p.desc.ID.String(), Add: hosts.hosts}
	if d, ok := ctx.Deadline(); ok {
		request.Timeout = max(time.Until(d)*9/10, 1)
	}
	// The reply comes after the removal of ranks that did not start together.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx),
		request.Timeout+2*config.MeshCleanupTimeout.Get(p.net.config))
	defer cancel()
	got, err := agent.Resize.Call(late, p.controller(), request)
	if err != nil {
		return fail(err)
	}
	added := lastRanks(grown, len(p.desc.Hosts))
	statuses := got.Statuses.Shift(-p.desc.Extent.NumRanks())
	if failed := unstarted(statuses, grown, added, began); len(failed) > 0 {
		addProcesses(ctx, ProcMesh{net: p.net, desc: grown, region: grown.Extent.Region()}, failed)
		return ProcMesh{}, &SpawnError{Mesh: p.desc.ID.String(), Ranks: added.NumRanks(), Failed: failed}
	}
	p = onMesh(p, got.Mesh)
	if err := awaitReachable(ctx, p); err != nil {
		_, shrinking := p.Shrink(ctx, len(hosts.hosts))
		return fail(errors.Join(fmt.Errorf("cannot reach all ready procs by a cast: %w", err), shrinking))
	}
	return p, nil
}

// Invite lets the host of a label join the mesh, once, for at most 24 hours. The result is a secret
// for `hostd --join-mesh`; agent.ParseInvitation reads it. The mesh grows when that host starts
// with it.
//
// Any program may invite hosts to a mesh that it may grow. The owner of the mesh keeps 64 invites,
// and they end with it: after a takeover there is none.
func (p ProcMesh) Invite(ctx context.Context, label string, ttl time.Duration) (text string, err error) {
	p = resolved(p)
	if err := checkResize(p); err != nil {
		return "", fmt.Errorf("cannot invite host %q: %w", label, err)
	}
	request := agent.InviteRequest{ID: p.desc.ID.String(), Host: label, TTL: ttl}
	said, err := agent.Invite.Call(ctx, p.controller(), request)
	return said.Invitation, err
}

// shrunkByUser is the reason of a Shrink.
const shrunkByUser = "its mesh shrinks"

// Shrink removes the last hosts of the mesh. Actors and procs there end as with Stop; a *StopError
// lists the ranks still alive at the deadline. The other ranks go on, and keep their numbers.
//
// Any program may shrink a mesh, to one host at least; its owner does the work.
func (p ProcMesh) Shrink(ctx context.Context, hosts int) (ProcMesh, error) {
	p = resolved(p)
	fail := func(err error) (ProcMesh, error) { return ProcMesh{}, fmt.Errorf("shrink %s: %w", p.desc.ID, err) }
	if err := checkResize(p); err != nil {
		return fail(err)
	}
	ctx, cancel := withTimeout(ctx, config.MeshStopTimeout.Get(p.net.config))
	defer cancel()
	request := agent.ResizeRequest{ID: p.desc.ID.String(), Remove: hosts, Reason: shrunkByUser}
	got, err := agent.Resize.Call(ctx, p.controller(), request)
	if err != nil {
		return fail(err)
	}
	removed := lastRanks(p.desc, len(got.Mesh.Hosts))
	statuses := got.Statuses.Shift(-got.Mesh.Extent.NumRanks())
	left := rankStatuses(statuses, p.desc, removed, isAlive)
	small := onMesh(p, got.Mesh)
	if len(left) > 0 {
		return small, &StopError{Mesh: p.desc.ID.String(), Ranks: removed.NumRanks(), Remaining: left}
	}
	return small, nil
}

// growPoll is the interval between looks whether a Grow is over.
const growPoll = 100 * time.Millisecond

// followGrow makes new actors follow a Grow that began before the owner of the procs could find
// them. It waits for the end of that Grow. A later one finds the actors by itself. If the owner is
// silent, no actors follow.
func followGrow(ctx context.Context, m actorMesh) error {
	p := m.procs
	if p.desc.World != nil || p.region.NumRanks() < p.desc.Extent.NumRanks() {
		return nil
	}
	began := time.Now()
	said, err := awaitGrow(ctx, p)
	if err != nil {
		return fmt.Errorf("spawn %s: %w", m.name, err)
	}
	if said.Mesh == nil {
		return nil
	}
	owner := actor.RefOf[agent.Agent](m.owner).Via(p.net.proc)
	o, err := agent.Follow.Call(ctx, owner, agent.FollowRequest{Mesh: *said.Mesh})
	if err != nil {
		return fmt.Errorf("spawn %s: %w", m.name, err)
	}
	p.net.placements.learn(*said.Mesh)
	first := len(p.desc.Hosts)
	if len(o) == 0 || len(said.Mesh.Hosts) <= first { // the actors had followed, or none was added
		return nil
	}
	added := lastRanks(*said.Mesh, first)
	failed := unstarted(o.Shift(-p.desc.Extent.NumRanks()), *said.Mesh, added, began)
	if len(failed) > 0 {
		return &SpawnError{Mesh: m.name, Ranks: said.Mesh.Extent.NumRanks(), Failed: failed}
	}
	return nil
}

// awaitGrow waits until the owner of procs reports that no Grow is under way. The zero response
// stands for a silent owner. During a Grow the owner may be silent for actor.query-timeout.
func awaitGrow(ctx context.Context, p ProcMesh) (said agent.RevisionResponse, err error) {
	request := agent.RevisionRequest{ID: p.desc.ID.String(), After: p.desc.Revision}
	growing := false
	for heard := time.Now(); ; {
		err = p.net.placements.eachOwner(p.desc, func(owner actor.Ref[agent.Agent]) (err error) {
			ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
			defer cancel()
			said, err = agent.Revision.Call(ctx, owner, request)
			return err
		})
		switch {
		case err == nil && !said.Growing:
			return said, nil
		case err == nil:
			growing, heard = true, time.Now()
		case !growing || isUnreachable(err):
			return agent.RevisionResponse{}, ctx.Err()
		case time.Since(heard) > config.ActorQueryTimeout.Get(p.net.config):
			return agent.RevisionResponse{}, fmt.Errorf("cannot await the Grow of mesh %s: %w", p.desc.ID, err)
		}
		select {
		case <-time.After(growPoll):
		case <-ctx.Done():
			return agent.RevisionResponse{}, fmt.Errorf("mesh %s still grows: %w", p.desc.ID, ctx.Err())
		}
	}
}

// checkResize returns the reason why the handle cannot resize its mesh.
func checkResize(p ProcMesh) error {
	if err := p.Err(); err != nil {
		return err
	}
	if n := p.region.NumRanks(); n < p.desc.Extent.NumRanks() {
		return fmt.Errorf("%d ranks of %d: want the whole mesh", n, p.desc.Extent.NumRanks())
	}
	_, err := p.desc.Resize(p.desc.Hosts)
	return err
}

// onMesh is the handle on a mesh that this program has grown or shrunk.
func onMesh(p ProcMesh, m agent.Mesh) ProcMesh {
	p.net.placements.learn(m)
	return ProcMesh{net: p.net, desc: m, region: m.Extent.Region()}
}

// lastRanks is the region of a mesh's hosts from an index on.
func lastRanks(m agent.Mesh, from int) shape.Region {
	r, err := m.Extent.Region().Slice(m.Extent.Dims()[0].Label, from, len(m.Hosts))
	if err != nil {
		return shape.Region{} // it cannot fail: the index is in the mesh
	}
	return r
}

// RemovedRanksError reports a region with ranks that a Shrink has removed.
type RemovedRanksError struct {
	Mesh  subjects.MeshID
	Ranks []int  // the removed ranks of the region, of the whole mesh
	Where string // their points
}

func (e *RemovedRanksError) Error() string {
	return fmt.Sprintf("mesh %s has shrunk: %d ranks of the region are removed: %s",
		e.Mesh, len(e.Ranks), e.Where)
}

// resolved is current, for a verb that asks the mesh: the process learns the mesh before its first
// use.
func resolved(p ProcMesh) ProcMesh {
	resolveHolders(p)
	return current(p)
}

// current returns the handle on the newest revision of the mesh that this process knows. A handle
// on the whole mesh remains one, and a slice keeps its region.
func current(p ProcMesh) ProcMesh {
	if p.net == nil || p.err != nil {
		return p
	}
	m := p.net.placements.latest(p.desc)
	if m.Revision == p.desc.Revision {
		return p
	}
	before := p.desc.Extent
	p.desc = m
	if p.region.Equal(before.Region()) {
		p.region = m.Extent.Region()
		return p
	}
	gone := &RemovedRanksError{Mesh: m.ID}
	for _, base := range p.region.Ranks() {
		if base >= m.Extent.NumRanks() {
			gone.Ranks = append(gone.Ranks, base)
		}
	}
	if len(gone.Ranks) > 0 {
		gone.Where = shape.Describe(before, gone.Ranks)
		p.err = gone
	}
	return p
}
