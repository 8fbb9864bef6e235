package hostile

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/subjects"
)

// target is what a hostile proc attacks: a mesh of another program, its owner and its hosts.
type target struct {
	Mesh   agent.Mesh       `cbor:"1,keyasint"`
	Actor  subjects.ActorID `cbor:"2,keyasint"` // of rank 0
	Owner  subjects.ActorID `cbor:"3,keyasint"` // the controller
	System subjects.ActorID `cbor:"4,keyasint"`
	// Program is the sender of the owner's messages.
	Program subjects.Sender `cbor:"5,keyasint"`
}

// forgery is a kind of message that claims something. Its subject differs from one to the next.
type forgery struct {
	kind    string
	subject func(n int) string
	reply   string
	body    string
	// nameless marks a kind that bears no sender's name.
	nameless bool
}

// forger makes forgeries.
type forger struct {
	space subjects.Space
	self  subjects.Sender
	to    target
}

// names are the senders that a hostile proc claims to be.
func (f forger) names() map[string]subjects.Sender {
	host := f.to.Mesh.Hosts[0]
	return map[string]subjects.Sender{
		"itself":                          f.self,
		"a peer":                          subjects.NewSender(subjects.Proc.Principal(host.Label()), f.to.Mesh.ProcID(1, 0).Process()),
		"a far peer":                      subjects.NewSender(f.self.Principal(), f.to.Mesh.ProcID(2, 0).Process()),
		"a proc with the owner's process": subjects.NewSender(f.self.Principal(), f.to.Owner.Proc.Process()),
		"its host":                        subjects.NewSender(subjects.Host.Principal(host.Label()), host.Proc().Process()),
		"the owner":                       f.to.Program,
		"the system":                      subjects.NewSender(subjects.System.Principal(host.Label()), f.to.System.Proc.Process()),
		"a gateway":                       subjects.NewSender(subjects.Gateway.Principal(host.Label()), f.process()),
		"a person":                        subjects.NewSender(subjects.UserPrincipal(subjects.Operator, "root"), f.process()),
	}
}

// process is the process of the hostile proc.
func (f forger) process() subjects.ProcessID {
	p, _ := f.self.Process() // it is a process
	return p
}

// always is a subject that does not vary.
func always(subject string) func(int) string { return func(int) string { return subject } }

// forgeries are all kinds, in each name.
func (f forger) forgeries() (all []forgery) {
	host, mesh := f.to.Mesh.Hosts[0], f.to.Mesh
	victim, far := mesh.ProcID(1, 0), mesh.ProcID(2, 0)
	failed := fmt.Sprintf(`{"kind":"proc","status":"failed","mesh":%q,"rank":1,"gen":0,"host":%q,"reason":"forged","at":%q}`,
		mesh.ID, host.Label(), time.Now().Format(time.RFC3339))
	moved := strings.Replace(strings.Replace(failed, "failed", "running", 1), `"gen":0`, `"gen":1`, 1)
	for name, as := range f.names() {
		add := func(kind, body string, subject func(int) string) {
			all = append(all, forgery{kind: kind + " by " + name, subject: subject, body: body})
		}
		add("hv failed", failed, always(f.space.HostEvent(victim, as)))
		add("ev.proc failed", failed, always(f.space.Event("proc", victim.Scope(), as)))
		add("ev.proc failed, far", strings.Replace(strings.Replace(failed, `"rank":1`, `"rank":2`, 1), host.Label(),
			mesh.Hosts[1].Label(), 1), always(f.space.Event("proc", far.Scope(), as)))
		next := mesh.ProcID(1, 1)
		add("ev.proc running elsewhere", moved, always(f.space.Event("proc", next.Scope(), as)))
		add("ev.actor failed", strings.Replace(failed, `"proc"`, `"actor"`, 1),
			always(f.space.Event("actor", f.to.Actor.Scope(), as)))
		add("ev.mesh stopped", strings.Replace(strings.Replace(failed, `"proc"`, `"mesh"`, 1), "failed", "stopped", 1),
			always(f.space.Event("mesh", mesh.ID.Scope(), as)))
		add("ev.rank failed", strings.Replace(failed, `"proc"`, `"rank"`, 1),
			always(f.space.Event("rank", mesh.ID.Scope(), as)))
		for _, verb := range []string{"stop-all", "drain", "stop", "cordon", "take"} {
			add("hw "+verb, fmt.Sprintf(`{"id":%q,"reason":"forged","force":true,"cordon":true}`, mesh.ID),
				always(f.space.HostWrite(host, verb, as)))
			add("p to a host's "+verb, fmt.Sprintf(`{"id":%q,"reason":"forged"}`, mesh.ID),
				always(f.space.Port(host.Proc().Actor(agent.Name).Port(verb), as)))
		}
		add("p to a proc's stop-all", `{"reason":"forged"}`,
			always(f.space.Port(victim.Actor(agent.Name).Port("stop-all"), as)))
		add("p to the owner's stop", fmt.Sprintf(`{"id":%q,"reason":"forged"}`, mesh.ID),
			always(f.space.Port(f.to.Owner.Port("stop"), as)))
		add("f garbage", "\x00\x01forged", always(f.space.Frame(victim.Process(), as)))
		add("c garbage", "\x00\x01forged", always(f.space.Control(victim.Process(), as)))
		add("k to nobody", "\x00\x01forged", always(f.space.Cast(mesh.ID, "nobody", "p", "_", as)))
		for _, kind := range []string{"host", "gone", "hosts", "echo", "gateway", "claim", agent.KindTicketEnd} {
			add("hb."+kind, fmt.Sprintf(`{"host":%q,"goodbye":true}`, host), always(f.space.Heartbeat(kind, as)))
		}
		add("log", "forged\n", always(f.space.Log(victim, "stderr", as)))
		add("cast", "1", func(n int) string {
			return f.space.Gateway("nobody", "counter", fmt.Sprintf("e%d", n%100), as)
		})
	}
	deputy := f.space.HostWrite(host, "stop-all", f.self)
	nameless := []forgery{
		{kind: "n hint", subject: always(f.space.Hint(victim.Process(), "x"))},
		{kind: "r answer", subject: func(n int) string {
			return f.space.Reply(f.names()["the owner"], fmt.Sprintf("t%d", n))
		}, body: "{}"},
		{kind: "_INBOX answer", subject: func(n int) string {
			return fmt.Sprintf("_INBOX.%s.%d", f.to.Owner.Proc.Process(), n)
		}, body: "{}"},
		{kind: "$SRV.PING with an order as reply", subject: always("$SRV.PING"), reply: deputy},
		{kind: "hr.any.info with an order as reply",
			subject: always(f.space.HostRead(subjects.Any, "info", subjects.Anon())), reply: deputy},
		{kind: "$JS delete", subject: always("$JS.API.STREAM.DELETE.KV_" + f.space.Bucket())},
		{kind: "$KV write", subject: always("$KV." + f.space.Bucket() + ".x"), body: "{}"},
	}
	for _, kind := range nameless {
		kind.nameless = true
		all = append(all, kind)
	}
	return all
}

// ears are what a hostile proc wants to hear.
func (f forger) ears() []string {
	host, mesh := f.to.Mesh.Hosts[0], f.to.Mesh
	victim := mesh.ProcID(1, 0)
	return []string{
		">", f.space.String() + ".>", "*.>", "_INBOX.>", "_INBOX.*.*", "$SYS.>", "$JS.>", "$KV.>",
		f.space.PortsOf(victim), f.space.FramesOf(victim.Process()), f.space.ControlsOf(victim.Process()),
		f.space.HintsOf(victim.Process()), f.space.CastsOf(mesh.ID, "_"), f.space.Logs(mesh.ID),
		f.space.HostReads(host.String(), ""), f.space.HostReads(subjects.Any, ""), f.space.HostWrites(host, ""),
		f.space.Gateways(), f.space.Heartbeats("claim"), f.space.Heartbeats("hosts"), f.space.Heartbeats("ticket"),
		f.space.Replies(f.names()["the owner"]), f.space.Events("", mesh.ID), f.space.HostEvents(mesh.ID),
		"$SRV.PING", "$SRV.PING.castnet-host", "$SRV.PING.castnet-gateway", "$SRV.PING.castnet-system",
	}
}

// order is what a hostile proc attacks, and how often.
type order struct {
	Target target `cbor:"1,keyasint"`
	Count  int    `cbor:"2,keyasint"` // of each kind in each name
}

// count is the number of messages: a kind without names is sent as often as others in all names.
func (o order) count(f forgery, names int) int {
	if f.nameless {
		return o.Count * names
	}
	return o.Count
}

// outcome is what the server did with the messages or the subscription of a kind.
type outcome struct {
	Kind   string `cbor:"1,keyasint"`
	Sent   int    `cbor:"2,keyasint"`
	Denied int    `cbor:"3,keyasint"`
}

var (
	hostileType = actor.NewType[*hostile, actor.None]("hostile")
	forge       = actor.NewEndpoint[*hostile, order, []outcome]("forge")
	overhear    = actor.NewEndpoint[*hostile, target, []outcome]("overhear")
	impersonate = actor.NewEndpoint[*hostile, disguise, []refusal]("impersonate")
	command     = actor.NewEndpoint[*hostile, target, []refusal]("command")
)

// A hostile actor knows the credentials of its own process.
type hostile struct{ settings agent.BusSettings }

func hostileDef() actor.Def {
	return hostileType.Define(func(ctx *actor.Context, _ actor.None) (*hostile, error) {
		return &hostile{proc.BusSettingsOf(ctx.Proc())}, nil
	}, forge.Handle((*hostile).forge), overhear.Handle((*hostile).overhear), command.Handle((*hostile).command),
		impersonate.Handle((*hostile).impersonate))
}

// thief is a connection with the credentials of the process, past the library.
type thief struct {
	nc *nats.Conn

	mu     sync.Mutex
	denied map[string]int // by subject
	marks  chan string    // the refused marks of settle
}

// markPrefix begins the subjects of marks, which no server permits.
const markPrefix = "$KV.mark."

func (h *hostile) steal() (*thief, error) {
	t := &thief{denied: map[string]int{}, marks: make(chan string, 1)}
	o := []nats.Option{nats.Token(h.settings.Token), nats.CustomInboxPrefix(h.settings.InboxPrefix),
		nats.NoReconnect(), nats.ErrorHandler(t.onError)}
	if h.settings.Creds != "" {
		o = append(o, nats.UserCredentials(h.settings.Creds))
	}
	if h.settings.User != "" {
		o = append(o, nats.UserInfo(h.settings.User, h.settings.Password))
	}
	nc, err := nats.Connect(h.settings.URL, o...)
	t.nc = nc
	return t, err
}

// onError counts refusals by the server's text: … to "SUBJECT".
func (t *thief) onError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	_, rest, _ := strings.Cut(err.Error(), `"`)
	subject, _, _ := strings.Cut(rest, `"`)
	if strings.HasPrefix(subject, markPrefix) {
		t.marks <- subject // settle reads it
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.denied[subject]++
}

func (t *thief) refused(subject string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.denied[subject]
}

// settle waits until the client has seen all earlier refusals: they come in order.
func (t *thief) settle() error {
	if err := t.nc.Publish(markPrefix+"x", nil); err != nil {
		return err
	}
	if err := t.nc.FlushTimeout(settleTimeout); err != nil {
		return err
	}
	select {
	case <-t.marks:
		return nil
	case <-time.After(settleTimeout):
		return errors.New("the server has not refused the mark")
	}
}

const settleTimeout = 30 * time.Second

func (h *hostile) forger(ctx *actor.Context, to target) forger {
	return forger{ctx.Proc().Space(), ctx.Proc().Sender(), to}
}

// forge sends each kind of forgery, and reports what the server refused.
func (h *hostile) forge(ctx *actor.Context, o order) ([]outcome, error) {
	t, err := h.steal()
	if err != nil {
		return nil, err
	}
	defer t.nc.Close()
	f := h.forger(ctx, o.Target)
	names := len(f.names())
	var all []outcome
	for _, kind := range f.forgeries() {
		sent := map[string]bool{}
		count := o.count(kind, names)
		for n := range count {
			subject := kind.subject(n)
			sent[subject] = true
			m := &nats.Msg{Subject: subject, Reply: kind.reply, Data: []byte(kind.body)}
			if err := t.nc.PublishMsg(m); err != nil {
				return all, fmt.Errorf("%s: %w", kind.kind, err)
			}
		}
		if err := t.settle(); err != nil {
			return all, fmt.Errorf("%s: %w", kind.kind, err)
		}
		denied := 0
		for subject := range sent {
			denied += t.refused(subject)
		}
		all = append(all, outcome{kind.kind, count, denied})
	}
	return all, nil
}

// overhear subscribes to what is for others.
func (h *hostile) overhear(ctx *actor.Context, to target) ([]outcome, error) {
	t, err := h.steal()
	if err != nil {
		return nil, err
	}
	defer t.nc.Close()
	var all []outcome
	for _, filter := range h.forger(ctx, to).ears() {
		before := t.refused(filter)
		sub, err := t.nc.SubscribeSync(filter)
		if err != nil {
			return all, fmt.Errorf("%s: %w", filter, err)
		}
		if err := t.settle(); err != nil {
			return all, err
		}
		all = append(all, outcome{filter, 1, t.refused(filter) - before})
		_ = sub.Unsubscribe() // a refused one has ended
	}
	return all, nil
}
