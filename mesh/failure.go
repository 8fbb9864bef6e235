package mesh

import (
	"context"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Context ends when the Net does: when it is closed, and when a failure that nobody dealt with has ended it. Then
// context.Cause is an *actor.Error whose Event is that failure with the chain of its causes.
func (n *Net) Context() context.Context { return n.ctx }

// ended is why the Net has ended; nil: it has not.
func (n *Net) ended() error { return context.Cause(n.ctx) }

// endWithProc ends the Net when its proc has failed.
func (n *Net) endWithProc() {
	select {
	case <-n.proc.Failed():
		n.end(n.proc.Err())
	case <-n.ctx.Done():
	}
}

// deals reports whether the owner of a mesh deals with a rank that has failed: by a watch of the mesh, or, in a program,
// by OnFailure.
func (n *Net) deals(controller string, e actor.Event) bool {
	switch {
	case n.watches.has(controller):
		return true
	case n.guest || n.onFailure == nil:
		return false
	}
	n.onFailure(e)
	return true
}

// watches are the meshes that a proc has made, by their controllers, and whether it has watched them.
type watches struct {
	mu   sync.Mutex
	made map[string]bool
}

// watchesKey is where a proc keeps them.
type watchesKey struct{}

func watchesOf(p *actor.Proc) *watches {
	return p.ValueOr(watchesKey{}, func() any { return &watches{made: map[string]bool{}} }).(*watches)
}

func (w *watches) add(controller string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.made[controller]; !known {
		w.made[controller] = false
	}
}

func (w *watches) forget(controller string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.made, controller)
}

// began notes that the program watches a mesh; those of others are theirs.
func (w *watches) began(p subjects.ProcID, controller subjects.ActorID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, own := w.made[controller.Name]; own && controller.Proc == p {
		w.made[controller.Name] = true
	}
}

func (w *watches) has(controller string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.made[controller]
}
