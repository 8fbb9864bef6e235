package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/fanout"
)

// Calls from the program of the host stay in this process and need no bus.

func (h *Host) agentRef() actor.Ref[agent.Agent] { return agent.Of(h.proc.ID()).Via(h.proc) }

// Info returns the host's description, as over the bus.
func (h *Host) Info(ctx context.Context) (agent.HostInfo, error) {
	return agent.Info.Call(ctx, h.agentRef(), actor.None{})
}

// Metrics returns the metrics of the host and of its procs.
func (h *Host) Metrics(ctx context.Context) (agent.Metrics, error) {
	return agent.GetMetrics.Call(ctx, h.agentRef(), actor.None{})
}

// Cordon closes the host to new procs, or reopens it. Present procs are not affected.
func (h *Host) Cordon(ctx context.Context, c agent.CordonRequest) error {
	_, err := agent.Cordon.Call(ctx, h.agentRef(), c)
	return err
}

// StopUnkept closes the host to new procs and stops those of meshes that are not kept. The program
// of the host may then end without Close: its next host adopts the others (HOST-10).
func (h *Host) StopUnkept(ctx context.Context, reason string) error {
	err := h.Cordon(ctx, agent.CordonRequest{Cordon: true, Reason: reason})
	if err != nil {
		return err
	}
	states, err := agent.Get.Call(ctx, h.agentRef(), agent.GetRequest{})
	if err != nil {
		return err
	}
	// the first rank describes its mesh
	states = slices.DeleteFunc(states, func(s agent.State) bool { return s.Mesh == nil || s.Mesh.Keep })
	errs := make([]error, len(states))
	fanout.Each(agent.MaxConcurrentMoves, states, func(i int, s agent.State) {
		_, errs[i] = agent.Stop.CallUrgent(ctx, h.agentRef(), agent.StopRequest{ID: s.ID, Reason: reason})
	})
	return errors.Join(errs...)
}

// WatchProcs yields the number of live procs, now and after every end. It ends with ctx or the
// loop. An error is the last item.
func (h *Host) WatchProcs(ctx context.Context) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		ended := make(chan struct{}, 1)
		defer h.proc.Observe(func(e actor.Event) {
			if e.Kind != actor.KindProc || !e.Terminal() {
				return
			}
			select {
			case ended <- struct{}{}:
			default:
			}
		})()
		for last := -1; ; {
			info, err := h.Info(ctx)
			if err != nil {
				yield(0, fmt.Errorf("watch the procs of host %s: %w", h.id, err))
				return
			}
			if info.Procs != last && !yield(info.Procs, nil) {
				return
			}
			last = info.Procs
			select {
			case <-ended:
			case <-ctx.Done():
				yield(0, fmt.Errorf("watch the procs of host %s: %w", h.id, context.Cause(ctx)))
				return
			}
		}
	}
}
