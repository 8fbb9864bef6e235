package agent

import (
	"maps"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// Counters count rare events of one process for its metrics: none is counted per message.
type Counters struct {
	mu              sync.Mutex // guards the fields below
	detections      map[string]TimeTotal
	execs           map[string]uint64
	renewalFailures uint64
	expiredLeases   uint64
}

type countersKey struct{}

// CountersOf returns the counters of a proc's process.
func CountersOf(p *actor.Proc) *Counters {
	return p.Lead().Values().GetOr(countersKey{}, func() any {
		return &Counters{detections: map[string]TimeTotal{}, execs: map[string]uint64{}}
	}).(*Counters)
}

// CountDetection counts a verdict about a suspected host, with the time from suspicion to verdict.
func (c *Counters) CountDetection(verdict string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detections[verdict] = c.detections[verdict].Add(TimeTotal{1, took})
}

// CountExec counts a command that a host ran or refused.
func (c *Counters) CountExec(outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.execs[outcome]++
}

// CountRenewalFailure counts leases that an agent did not renew for their owner.
func (c *Counters) CountRenewalFailure() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewalFailures++
}

// countExpiredLease counts a lease that its agent let expire.
func (c *Counters) countExpiredLease() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expiredLeases++
}

// addTo sets the counts in the metrics of the process.
func (c *Counters) addTo(m *MeshMetrics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.Detections = maps.Clone(c.detections)
	m.Execs = maps.Clone(c.execs)
	m.Leases.RenewalFailures = c.renewalFailures
	m.Leases.Expired = c.expiredLeases
}
