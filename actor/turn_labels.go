package actor

import (
	"context"
	"runtime/pprof"
	"sync"
)

// Labels of the goroutine that runs an actor while LabelTurns is in force.
const (
	LabelType     = "actor_type" // name of the actor's type
	LabelEndpoint = "endpoint"   // of the running handler; absent in a constructor, timer or result of Go
)

// LabelTurns labels the goroutines of a process's actors with LabelType and LabelEndpoint, until
// the returned function is called. A profile of the CPU then says for which actors the time was
// spent. A turn that has already begun gets no labels. Goroutines started by a handler inherit its
// labels.
func LabelTurns(p *Proc) (stop func()) {
	ws := p.workers
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.labelUsers == 0 {
		ws.labels.Store(&turnLabels{})
	}
	ws.labelUsers++
	return sync.OnceFunc(func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		ws.labelUsers--
		if ws.labelUsers == 0 {
			ws.labels.Store(nil)
		}
	})
}

// turnLabels sets the labels of turns. A nil turnLabels sets none. It makes the labels of an
// endpoint once, since a turn may be one short message.
type turnLabels struct{ contexts sync.Map } // of turnKind: the context with its labels

// turnKind is what the labels of a turn show.
type turnKind struct{ actorType, endpoint string }

// set labels this goroutine.
func (l *turnLabels) set(k turnKind) {
	made, ok := l.contexts.Load(k)
	if !ok {
		labels := []string{LabelType, k.actorType}
		if k.endpoint != "" {
			labels = append(labels, LabelEndpoint, k.endpoint)
		}
		made, _ = l.contexts.LoadOrStore(k, pprof.WithLabels(context.Background(), pprof.Labels(labels...)))
	}
	pprof.SetGoroutineLabels(made.(context.Context))
}

// clear removes the labels: this goroutine runs other actors, too.
func (l *turnLabels) clear() { pprof.SetGoroutineLabels(context.Background()) }
