package mesh

import (
	"context"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/system"
)

// Watches returns the number of watches of the mesh that have the present states of its ranks.
func (p ProcMesh) Watches(ctx context.Context) int { return watches(ctx, watchedProcs(resolved(p))) }

// Watches returns the number of watches of the mesh that have the present states of its actors.
func (m actorMesh) Watches(ctx context.Context) int {
	m.procs = resolved(m.procs)
	return watches(ctx, watchedActors(m))
}

func watches(ctx context.Context, w watchTarget) int {
	s, err := w.find(ctx)
	if err != nil {
		return 0
	}
	w.net.feeds.mu.Lock()
	defer w.net.feeds.mu.Unlock()
	f := w.net.feeds.all[s]
	if f == nil || !f.known().listed {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watchers)
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
