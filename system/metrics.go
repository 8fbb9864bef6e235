package system

import (
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Metrics returns the ID and the metrics of the proc of the latest term; false before the first
// one.
func (s *Service) Metrics() (subjects.ProcID, agent.MeshMetrics, bool) {
	p := s.latestProc.Load()
	if p == nil {
		return subjects.ProcID{}, agent.MeshMetrics{}, false
	}
	return p.ID(), agent.ProcMetrics(p), true
}
