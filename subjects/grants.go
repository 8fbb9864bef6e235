package subjects

import "slices"

// Role is the role of a NATS user in castnet.
type Role string

// The roles.
const (
	RoleProgram Role = "program" // programs of mesh.Connect, and the client command
	RoleCaller  Role = "caller"  // NATS clients of a gateway
	RoleHost    Role = "host"    // hostd, gateways and procs
)

// Discovery is the filter of requests that find NATS micro services, such as the system controller.
const Discovery = "$SRV.>"

// Account is the filter of requests to servers about connections of the own account, to find out
// whether a silent process still exists.
const Account = "$SYS.REQ.ACCOUNT.PING.*"

// Grants are the subjects for a user's permissions on a server.
type Grants struct{ Publish, Subscribe []string }

// Grants returns the grants of a role; replies come under the prefix inbox. An unknown role has
// none. A system controller also needs a JetStream bucket.
func (s Space) Grants(role Role, inbox string) Grants {
	replies := inbox + ".>"
	under := func(kinds ...Kind) (all []string) {
		for _, k := range kinds {
			all = append(all, s.prefixText()+k.String()+".>")
		}
		return all
	}
	switch role {
	case RoleProgram:
		return Grants{
			Publish: append(under(KindPort, KindCast, KindFrame, KindControl, KindHint, KindHostRead, KindHostWrite,
				KindEvent),
				s.Heartbeats("hosts"), s.Heartbeats("echo"), Discovery, Account),
			Subscribe: append(under(KindPort, KindFrame, KindControl, KindHint, KindHostEvent, KindEvent, KindLog),
				s.Heartbeats("host"), s.Heartbeats("gone"), s.Heartbeats("echo"), replies),
		}
	case RoleCaller:
		return Grants{Publish: under(KindGateway), Subscribe: []string{replies}}
	case RoleHost:
		all := []string{s.prefixText() + ">", Discovery, replies}
		return Grants{Publish: append(slices.Clone(all), Account), Subscribe: all}
	}
	return Grants{}
}
