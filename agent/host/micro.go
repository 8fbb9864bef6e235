package host

import (
	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/subjects"
)

// microSubscriber ties subscriptions of package micro to the life of the proc, on the control
// connection.
type microSubscriber struct{ proc *actor.Proc }

func (s microSubscriber) Subscribe(subject string, handle func(bus.Msg)) error {
	return s.proc.Foreign().Subscribe(s.proc.Bus().Control().Lossy(micro.Inbox), subject, handle)
}

func (s microSubscriber) Publish(m bus.Msg) error { return s.proc.Bus().Control().PublishMsg(m) }

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
			info, _ := h.proc.Actor(agent.Name)
			all := agent.EndpointStats(h.proc.Registry(), agentType.Name(), []actor.Info{info}, subject)
			dropped := map[string]uint64{"dropped": h.requestInbox().Dropped()} // all share one inbox
			for i := range all {
				all[i].Data = dropped
			}
			return all
		},
	}
}
