package subjects

import (
	"slices"
	"strings"
)

// Role is the role of a NATS user in castnet.
type Role string

// The roles.
const (
	RoleProgram Role = "program" // programs of mesh.Connect, and the client command
	RoleCaller  Role = "caller"  // NATS clients of a gateway
	RoleHost    Role = "host"    // hostd, gateways and procs without a ticket
)

// Discovery is the filter of requests that find NATS micro services, such as the system controller.
const Discovery = "$SRV.>"

// Account is the filter of requests to servers about connections of the own account, to find out
// whether a silent process still exists.
const Account = "$SYS.REQ.ACCOUNT.PING.*"

// Inbox is the prefix under which NATS clients receive replies unless they choose another one.
const Inbox = "_INBOX"

// ProcService is the name of procs as NATS micro services.
const ProcService = "castnet-proc"

// Grants are the subjects for a user's permissions on a server. Those denied are exceptions.
type Grants struct{ Publish, DenyPublish, Subscribe, DenySubscribe []string }

// maxOwnTokens is the length, in tokens, of a proc's messages outside of castnet. Every subject of
// castnet is longer, and NATS has no permission for all but one root.
const maxOwnTokens = 6

// Grants returns the grants of a role; replies come under the prefix inbox. An unknown role has
// none. A system controller also needs a JetStream bucket.
func (s Space) Grants(role Role, inbox string) Grants {
	replies := inbox + ".>"
	switch role {
	case RoleProgram:
		return Grants{
			Publish: append(s.under(KindPort, KindCast, KindFrame, KindControl, KindHint, KindHostRead,
				KindHostWrite, KindEvent),
				s.Heartbeats("hosts"), s.Heartbeats("echo"), Discovery, Account),
			Subscribe: append(s.under(KindPort, KindFrame, KindControl, KindHint, KindHostEvent, KindEvent, KindLog),
				s.Heartbeats("host"), s.Heartbeats("gone"), s.Heartbeats("echo"), replies),
		}
	case RoleCaller:
		return Grants{Publish: s.under(KindGateway), Subscribe: []string{replies}}
	case RoleHost:
		all := []string{s.prefixText() + ">", Discovery, replies}
		return Grants{Publish: append(slices.Clone(all), Account), Subscribe: all}
	}
	return Grants{}
}

// ProcGrants returns the grants of one proc, and the prefix of its inbox. The proc speaks in its
// own name, hears what is for its rank or its mesh, and acts on no host. It may own meshes, so it
// reads events. It may publish to subjects of programs, of at most 6 tokens, but use no JetStream. An
// invalid sender, or one that is no proc, has none.
func (s Space) ProcGrants(self Sender) (g Grants, inbox string) {
	process, err := self.Process()
	if err != nil || self.s[0] != roleProc {
		return Grants{}, ""
	}
	text := process.String()
	inbox = Inbox + "." + text
	from := func(sender Sender, kinds ...Kind) {
		for _, k := range kinds {
			g.Publish = append(g.Publish, s.newBuilder(k).anyBeforeSender(k).sender(sender).String())
		}
	}
	to := func(kinds ...Kind) {
		for _, k := range kinds {
			g.Subscribe = append(g.Subscribe, s.newBuilder(k).process(process).String()+".>")
		}
	}
	from(self, KindPort, KindCast, KindFrame, KindControl, KindHostRead, KindEvent)
	from(Anon(), KindHostRead) // discovery
	g.Publish = append(append(g.Publish, s.under(KindReply)...), s.Heartbeat("hosts", Anon()),
		s.Heartbeat("echo", self), Discovery, Account, Inbox+".>")
	for n := range maxOwnTokens {
		g.Publish = append(g.Publish, "*"+strings.Repeat(".*", n))
	}
	g.DenyPublish = []string{"$JS.>", "$KV.>"}
	to(KindPort, KindFrame, KindControl, KindHint)
	g.Subscribe = append(append(g.Subscribe, s.under(KindHostEvent, KindEvent)...),
		s.newBuilder(KindCast).token(isLabelUID, process.Proc().Mesh.s).String()+".>",
		s.Heartbeats("host"), s.Heartbeats("gone"), s.Heartbeat("echo", self),
		"$SRV.*", "$SRV.*."+ProcService, "$SRV.*."+ProcService+"."+text, inbox+".>")
	for _, other := range []string{"castnet-host", "castnet-gateway", "castnet-system"} {
		// for a server "$SRV.*" includes "$SRV.>"
		g.DenySubscribe = append(g.DenySubscribe, "$SRV.*."+other, "$SRV.*."+other+".>")
	}
	return g, inbox
}

// under returns the filters for all subjects of the kinds.
func (s Space) under(kinds ...Kind) (all []string) {
	for _, k := range kinds {
		all = append(all, s.prefixText()+k.String()+".>")
	}
	return all
}

// anyBeforeSender stands for all tokens of a kind's subjects up to the sender at their end.
func (b builder) anyBeforeSender(k Kind) builder {
	for range strings.Count(k.Pattern(), ".") - 2 {
		b = b.any()
	}
	return b
}
