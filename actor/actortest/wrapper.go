package actortest

import (
	"time"

	"github.com/castnet-io/castnet/actor"
)

// failureWait is the waiting time of NextFailure.
const failureWait = 10 * time.Second

// Wrappers are actors that own a TestActor and report its end.
var Wrappers = actor.NewType[*Wrapper, WrapperParams]("wrapper")

// Endpoints of a Wrapper.
var (
	// hands the Failure to its child
	WrapperFailure = actor.NewEndpoint[*Wrapper, Failure, actor.None]("cause-failure")
	WrappedActor   = actor.NewEndpoint[*Wrapper, actor.None, actor.Ref[TestActor]]("wrapped-actor")

	// NextFailure returns the end of its child. It waits 10 s, and then returns no event.
	NextFailure = actor.NewEndpoint[*Wrapper, actor.None, actor.Maybe[actor.Event]]("next-failure")
)

// WrapperParams are the parameters of a Wrapper.
type WrapperParams struct {
	Supervisor actor.PortRef[actor.Event] // gets every end of the child; may be left out
	Child      string                     // the child's label
}

// Wrapper owns a TestActor. It handles its end, and lives on.
type Wrapper struct {
	params  WrapperParams
	child   actor.Ref[TestActor]
	end     actor.Maybe[actor.Event]                               // of the child
	waiting map[*actor.Deferred[actor.Maybe[actor.Event]]]struct{} // as many as there are callers
}

func newWrapper(ctx *actor.Context, params WrapperParams) (*Wrapper, error) {
	child, err := actor.SpawnChild(ctx, TestActors, params.Child, actor.None{})
	return &Wrapper{params: params, child: child,
		waiting: map[*actor.Deferred[actor.Maybe[actor.Event]]]struct{}{}}, err
}

func (w *Wrapper) wrapped(*actor.Context, actor.None) (actor.Ref[TestActor], error) {
	return w.child, nil
}

func (w *Wrapper) causeFailure(ctx *actor.Context, f Failure) (actor.None, error) {
	return actor.None{}, CauseFailure.Send(ctx, w.child, f)
}

// Supervise reports the end of the child.
func (w *Wrapper) Supervise(ctx *actor.Context, e actor.Event) (handled bool, err error) {
	w.end = actor.Maybe[actor.Event]{Value: e, OK: true}
	for answer := range w.waiting {
		answer.Reply(w.end, nil)
	}
	clear(w.waiting)
	if !w.params.Supervisor.ID().IsValid() {
		return true, nil
	}
	return true, w.params.Supervisor.Send(ctx, e)
}

func (w *Wrapper) nextFailure(ctx *actor.Context, _ actor.None) (actor.Maybe[actor.Event], error) {
	if w.end.OK {
		return w.end, nil
	}
	answer := actor.Defer[actor.Maybe[actor.Event]](ctx)
	w.waiting[answer] = struct{}{}
	ctx.After(failureWait, func(*actor.Context) {
		delete(w.waiting, answer)
		answer.Reply(actor.Maybe[actor.Event]{}, nil) // the first answer counts
	})
	return actor.Maybe[actor.Event]{}, nil
}
