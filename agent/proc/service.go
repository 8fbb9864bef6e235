package proc

import (
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/micro"
)

// services lets package micro subscribe for as long as the proc is there.
type services struct{ *actor.Proc }

func (s services) Subscribe(subject string, handle func(bus.Msg)) error {
	return s.SubscribeLossy(s.Bus().Data().Lossy(micro.Inbox), subject, handle)
}

func (s services) Publish(m bus.Msg) error { return s.Bus().Data().PublishMsg(m) }

// serve makes a proc a micro service: what the actors it can run are asked.
func serve(p *actor.Proc) error {
	id := p.ID()
	subject := func(endpoint string) string { return p.Space().PortsNamed(id, endpoint) }
	types := slices.DeleteFunc(p.Registry().Types(), func(t string) bool { return t == agentType.Name() })
	return micro.Serve(services{p}, micro.Service{
		Name: "castnet-proc", ID: id.Process().String(), Description: "runs actors",
		Metadata: map[string]string{"mesh": id.Mesh.String(), "proc": id.String(), "namespace": p.Space().Namespace()},
		Info: func(answer func([]micro.Endpoint)) {
			var all []micro.Endpoint
			for _, t := range types {
				all = append(all, agent.Endpoints(p.Registry(), t, subject)...)
			}
			answer(all)
		},
		Stats: func() (all []micro.Stats) {
			actors := p.Actors()
			for _, t := range types {
				all = append(all, agent.Stats(p.Registry(), t, actors, subject)...)
			}
			return all
		},
	})
}
