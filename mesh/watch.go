package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// ControllerError reports that the controller of a mesh is gone and changes of ranks are no longer
// reported. No rank has failed; hosts stop the ranks when their lease expires. If another
// controller has the mesh, Err is a *agent.FencedError. For a mesh of hosts, which the program
// itself watches, it means that the program received no heartbeats.
type ControllerError struct {
	Controller subjects.ActorID
	Err        error // the evidence
}

func (e *ControllerError) Error() string {
	if f := agent.AsFenced(e.Err); f != nil {
		return fmt.Sprintf("controller %s has lost its mesh: %v", e.Controller, e.Err)
	}
	if d, ok := errors.AsType[*deafError](e.Err); ok {
		return d.Error()
	}
	return fmt.Sprintf("controller %s is gone: %v", e.Controller, e.Err)
}

func (e *ControllerError) Unwrap() error { return e.Err }

// watched is a region with a watched controller.
type watched struct {
	net    *Net
	owner  subjects.ActorID
	region shape.Region // of the proc mesh
	bad    error
	events []string // the subjects of events of the ranks and of the mesh

	controllers []subjects.ActorID // the controllers whose failures the watch reports

	// other replaces the stream of the controller if the owner is unknown, or if it is not the
	// controller of this mesh alone.
	other func(context.Context) iter.Seq2[actor.Event, error]
}

// ends yields the ends among changes, and the final error.
func ends(changes iter.Seq2[actor.Event, error]) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		for e, err := range changes {
			if (err != nil || e.Terminal()) && !yield(e, err) {
				return
			}
		}
	}
}

// changes streams the controller's events of the region, each with the rank in the region. When the
// controller is gone, the last event reports it, beside a *ControllerError.
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
			w.net.watchedMeshes.noteWatched(w.net.proc.ID(), c)
		}
		said, leave := w.net.feeds.join(w)
		defer leave()
		said.tell(ctx, yield)
	}
}

// Watchable is a mesh whose ranks can be watched.
type Watchable interface {
	Watch(ctx context.Context) iter.Seq2[actor.Event, error]
}

// Supervise lets an actor handle the failures of a mesh. f runs on the actor's turn, before its
// mail, for each rank that failed for good, and for the loss of the mesh's controller. An error of
// f fails the actor, with the failure as the cause; if f is nil, every failure does.
func Supervise(ctx *actor.Context, m Watchable, f func(*actor.Context, actor.Event) error) {
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

// failure is the failure of a rank, or the error that ended a watch.
type failure struct {
	actor.Event
	last bool // the watch has ended
}

// dealWith waits for the next failure. The watch goes on meanwhile, so that none is repeated or
// missed.
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
