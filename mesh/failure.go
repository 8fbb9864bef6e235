package mesh

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Context ends with the Net: at Close, or after an unhandled failure. Then context.Cause is an
// *actor.Error with that failure as its Event and the chain of its causes.
func (n *Net) Context() context.Context { return n.ctx }

// endCause returns the cause of the Net's end; nil: it has not ended.
func (n *Net) endCause() error { return context.Cause(n.ctx) }

// endWithProc ends the Net when its proc has failed.
func (n *Net) endWithProc() {
	select {
	case <-n.proc.Failed():
		n.cancel(n.proc.Err())
	case <-n.ctx.Done():
	}
}

// watchedMeshes are the meshes made by a proc, by controller, and whether the proc watched them.
type watchedMeshes struct {
	mu      sync.Mutex
	watched map[string]bool
}

// watchedMeshesKey is the key of a proc's watchedMeshes.
type watchedMeshesKey struct{}

func watchedMeshesOf(p *actor.Proc) *watchedMeshes {
	return p.Values().GetOr(watchedMeshesKey{}, func() any {
		return &watchedMeshes{watched: map[string]bool{}}
	}).(*watchedMeshes)
}

func (w *watchedMeshes) add(controller string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.watched[controller]; !known {
		w.watched[controller] = false
	}
}

func (w *watchedMeshes) remove(controller string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watched, controller)
}

// noteWatched records that the program watches a mesh of its own.
func (w *watchedMeshes) noteWatched(p subjects.ProcID, controller subjects.ActorID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, own := w.watched[controller.Name]; own && controller.Proc == p {
		w.watched[controller.Name] = true
	}
}

func (w *watchedMeshes) isWatched(controller string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watched[controller]
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
	awaitFailure(ctx, failures, f)
}

// failure is the failure of a rank, or the error that ended a watch.
type failure struct {
	actor.Event
	last bool // the watch has ended
}

// awaitFailure waits for the next failure. The watch goes on meanwhile, so that none is repeated or
// missed.
func awaitFailure(ctx *actor.Context, failures <-chan failure, f func(*actor.Context, actor.Event) error) {
	ctx.Go(func(work context.Context) func(*actor.Context) {
		select {
		case x := <-failures:
			return func(ctx *actor.Context) {
				if why := f(ctx, x.Event); why != nil {
					ctx.Fail("a mesh it owns has failed: "+why.Error(), &x.Event)
				} else if !x.last {
					awaitFailure(ctx, failures, f)
				}
			}
		case <-work.Done():
			return nil
		}
	})
}
