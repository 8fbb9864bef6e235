package mesh

import (
	"context"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// startSpan begins the span of the spawn of a mesh, and returns the context for its messages. kind
// is procs or actors. nil: there is none.
func startSpan(ctx context.Context, n *Net, kind, name string) (context.Context, actor.Span) {
	if n == nil {
		return ctx, nil // an invalid handle, as the spawn reports
	}
	p, _, err := actor.Sender(ctx, n.proc)
	if err != nil {
		return ctx, nil
	}
	return p.StartSpan(ctx, func() actor.Operation {
		return actor.Operation{Kind: actor.OpSpawn, Actor: subjects.ActorID{Name: name}, Endpoint: kind}
	})
}

// endSpan ends the span of a spawn, if there is one.
func endSpan(span actor.Span, err error) {
	if span != nil {
		span.End(actor.Outcome{Err: err})
	}
}
