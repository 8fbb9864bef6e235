package host

import (
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/subjects"
)

// service describes the host to discovery, with all endpoints for plain NATS clients.
func (h *Host) service(o Options) micro.Service {
	space := o.Space
	subject := func(verb string) string {
		if agent.VerbKind(verb) == subjects.KindHostRead {
			return space.HostReads(h.id.String(), verb)
		}
		return space.HostWrites(h.id, verb)
	}
	return micro.Service{
		Name: "castnet-host", ID: h.id.String(), Version: o.Version, Description: "launches procs and watches them",
		Metadata: map[string]string{"label": o.Label, "namespace": space.Namespace()},
		Info: func(answer func([]micro.Endpoint)) {
			answer(agent.DescribeEndpoints(h.proc.Registry(), agentType.Name(), subject))
		},
		Stats: func() []micro.Stats {
			return agent.EndpointStats(h.proc.Registry(), agentType.Name(), agent.ProcMetrics(h.proc), subject)
		},
	}
}
