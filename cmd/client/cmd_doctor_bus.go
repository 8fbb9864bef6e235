package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// connectTodo is what to do about a bus that cannot be reached.
func connectTodo(err error) string {
	e, ok := errors.AsType[*bus.ConnectError](err)
	switch {
	case !ok:
		return "see whether the server runs"
	case e.Reason == bus.WrongCredentials:
		return "give the credentials of a user of that server: --creds, --user or --token"
	case e.Reason == bus.OffLoopback:
		return "have the server ask for credentials, or say --insecure"
	case e.Reason == bus.BadOptions:
		return "see the flags, the NATS_… variables and the NATS context"
	}
	return "see whether a server runs there, and whether a firewall is between"
}

// farAway is the time to the server and back from which on everything feels slow.
const farAway = 250 * time.Millisecond

// connection says which server it is, and as whom it knows us.
func (d *doctor) connection(ctx context.Context) finding {
	c := d.b.Control()
	took, err := roundTrip(ctx, c)
	if err != nil {
		return finding{Result: failResult, Found: err.Error(), Todo: connectTodo(err)}
	}
	version, secured := c.Server()
	if secured == "" {
		secured = "no TLS"
	}
	f := finding{Result: wellResult, Found: fmt.Sprintf("%s, nats-server %s, %s, %s there and back, %s",
		c.URL(), version, d.user(ctx), took.Round(10*time.Microsecond), secured)}
	if took > farAway {
		f.Result, f.Todo = warnResult, "use a server nearby, or a leaf node"
	}
	return f
}

// roundTrip is the shortest of a few: it says how far the server is, not how busy this machine.
func roundTrip(ctx context.Context, c *bus.Conn) (time.Duration, error) {
	least := time.Hour
	for range 5 {
		begun := time.Now()
		if err := c.Flush(ctx); err != nil {
			return 0, err
		}
		least = min(least, time.Since(begun))
	}
	return least, nil
}

// redacted is what a server says in the place of a token.
const redacted = "[REDACTED]"

// userWithin is how long the server may take to say who we are: one that may not tell is silent.
const userWithin = time.Second

// account is what a server says of who asks.
type account struct {
	Data struct {
		User    string `json:"user"`
		Account string `json:"account"`
	} `json:"data"`
}

// user is as whom the server knows us, and in which account.
func (d *doctor) user(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, userWithin)
	defer cancel()
	var said account
	m, err := d.b.Control().Request(ctx, bus.Msg{Subject: "$SYS.REQ.USER.INFO"})
	switch {
	case err != nil && d.o.Bus.User != "":
		return "user " + d.o.Bus.User
	case err != nil || json.Unmarshal(m.Data, &said) != nil:
		return "a user whom the server does not name"
	case said.Data.User == "":
		return "no user, account " + said.Data.Account
	case said.Data.User == redacted:
		return "by token, account " + said.Data.Account
	}
	return fmt.Sprintf("user %s, account %s", said.Data.User, said.Data.Account)
}

// probe is a grant that a client needs, tried with a name that nobody has.
type probe struct {
	op             bus.Op
	subject, grant string
}

// probes try what subjects grants to a program, as the proc of a mesh that nobody knows.
func probes(space subjects.Space, inbox string, id subjects.ProcID) (out []probe) {
	self := id.Process()
	from, host := self.String(), id.Mesh.String()
	port := id.Actor("doctor")
	all := func(kind subjects.Kind) string { return space.String() + "." + kind.String() + ".>" }
	published := map[string]string{
		all(subjects.KindPort):  space.Port(port.Port("probe"), from),
		all(subjects.KindCast):  space.Cast(id.Mesh, "doctor", "probe", "_", from),
		all(subjects.KindFrame): space.Frame(self, from), all(subjects.KindControl): space.Control(self, from),
		all(subjects.KindHost): space.Host(host, "probe", from), all(subjects.KindEvent): space.Event("probe", id.Scope(), from),
		all(subjects.KindHint): space.Hint(self, "probe"), subjects.Discovery: "$SRV.PING." + from,
	}
	subscribed := map[string]string{
		all(subjects.KindPort): space.PortsOf(id), all(subjects.KindFrame): space.FramesOf(self),
		all(subjects.KindControl): space.ControlsOf(self), all(subjects.KindHint): space.HintsOf(self),
		all(subjects.KindEvent): space.Events("", subjects.MeshID{}), all(subjects.KindLog): space.Logs(id.Mesh),
		inbox + ".>": inbox + "." + id.Mesh.UID() + ".*",
	}
	grants := space.Grants(subjects.RoleProgram, inbox)
	for _, g := range grants.Publish {
		subject := published[g]
		if heartbeats, ok := strings.CutSuffix(g, "*"); ok {
			subject = heartbeats + from
		}
		out = append(out, probe{bus.OpPublish, subject, g})
	}
	for _, g := range grants.Subscribe {
		subject := subscribed[g]
		if strings.HasSuffix(g, "*") {
			subject = g
		}
		out = append(out, probe{bus.OpSubscribe, subject, g})
	}
	return out
}

// permissions says what the user may not do.
func (d *doctor) permissions(ctx context.Context) finding {
	id, err := subjects.NewMeshID("doctor")
	if err != nil {
		return finding{Result: failResult, Found: err.Error()}
	}
	inbox := d.o.Bus.InboxPrefix
	if inbox == "" {
		inbox = "_INBOX"
	}
	missing, err := try(ctx, d.b, probes(d.space, inbox, subjects.ProcID{Mesh: id}))
	switch {
	case err != nil:
		return finding{Result: failResult, Found: "they cannot be tried: " + err.Error(), Todo: "mend the connection"}
	case len(missing) > 0:
		return finding{Result: failResult, Found: "this user may not " + grants(missing), Todo: "allow that in the configuration of the server"}
	}
	return finding{Result: wellResult, Found: "this user may publish and subscribe to what a client needs under " + d.space.String()}
}

// try makes the probes, and returns those that the server refuses; it ends with the first that fails otherwise. A
// publish is refused after the call; the denials of all have been heard once a subscription was confirmed (BUS-2, BUS-3).
func try(ctx context.Context, b *bus.Bus, all []probe) (missing []probe, err error) {
	var mu sync.Mutex
	denied := map[bus.PermissionError]bool{}
	deaf := b.Watch(func(s bus.State) {
		if e, ok := errors.AsType[*bus.PermissionError](s.Err); ok && s.Kind == bus.Denied {
			mu.Lock()
			defer mu.Unlock()
			denied[*e] = true
		}
	})
	defer deaf()
	for _, p := range all {
		if p.op == bus.OpPublish {
			if err := b.Data().Publish(p.subject, nil); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range all {
		if p.op != bus.OpSubscribe {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		sub, err := b.Data().Subscribe(p.subject, func(bus.Msg) {})
		if err == nil {
			err = sub.Unsubscribe()
		}
		if _, denied := errors.AsType[*bus.PermissionError](err); err != nil && !denied {
			return nil, err
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, p := range all {
		if denied[bus.PermissionError{Op: p.op, Subject: p.subject}] {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

// grants writes what is to be allowed.
func grants(missing []probe) string {
	by := map[bus.Op][]string{}
	for _, p := range missing {
		by[p.op] = append(by[p.op], p.grant)
	}
	var parts []string
	for _, op := range []bus.Op{bus.OpPublish, bus.OpSubscribe} {
		if len(by[op]) > 0 {
			parts = append(parts, string(op)+" "+strings.Join(by[op], ", "))
		}
	}
	return strings.Join(parts, "; nor ")
}

// noStore is what follows when there is no usable JetStream.
const noStore = "worlds do not survive the hostd that owns them"

// storage is what a server says of an account's JetStream.
type storage struct {
	Storage int64 `json:"storage"`
	Memory  int64 `json:"memory"`
	Streams int   `json:"streams"`
	Limits  struct {
		Storage int64 `json:"max_storage"`
		Memory  int64 `json:"max_memory"`
		Streams int   `json:"max_streams"`
	} `json:"limits"`
	Tiers map[string]json.RawMessage `json:"tiers"` // they have limits of their own, in place of the account's
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
}

// jetStream says whether there is a store, and room in it.
func (d *doctor) jetStream(ctx context.Context) finding {
	const turnOn = "start hostd with --data DIR, or turn JetStream on in the server and for the account"
	var said storage
	m, err := d.b.Control().Request(ctx, bus.Msg{Subject: "$JS.API.INFO"})
	if err == nil {
		err = json.Unmarshal(m.Data, &said)
	}
	if err == nil && said.Error != nil {
		err = errors.New(said.Error.Description)
	}
	limits := said.Limits
	_, denied := errors.AsType[*bus.PermissionError](err)
	switch {
	case errors.Is(err, bus.ErrNoResponders):
		return finding{Result: warnResult, Found: "there is none: " + noStore, Todo: turnOn}
	case denied:
		return finding{Result: wellResult, Found: "this user may not ask about it; only a system controller uses it"}
	case err != nil:
		return finding{Result: warnResult, Found: fmt.Sprintf("it cannot be used: %s: %s", firstLine(err), noStore), Todo: turnOn}
	case len(said.Tiers) > 0:
	case full(said.Storage, limits.Storage) && full(said.Memory, limits.Memory):
		return finding{Result: failResult, Found: "the account has no room left in it", Todo: "raise the account's limits, or delete streams"}
	case full(int64(said.Streams), int64(limits.Streams)):
		return finding{Result: warnResult, Found: fmt.Sprintf("the account has %d streams, and may have no more", said.Streams), Todo: "raise the account's limit, if worlds are not kept yet"}
	}
	return finding{Result: wellResult, Found: fmt.Sprintf("%d bytes in %s", said.Storage+said.Memory, count(said.Streams, "stream"))}
}

// full reports whether a limit is reached: below 0 there is none, and of 0 nothing may be used.
func full(used, limit int64) bool { return limit >= 0 && used >= limit }

// firstLine keeps an error on one line.
func firstLine(err error) string { return shorten(err.Error(), 200) }

// system joins as a client does, and asks the system controller.
func (d *doctor) system(ctx context.Context) (f finding) {
	net, err := mesh.Connect(ctx, d.o)
	if err != nil {
		return finding{Result: failResult, Found: "a client cannot join: " + firstLine(err), Todo: "see the permissions"}
	}
	defer func() {
		if err := net.Close(context.WithoutCancel(ctx)); err != nil && f.Result == wellResult {
			f = finding{Result: warnResult, Found: "a client cannot leave: " + firstLine(err)}
		}
	}()
	ref, err := worlds.Find(ctx, net.Proc())
	if errors.Is(err, worlds.ErrNoSystem) {
		return finding{Result: warnResult, Found: "no system controller answers: worlds cannot be declared", Todo: "start a hostd with --system"}
	}
	var now worlds.Snapshot
	if err == nil {
		now, err = worlds.Snap.Call(ctx, ref, worlds.Filter{})
	}
	if err != nil {
		return finding{Result: failResult, Found: "the system controller: " + firstLine(err), Todo: "see the log of its hostd"}
	}
	owns := count(len(now.Worlds), "world") + " and " + count(len(now.Detached), "detached mesh")
	f = finding{Result: wellResult, Found: fmt.Sprintf("epoch %d, %s, kept in JetStream", now.Epoch, owns)}
	if !now.Durable {
		f = finding{Result: warnResult, Found: owns + ": " + noStore, Todo: "give it JetStream, and start it anew"}
	}
	return f
}
