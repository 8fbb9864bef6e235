package host

import (
	"context"
	"fmt"
	"iter"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// What the program that runs a host asks it goes no further than this process, whatever the bus does.

func (h *Host) self() actor.Ref[agent.Agent] { return agent.Of(h.proc.ID()).Via(h.proc) }

// Info introduces the host, as it does to whoever asks over the bus.
func (h *Host) Info(ctx context.Context) (agent.HostInfo, error) {
	return agent.Info.Call(ctx, h.self(), actor.None{})
}

// Cordon closes the host for new procs, or opens it again; those it has are not touched.
func (h *Host) Cordon(ctx context.Context, c agent.Cordoning) error {
	_, err := agent.Cordon.Call(ctx, h.self(), c)
	return err
}

// Alive yields how many procs have not ended: now, and whenever that changes, until ctx ends or the loop
// is left. An error is the last thing it yields.
func (h *Host) Alive(ctx context.Context) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		port := actor.OpenPort[actor.Event](h.proc)
		defer port.Close()
		if _, err := agent.Streaming.Call(ctx, h.self(), agent.Stream{To: port.Ref()}); err != nil {
			yield(0, fmt.Errorf("watch the procs of host %s: %w", h.id, err))
			return
		}
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
			if _, err := port.Recv(ctx); err != nil {
				yield(0, fmt.Errorf("watch the procs of host %s: %w", h.id, err))
				return
			}
		}
	}
}
