package proc

import (
	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/subjects"
)

// serveMicro registers the proc as a micro service with the endpoints of its actor types.
func serveMicro(p *actor.Proc) error {
	id := p.ID()
	subject := func(endpoint string) string { return p.Space().PortsNamed(id, endpoint) }
	types := p.Registry().Types()
	return micro.Serve(p.Foreign().Service(p.Bus().Data(), micro.Inbox), micro.Service{
		Name: subjects.ProcService, ID: id.Process().String(), Description: "runs actors",
		Metadata: map[string]string{"mesh": id.Mesh.String(), "proc": id.String(),
			"namespace": p.Space().Namespace()},
		Info: func(answer func([]micro.Endpoint)) {
			var all []micro.Endpoint
			for _, t := range types {
				all = append(all, agent.DescribeEndpoints(p.Registry(), t, subject)...)
			}
			answer(all)
		},
		Stats: func() (all []micro.Stats) {
			actors := p.Actors()
			for _, t := range types {
				all = append(all, agent.EndpointStats(p.Registry(), t, actors, subject)...)
			}
			return all
		},
	})
}
