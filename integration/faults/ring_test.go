package faults

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

var (
	ringType = actor.NewType[*ringer, actor.None]("ringer")
	pass     = actor.NewEndpoint[*ringer, round, int]("pass")
)

// round is a request around a ring. Each member calls the next, off its own turn, and answers after
// it.
type round struct {
	Members []subjects.ActorID
	Next    int // of Members: whom to ask
	Left    int // how many are still to be asked
	Pad     []byte
}

// ringer is a member of a ring.
type ringer struct{}

func (w *workerRole) ringDef() actor.Def {
	return ringType.Define(func(*actor.Context, actor.None) (*ringer, error) { return &ringer{}, nil },
		pass.Handle((*ringer).pass))
}

func (*ringer) pass(ctx *actor.Context, r round) (int, error) {
	if r.Left == 0 {
		return 1, nil
	}
	d := actor.Defer[int](ctx)
	deadline, has := ctx.Deadline()
	to := actor.RefOf[*ringer](r.Members[r.Next])
	r.Next, r.Left = (r.Next+1)%len(r.Members), r.Left-1
	ctx.Go(func(life context.Context) func(*actor.Context) {
		if has {
			var cancel context.CancelFunc
			life, cancel = context.WithDeadline(life, deadline)
			defer cancel()
		}
		n, err := pass.Call(life, to, r)
		d.Reply(n+1, err)
		return nil
	})
	return 0, nil
}

// ring spawns a member when none is given. Otherwise it starts requests around the members, all at
// once. A request without an answer in time is a failed one.
func (w *workerRole) ring(ctx context.Context, o order) (report, error) {
	if len(o.Ring) == 0 {
		ref, err := actor.Spawn(ctx, w.proc, ringType, "ringer", actor.None{}, actor.Mailbox(actor.Unbounded))
		return report{Actors: []subjects.ActorID{ref.ID()}}, err
	}
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		got ringResult
	)
	began := time.Now()
	for range o.Rounds {
		wg.Go(func() {
			n, err := pass.Call(ctx, actor.RefOf[*ringer](o.Ring[0]).Via(w.proc),
				round{Members: o.Ring, Next: 1 % len(o.Ring), Left: len(o.Ring), Pad: make([]byte, o.Size)})
			mu.Lock()
			defer mu.Unlock()
			if err == nil && n == len(o.Ring)+1 {
				got.Done++
				return
			}
			got.Failed++
			if len(got.Examples) < 3 {
				got.Examples = append(got.Examples, fmt.Sprintf("%d members answered: %v", n, err))
			}
		})
	}
	wg.Wait()
	got.Took = time.Since(began)
	return report{Ring: got}, nil
}
