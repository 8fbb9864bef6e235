package subjects

import (
	"slices"
	"strings"
)

// User is a user of a server: a principal, and one process of it or, without one, all of them.
type User struct {
	Principal Principal
	Process   ProcessID
}

// String is the user's text in a server's logs and lists: <principal> or <principal>.<process>.
func (u User) String() string {
	if u.Process.IsValid() {
		return u.Principal.s + "." + u.Process.s
	}
	return u.Principal.s
}

// Inbox is the prefix of the user's reply subjects. No other user may subscribe to them.
func (u User) Inbox() string {
	if u.Process.IsValid() {
		return Inbox + "." + u.Process.s
	}
	return Inbox + "." + u.Principal.s
}

// Inbox is the prefix under which NATS clients receive replies unless they choose another one.
const Inbox = "_INBOX"

// Discovery is the filter of requests that find NATS micro services, such as the system controller.
const Discovery = "$SRV.>"

// Account is the filter of requests to servers about connections of the own account, to find out
// whether a silent process still exists.
const Account = "$SYS.REQ.ACCOUNT.PING.*"

// UserInfo is the subject of requests to the server about the own user.
const UserInfo = "$SYS.REQ.USER.INFO"

// ProcService is the name of procs as NATS micro services.
const ProcService = "castnet-proc"

// Names of the other micro services.
const (
	hostService    = "castnet-host"
	gatewayService = "castnet-gateway"
	systemService  = "castnet-system"
)

// Grants are the subjects for a user's permissions on a server. Those denied are exceptions.
type Grants struct{ Publish, DenyPublish, Subscribe, DenySubscribe []string }

// maxOwnTokens is the length, in tokens, of a proc's messages outside of castnet. Every subject of
// castnet is longer, and NATS has no permission for all but one root.
const maxOwnTokens = 6

// Grants returns the permissions of a user. It speaks in its own name: each subject of castnet that
// it may publish ends with it. Without a process it also hears messages to the processes of others,
// because nothing in their subjects names a principal. A user with no role of connections has none.
func (s Space) Grants(u User) Grants {
	g := grants{space: s, user: u}
	switch u.Principal.Role() {
	case Program:
		g.program()
	case Operator:
		g.program()
		g.publish(KindHostWrite)
	case Observer:
		g.observer()
	case Caster:
		g.publish(KindGateway)
		g.hearReplies()
		g.Subscribe = append(g.Subscribe, g.space.Replies(g.speaker(Caster)))
	case Proc:
		g.proc()
	case Gateway:
		g.gateway()
	case Host:
		g.host()
	case System:
		g.system()
	}
	return g.Grants
}

// grants collects the permissions of a user.
type grants struct {
	Grants
	space Space
	user  User
}

// speaker is the user as the sender of a subject; "*" stands for any process.
func (g *grants) speaker(role Role) Sender {
	p := g.user.Principal
	if role != p.Role() {
		p = role.Principal(p.Label())
	}
	if !p.IsValid() {
		return Sender{}
	}
	if g.user.Process.IsValid() {
		return Sender{p.s + "." + g.user.Process.s}
	}
	return Sender{p.s + ".*"}
}

// publishAs permits subjects of the kinds to a sender.
func (g *grants) publishAs(from Sender, kinds ...Kind) {
	for _, k := range kinds {
		g.Publish = append(g.Publish, g.space.newBuilder(k).anyBeforeSender(k).sender(from).String())
	}
}

func (g *grants) publish(kinds ...Kind) {
	g.publishAs(g.speaker(g.user.Principal.Role()), kinds...)
}

// beat permits heartbeats of the kinds to a sender.
func (g *grants) beat(from Sender, kinds ...string) {
	for _, kind := range kinds {
		g.Publish = append(g.Publish, g.space.Heartbeat(kind, from))
	}
}

// call permits what every caller of castnet needs: its messages, the search for hosts, and the
// question whether a silent process still exists.
func (g *grants) call() {
	self := g.speaker(g.user.Principal.Role())
	g.publish(KindPort, KindFrame, KindControl, KindHostRead)
	g.publishAs(Anon(), KindHostRead)
	g.beat(Anon(), "hosts")
	g.beat(self, "echo")
	g.Publish = append(g.Publish, Discovery, Account, UserInfo)
}

// hearOwn permits the messages to the user's process.
func (g *grants) hearOwn() {
	for _, k := range []Kind{KindPort, KindFrame, KindControl, KindHint} {
		if g.user.Process.IsValid() {
			g.Subscribe = append(g.Subscribe, g.space.newBuilder(k).process(g.user.Process).String()+".>")
		} else {
			g.hear(k)
		}
	}
}

// hear permits all subjects of the kinds.
func (g *grants) hear(kinds ...Kind) { g.Subscribe = append(g.Subscribe, g.space.under(kinds...)...) }

// hearBeats permits heartbeats of the kinds from all.
func (g *grants) hearBeats(kinds ...string) {
	for _, kind := range kinds {
		g.Subscribe = append(g.Subscribe, g.space.Heartbeats(kind))
	}
}

// hearReplies permits replies to the user.
func (g *grants) hearReplies() { g.Subscribe = append(g.Subscribe, g.user.Inbox()+".>") }

// watch permits what shows who lives.
func (g *grants) watch() {
	g.hear(KindHostEvent, KindEvent)
	g.hearBeats("host", "gone")
	g.Subscribe = append(g.Subscribe, g.space.Heartbeat("echo", g.speaker(g.user.Principal.Role())))
}

func (g *grants) program() {
	g.call()
	g.publish(KindCast, KindGateway, KindEvent)
	g.hearOwn()
	g.watch()
	g.hear(KindLog)
	g.hearReplies()
}

// observer permits what only reads. Its messages reach agents, which compare each verb with the
// role; actors refuse an observer.
func (g *grants) observer() {
	g.call()
	g.hearOwn()
	g.watch()
	g.hear(KindLog)
	g.hearReplies()
}

// proc permits what is of one rank. A proc may own meshes, so it reads events. It may also publish
// to subjects of programs, but use no JetStream and be no host.
func (g *grants) proc() {
	g.call()
	g.publish(KindCast, KindEvent)
	g.answer()
	for n := range maxOwnTokens {
		g.Publish = append(g.Publish, "*"+strings.Repeat(".*", n))
	}
	g.DenyPublish = []string{"$JS.>", "$KV.>"}
	g.hearOwn()
	if g.user.Process.IsValid() {
		g.Subscribe = append(g.Subscribe,
			g.space.newBuilder(KindCast).token(isLabelUID, g.user.Process.Proc().Mesh.s).String()+".>")
	} else {
		g.hear(KindCast)
	}
	g.watch()
	g.hearReplies()
	g.serve(ProcService)
}

// answer permits answers to plain clients, which choose where they wait.
func (g *grants) answer() {
	g.Publish = append(append(g.Publish, g.space.under(KindReply)...), Inbox+".>")
}

// serve permits micro services, and no others of castnet.
func (g *grants) serve(services ...string) {
	g.Subscribe = append(g.Subscribe, "$SRV.*")
	for _, name := range services {
		g.Subscribe = append(g.Subscribe, "$SRV.*."+name, "$SRV.*."+name+".*")
	}
	for _, name := range []string{ProcService, hostService, gatewayService, systemService} {
		if !slices.Contains(services, name) { // for a server "$SRV.*" includes "$SRV.>"
			g.DenySubscribe = append(g.DenySubscribe, "$SRV.*."+name, "$SRV.*."+name+".>")
		}
	}
}

// gateway permits what a gateway does for plain clients.
func (g *grants) gateway() {
	self := g.speaker(Gateway)
	g.publishAs(self, KindPort, KindCast, KindFrame, KindControl, KindHostRead, KindEvent)
	g.publishAs(Anon(), KindHostRead)
	g.beat(Anon(), "hosts")
	g.beat(self, "gateway", "claim", "echo", "hosts")
	g.Publish = append(g.Publish, Discovery, Account)
	g.answer()
	g.hearOwn()
	g.hear(KindGateway)
	g.watch()
	g.hearBeats("hosts", "gateway", "claim")
	g.hearReplies()
	g.serve(gatewayService)
}

// host permits what a hostd does, with its gateway.
func (g *grants) host() {
	gateway, self := g.speaker(Gateway), g.speaker(Host)
	g.call()
	g.publish(KindCast, KindEvent, KindHostWrite, KindHostEvent, KindLog)
	g.beat(self, "host", "gone", "hosts", "ticket")
	g.publishAs(gateway, KindPort, KindCast, KindFrame, KindControl, KindHostRead, KindEvent)
	g.beat(gateway, "gateway", "claim", "echo", "hosts")
	g.answer()
	g.hear(KindPort, KindCast, KindFrame, KindControl, KindHint)
	g.hear(KindHostRead, KindHostWrite, KindGateway, KindLog)
	g.watch()
	g.hearBeats("hosts", "gateway", "claim")
	g.Subscribe = append(g.Subscribe, g.space.Heartbeat("echo", gateway))
	g.hearReplies()
	g.serve(hostService, gatewayService)
}

// system permits what a hostd does that may become the system controller.
func (g *grants) system() {
	s, of := g.speaker(System), g.user
	host := grants{space: g.space, user: User{Host.Principal(of.Principal.Label()), of.Process}}
	host.host()
	g.Grants = host.Grants
	g.DenySubscribe = nil
	g.publishAs(s, KindPort, KindCast, KindFrame, KindControl, KindHostRead, KindHostWrite, KindEvent)
	g.beat(s, "echo", "hosts")
	bucket := g.space.Bucket()
	g.Publish = append(g.Publish, "$KV."+bucket+".>", "$JS.API.INFO", "$JS.FC.KV_"+bucket+".>")
	for _, verb := range []string{"STREAM.INFO", "STREAM.UPDATE", "STREAM.CREATE"} {
		g.Publish = append(g.Publish, "$JS.API."+verb+".KV_"+bucket)
	}
	for _, verb := range []string{"DIRECT.GET", "CONSUMER.CREATE", "CONSUMER.DELETE"} {
		g.Publish = append(g.Publish, "$JS.API."+verb+".KV_"+bucket+".>")
	}
	g.Subscribe = append(g.Subscribe, g.space.Heartbeat("echo", s), of.Inbox()+".>",
		"$SRV.*."+systemService, "$SRV.*."+systemService+".*")
	g.DenySubscribe = []string{"$SRV.*." + ProcService, "$SRV.*." + ProcService + ".>"}
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
