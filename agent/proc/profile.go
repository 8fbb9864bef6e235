package proc

import (
	"bytes"
	"context"
	"runtime/pprof"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// profile replies with a profile of the process. It does not block the agent. A second profile of
// the CPU in one process is refused.
func (a *procAgent) profile(ctx *actor.Context, r agent.ProfileRequest) error {
	if err := r.Check(); err != nil {
		return err
	}
	if a.proc.ID().Index > 0 {
		return nil // the first proc of the process has it
	}
	answer := actor.Defer[[]byte](ctx)
	over := make(chan struct{})
	answer.OnCancel(func() { close(over) })
	ctx.Go(func(work context.Context) func(*actor.Context) {
		answer.Reply(takeProfile(work, over, r))
		return nil
	})
	return nil
}

// takeProfile returns a profile in the format of pprof. One of the CPU ends early with ctx or over.
func takeProfile(ctx context.Context, over <-chan struct{}, r agent.ProfileRequest) ([]byte, error) {
	var b bytes.Buffer
	if r.Kind != agent.ProfileCPU {
		err := pprof.Lookup(string(r.Kind)).WriteTo(&b, 0)
		return b.Bytes(), err
	}
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, err
	}
	end := time.NewTimer(r.Duration)
	defer end.Stop()
	select {
	case <-end.C:
	case <-over:
	case <-ctx.Done():
	}
	pprof.StopCPUProfile()
	return b.Bytes(), nil
}
