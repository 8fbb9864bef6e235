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
	wanted, end := context.WithCancel(context.Background())
	answer.OnCancel(end) // which may come more than once
	ctx.Go(func(work context.Context) func(*actor.Context) {
		defer end()
		defer context.AfterFunc(work, end)()
		answer.Reply(takeProfile(wanted, a.proc, r))
		return nil
	})
	return nil
}

// takeProfile returns a profile in the format of pprof. One of the CPU ends early with ctx, and has
// the types and endpoints of actors as labels.
func takeProfile(ctx context.Context, p *actor.Proc, r agent.ProfileRequest) ([]byte, error) {
	var b bytes.Buffer
	if r.Kind != agent.ProfileCPU {
		err := pprof.Lookup(string(r.Kind)).WriteTo(&b, 0)
		return b.Bytes(), err
	}
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, err
	}
	defer actor.LabelTurns(p)()
	end := time.NewTimer(r.Duration)
	defer end.Stop()
	select {
	case <-end.C:
	case <-ctx.Done():
	}
	pprof.StopCPUProfile()
	return b.Bytes(), nil
}
