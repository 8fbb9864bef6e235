package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// ControllerError says that the controller of a mesh is gone, so that nobody tells what becomes of the ranks
// any more: no rank is to blame; hosts stop them when their lease runs out. Or another one has the mesh, which Err
// says as a *agent.FencedError. A mesh of hosts is watched by the program itself: of such a one it says that this could
// not hear them.
type ControllerError struct {
	Controller subjects.ActorID
	Err        error // how it was noticed
}

func (e *ControllerError) Error() string {
	if f := agent.Fenced(e.Err); f != nil {
		return fmt.Sprintf("controller %s has lost its mesh: %v", e.Controller, e.Err)
	}
	if d, ok := errors.AsType[*deafError](e.Err); ok {
		return d.Error()
	}
	return fmt.Sprintf("controller %s is gone: %v", e.Controller, e.Err)
}

func (e *ControllerError) Unwrap() error { return e.Err }

// watched is a region whose controller is listened to.
type watched struct {
	net    *Net
	owner  subjects.ActorID
	region shape.Region // of the proc mesh
	bad    error
	events []string // the subjects of what happens to the ranks, and to the mesh

	controllers []subjects.ActorID // whose failures it tells of

	other func(context.Context) iter.Seq2[actor.Event, error] // who tells where the owner is not known, or is no controller of this mesh alone
}

// ends are the ends among changes, and why nothing comes any more.
func ends(changes iter.Seq2[actor.Event, error]) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		for e, err := range changes {
			if (err != nil || e.Terminal()) && !yield(e, err) {
				return
			}
		}
	}
}

// changes streams what a controller says of the region, each event with the rank's place in it. When the
// controller is gone the last event says so, beside a *ControllerError.
func (w watched) changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	if w.other != nil {
		return w.other(ctx)
	}
	return func(yield func(actor.Event, error) bool) {
		if w.bad != nil {
			yield(actor.Event{}, w.bad)
			return
		}
		for _, c := range w.controllers {
			w.net.watches.began(w.net.proc.ID(), c)
		}
		said, leave := w.net.feeds.join(w)
		defer leave()
		said.tell(ctx, yield)
	}
}

// Watched is a mesh whose ranks can be watched.
type Watched interface {
	Watch(ctx context.Context) iter.Seq2[actor.Event, error]
}

// Supervise lets an actor deal with the failures of a mesh: f runs on its turn, before its mail, for each
// rank that has failed for good, and for the mesh's controller, should that be gone. An error that it returns
// fails the actor, with the failure as the cause; so does every failure when f is nil.
func Supervise(ctx *actor.Context, m Watched, f func(*actor.Context, actor.Event) error) {
	if f == nil {
		f = func(_ *actor.Context, e actor.Event) error { return errors.New(e.Reason) }
	}
	failures := make(chan failure)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		for e, err := range m.Watch(work) {
			if err == nil && !e.Failed() {
				continue
			}
			if e.Reason == "" && err != nil {
				e.Reason = err.Error()
			}
			select {
			case failures <- failure{e, err != nil}:
			case <-work.Done():
				return nil
			}
		}
		return nil
	})
	dealWith(ctx, failures, f)
}

// failure is one of a rank, or the last word of a watch.
type failure struct {
	actor.Event
	last bool
}

// dealWith waits for the next failure. The watch goes on meanwhile, so that none is told twice or missed.
func dealWith(ctx *actor.Context, failures <-chan failure, f func(*actor.Context, actor.Event) error) {
	ctx.Go(func(work context.Context) func(*actor.Context) {
		select {
		case x := <-failures:
			return func(ctx *actor.Context) {
				if why := f(ctx, x.Event); why != nil {
					ctx.Fail("a mesh it owns has failed: "+why.Error(), &x.Event)
				} else if !x.last {
					dealWith(ctx, failures, f)
				}
			}
		case <-work.Done():
			return nil
		}
	})
}
