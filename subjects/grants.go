package subjects

// Role is what a user of a NATS server does with castnet.
type Role string

// The roles.
const (
	RoleProgram Role = "program" // programs of mesh.Connect, and the client command
	RoleCaller  Role = "caller"  // NATS clients that cast through a gateway
	RoleHost    Role = "host"    // hostd, gateways and procs
)

// Discovery is what is published to find NATS micro services, such as the system controller.
const Discovery = "$SRV.>"

// Grants are the subjects that a user needs in the permissions of a server.
type Grants struct{ Publish, Subscribe []string }

// Grants are those of a role; replies come under the prefix inbox. A role that Role does not name has none.
// A system controller also needs a bucket of JetStream.
func (s Space) Grants(role Role, inbox string) Grants {
	replies := inbox + ".>"
	under := func(kinds ...Kind) (all []string) {
		for _, k := range kinds {
			all = append(all, s.start()+k.String()+".>")
		}
		return all
	}
	switch role {
	case RoleProgram:
		return Grants{
			Publish: append(under(KindPort, KindCast, KindFrame, KindControl, KindHost, KindEvent, KindHint),
				s.Heartbeats("hosts"), s.Heartbeats("echo"), Discovery),
			Subscribe: append(under(KindPort, KindFrame, KindControl, KindHint, KindEvent, KindLog),
				s.Heartbeats("host"), s.Heartbeats("gone"), s.Heartbeats("echo"), replies),
		}
	case RoleCaller:
		return Grants{Publish: under(KindGateway), Subscribe: []string{replies}}
	case RoleHost:
		all := []string{s.start() + ">", Discovery, replies}
		return Grants{Publish: all, Subscribe: all}
	}
	return Grants{}
}
