package gateway

import (
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Outcomes of requests.
const (
	outcomeComplete = "complete" // every rank answered
	outcomePartial  = "partial"  // some did
	outcomeFailed   = "failed"   // none did, or the request is wrong
	outcomeRefused  = "refused"  // nothing was cast: a limit, or the gateway is closing
)

// counters count a gateway's work.
type counters struct {
	requests, unanswerable, expired    atomic.Uint64
	complete, partial, failed, refused atomic.Uint64 // requests that ended, by outcome
	totalNanos                         atomic.Int64  // of requests that were not refused
	lastError                          atomic.Pointer[string]
}

// end counts a request at its end.
func (c *counters) end(outcome string, took time.Duration) {
	switch outcome {
	case outcomeComplete:
		c.complete.Add(1)
	case outcomePartial:
		c.partial.Add(1)
	default:
		c.failed.Add(1)
	}
	c.totalNanos.Add(int64(took))
}

// Metrics returns the ID of the gateway's proc, and its metrics: those of its process, with the
// gateway's requests.
func (g *Gateway) Metrics() (subjects.ProcID, agent.MeshMetrics) {
	c := &g.counts
	m := agent.ProcMetrics(g.proc)
	complete := c.complete.Load()
	partial := c.partial.Load()
	failed := c.failed.Load()
	m.Gateway = agent.GatewayMetrics{
		Requests: map[string]uint64{
			outcomeComplete: complete, outcomePartial: partial, outcomeFailed: failed,
			outcomeRefused: c.refused.Load(),
		},
		Served:   agent.TimeTotal{Count: complete + partial + failed, Sum: time.Duration(c.totalNanos.Load())},
		UnderWay: int(g.active.Load()), Unanswerable: c.unanswerable.Load(), AnsweredForDead: c.expired.Load(),
	}
	return g.proc.ID(), m
}

// requestOutcome derives the outcome of a request from the messages of its answer.
type requestOutcome struct{ is string }

// note takes a message. A stream has one for each rank, and then its coverage.
func (r *requestOutcome) note(o outcome) {
	switch {
	case r.is == outcomeFailed || o.point != nil && o.coverage == nil:
	case o.err != nil && !o.partial:
		r.is = outcomeFailed
	case o.partial:
		r.is = outcomePartial
	case o.coverage != nil && o.coverage.failed+o.coverage.missing > 0:
		r.is = outcomePartial
		if o.coverage.answered == 0 {
			r.is = outcomeFailed
		}
	default:
		r.is = outcomeComplete
	}
}
