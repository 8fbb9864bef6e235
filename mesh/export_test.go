package mesh

import (
	"context"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// Follows reports whether the Net has listed the ranks of a controller's mesh.
func (n *Net) Follows(owner subjects.ActorID) bool {
	n.feeds.mu.Lock()
	defer n.feeds.mu.Unlock()
	for s, f := range n.feeds.all {
		if s.watched() == owner && f.known().listed {
			return true
		}
	}
	return false
}

// AskSystem is askSystem.
func (n *Net) AskSystem(ctx context.Context, ask func(actor.Ref[*system.Controller]) error) error {
	return askSystem(ctx, n.proc, ask)
}

// AwaitSettled waits for running ranks. With a limit, it waits a second at most without a change.
func AwaitSettled(
	ctx context.Context, owner actor.Ref[agent.Agent], limit bool, last agent.Overlay,
) (agent.Overlay, error) {
	within := time.Duration(0)
	if limit {
		within = time.Second
	}
	return awaitSettled(ctx, owner, agent.WaitRequest{ID: "m", Until: agent.Running}, within, last)
}

// AwaitGrow waits for the end of a Grow of a mesh, as its owner reports it.
func AwaitGrow(ctx context.Context, n *Net, m agent.Mesh) (agent.RevisionResponse, error) {
	return awaitGrow(ctx, ProcMesh{net: n, desc: m})
}

// LostByMoving returns what a mesh with one running rank would lose by a drain of its host.
func LostByMoving(ctx context.Context, n *Net, m agent.Mesh) error {
	running := agent.State{Status: agent.Status{Phase: agent.Running}}
	state := MeshState{Procs: ProcMesh{net: n, desc: m}, States: []agent.State{running}}
	return state.lostByMoving(ctx, m.Hosts)
}
