package host

import (
	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/micro"
)

// services lets package micro subscribe for as long as the proc is there, on the control connection.
type services struct{ *actor.Proc }

func (s services) Subscribe(subject string, handle func(bus.Msg)) error {
	return s.SubscribeLossy(s.Bus().Control().Lossy(micro.Inbox), subject, handle)
}

func (s services) Publish(m bus.Msg) error { return s.Bus().Control().PublishMsg(m) }

// service is the host for discovery: what its agent can be asked by any NATS client.
func (h *Host) service(o Options) micro.Service {
	space := o.Space
	subject := func(verb string) string { return space.HostVerbs(h.id.String(), verb) }
	return micro.Service{
		Name: "castnet-host", ID: h.id.String(), Version: o.Version, Description: "launches procs and watches them",
		Metadata: map[string]string{"label": o.Label, "namespace": space.Namespace()},
		Info: func(answer func([]micro.Endpoint)) {
			answer(agent.Endpoints(h.proc.Registry(), agentType.Name(), subject))
		},
		Stats: func() []micro.Stats {
			info, _ := h.proc.Actor(agent.Name)
			all := agent.Stats(h.proc.Registry(), agentType.Name(), []actor.Info{info}, subject)
			dropped := map[string]uint64{"dropped": h.requests().Dropped()} // they share one Inbox
			for i := range all {
				all[i].Data = dropped
			}
			return all
		},
	}
}
