package proc

import (
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/subjects"
)

// serveMicro registers the proc as a micro service with the endpoints of its actor types, and with
// GetMetrics of its agent.
func serveMicro(p *actor.Proc) error {
	id := p.ID()
	subject := func(endpoint string) string { return p.Space().PortsNamed(id, endpoint) }
	types := p.Registry().Types()
	return micro.Serve(p.Foreign().Service(p.Bus().Data(), micro.Inbox), micro.Service{
		Name: subjects.ProcService, ID: id.Process().String(), Description: "runs actors",
		Metadata: map[string]string{"mesh": id.Mesh.String(), "proc": id.String(),
			"namespace": p.Space().Namespace()},
		Info: func(answer func([]micro.Endpoint)) {
			all := agent.DescribeEndpoints(p.Registry(), agentType.Name(), subject)
			all = slices.DeleteFunc(all, func(e micro.Endpoint) bool { return e.Name != agent.GetMetrics.Name() })
			for _, t := range types {
				all = append(all, agent.DescribeEndpoints(p.Registry(), t, subject)...)
			}
			answer(all)
		},
		Stats: func() (all []micro.Stats) {
			m := agent.ProcMetrics(p)
			all = agent.EndpointStats(p.Registry(), agentType.Name(), m, subject)
			all = slices.DeleteFunc(all, func(s micro.Stats) bool { return s.Name != agent.GetMetrics.Name() })
			for _, t := range types {
				all = append(all, agent.EndpointStats(p.Registry(), t, m, subject)...)
			}
			return all
		},
	})
}
