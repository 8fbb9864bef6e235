package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// connectTodo returns advice for an unreachable bus.
func connectTodo(err error) string {
	e, ok := errors.AsType[*bus.ConnectError](err)
	switch {
	case !ok:
		return "see whether the server runs"
	case e.Reason == bus.WrongCredentials:
		return "give the credentials of a user of that server: --creds, --user or --token"
	case e.Reason == bus.UnauthenticatedRemote:
		return "enable credentials on the server, or use --insecure"
	case e.Reason == bus.BadOptions:
		return "see the flags, the NATS_… variables and the NATS context"
	}
	return "see whether a server runs there, and whether a firewall is between"
}

// slowRoundTrip is the round trip above which commands feel slow.
const slowRoundTrip = 250 * time.Millisecond

// connection checks the server and the user of the connection.
func (d *doctor) connection(ctx context.Context) Finding {
	c := d.bus.Control()
	took, err := roundTrip(ctx, c)
	if err != nil {
		return Finding{Result: ResultFail, Found: err.Error(), Suggestion: connectTodo(err)}
	}
	version, secured := c.ServerVersion()
	if secured == "" {
		secured = "no TLS"
	}
	f := Finding{Result: ResultOK, Found: fmt.Sprintf("%s, nats-server %s, %s, %s there and back, %s",
		c.URL(), version, d.user(ctx), took.Round(10*time.Microsecond), secured)}
	if took > slowRoundTrip {
		f.Result, f.Suggestion = ResultWarn, "use a server nearby, or a leaf node"
	}
	return f
}

// roundTrip returns the shortest of a few round trips, to measure distance and not the local load.
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

// redacted is the server's placeholder for a token.
const redacted = "[REDACTED]"

// userTimeout bounds the server's answer about the user. A forbidden request gets no answer.
const userTimeout = time.Second

// userInfo is the server's description of the user.
type userInfo struct {
	Data struct {
		User    string `json:"user"`
		Account string `json:"account"`
	} `json:"data"`
}

// user returns the connection's user and account.
func (d *doctor) user(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, userTimeout)
	defer cancel()
	var said userInfo
	m, err := d.bus.Control().Request(ctx, bus.Msg{Subject: subjects.UserInfo})
	switch {
	case err != nil && d.options.Bus.UserName() != "":
		return "user " + d.options.Bus.UserName()
	case err != nil || json.Unmarshal(m.Data, &said) != nil:
		return "user unknown to this client"
	case said.Data.User == "":
		return "no user, account " + said.Data.Account
	case said.Data.User == redacted:
		return "by token, account " + said.Data.Account
	}
	return fmt.Sprintf("user %s, account %s", said.Data.User, said.Data.Account)
}

// probe tests a permission that a client needs, with an unused name.
type probe struct {
	op             bus.Op
	subject, grant string
}

// probes tests the permissions of a user, with subjects that nobody uses. It names them as the
// grants of all processes of the user.
func probes(space subjects.Space, user subjects.User) (out []probe) {
	grants, named := space.Grants(user), space.Grants(subjects.User{Principal: user.Principal})
	events := space.String() + "." + subjects.KindEvent.String() + "."
	casts := space.String() + "." + subjects.KindGateway.String() + "."
	for i, g := range grants.Publish {
		if strings.HasPrefix(g, casts) || g == subjects.UserInfo { // other checks use these
			continue
		}
		subject := strings.NewReplacer("*", "probe", ">", "probe").Replace(g)
		if rest, is := strings.CutPrefix(g, events); is { // an event about nothing: it has receivers
			subject = events + "probe" + strings.ReplaceAll(rest[1:], "*", "_")
		}
		out = append(out, probe{bus.OpPublish, subject, named.Publish[i]})
	}
	for i, g := range grants.Subscribe {
		out = append(out, probe{bus.OpSubscribe, strings.ReplaceAll(g, ">", "probe"), named.Subscribe[i]})
	}
	return out
}

// permissions reports missing permissions.
func (d *doctor) permissions(ctx context.Context) Finding {
	missing, err := runProbes(ctx, d.bus, probes(d.space, d.knownAs()))
	if err != nil {
		return Finding{
			Result: ResultFail, Found: "cannot test the permissions: " + err.Error(),
			Suggestion: "repair the connection",
		}
	}
	if len(missing) > 0 {
		return Finding{
			Result: ResultFail, Found: "this user may not " + formatGrants(missing),
			Suggestion: "allow that in the configuration of the server",
		}
	}
	return Finding{
		Result: ResultOK,
		Found:  "this user may publish and subscribe to what its role needs under " + d.space.String(),
	}
}

// runProbes runs the probes and returns the refused ones. It stops at any other error. The server
// reports a denied publish later: all denials have arrived once a later subscription is confirmed
// (BUS-2, BUS-3).
func runProbes(ctx context.Context, b *bus.Bus, all []probe) (missing []probe, err error) {
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

// formatGrants lists the permissions to add.
func formatGrants(missing []probe) string {
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

// NotDurableText is the consequence of a missing JetStream.
const NotDurableText = "worlds do not survive the hostd that owns them"

// jetStreamInfo is the server's description of an account's JetStream.
type jetStreamInfo struct {
	Storage int64 `json:"storage"`
	Memory  int64 `json:"memory"`
	Streams int   `json:"streams"`
	Limits  struct {
		Storage int64 `json:"max_storage"`
		Memory  int64 `json:"max_memory"`
		Streams int   `json:"max_streams"`
	} `json:"limits"`
	Tiers map[string]json.RawMessage `json:"tiers"` // limits per tier replace those of the account
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
}

// jetStream checks for a store with free space.
func (d *doctor) jetStream(ctx context.Context) Finding {
	var said jetStreamInfo
	m, err := d.bus.Control().Request(ctx, bus.Msg{Subject: "$JS.API.INFO"})
	if err == nil {
		err = json.Unmarshal(m.Data, &said)
	}
	if err == nil && said.Error != nil {
		err = errors.New(said.Error.Description)
	}
	return judgeJetStream(said, err, d.durable)
}

// judgeJetStream returns the finding about JetStream. durable says that the system controller uses
// it.
func judgeJetStream(said jetStreamInfo, err error, durable bool) Finding {
	const turnOn = "start hostd with --data DIR, or turn JetStream on in the server and for the account"
	limits := said.Limits
	_, denied := errors.AsType[*bus.PermissionError](err)
	switch {
	case err != nil && durable:
		return Finding{
			Result: ResultOK,
			Found:  "this client cannot use JetStream and needs none: the system controller keeps worlds there",
		}
	case errors.Is(err, context.DeadlineExceeded):
		return Finding{
			Result: ResultWarn, Found: "JetStream does not answer: " + NotDurableText,
			Suggestion: "see whether a majority of the servers with JetStream runs and has a leader",
		}
	case errors.Is(err, bus.ErrNoResponders):
		return Finding{Result: ResultWarn, Found: "no JetStream: " + NotDurableText, Suggestion: turnOn}
	case denied:
		return Finding{
			Result: ResultOK, Found: "JetStream is closed to this user; only a system controller needs it",
		}
	case err != nil:
		return Finding{
			Result: ResultWarn, Found: fmt.Sprintf("cannot use JetStream: %s: %s", firstLine(err), NotDurableText),
			Suggestion: turnOn,
		}
	case len(said.Tiers) > 0:
	case limitReached(said.Storage, limits.Storage) && limitReached(said.Memory, limits.Memory):
		return Finding{
			Result: ResultFail, Found: "the account has no storage left",
			Suggestion: "raise the account's limits, or delete streams",
		}
	case limitReached(int64(said.Streams), int64(limits.Streams)):
		return Finding{
			Result: ResultWarn, Found: fmt.Sprintf("the account is at its limit of %d streams", said.Streams),
			Suggestion: "raise the account's limit, if worlds are not kept yet",
		}
	}
	return Finding{
		Result: ResultOK,
		Found:  fmt.Sprintf("%d bytes in %s", said.Storage+said.Memory, text.Pluralize(said.Streams, "stream")),
	}
}

// limitReached reports whether a limit is reached. Below 0 is no limit, and 0 permits nothing.
func limitReached(used, limit int64) bool { return limit >= 0 && used >= limit }

// firstLine shortens an error to one line.
func firstLine(err error) string { return text.Shorten(err.Error(), 200) }

// system connects as a client and asks the system controller.
func (d *doctor) system(ctx context.Context) (f Finding) {
	conn, err := mesh.Connect(ctx, d.options)
	if err != nil {
		return Finding{
			Result: ResultFail, Found: "a client cannot join: " + firstLine(err), Suggestion: "see the permissions",
		}
	}
	defer func() {
		if err := conn.Close(context.WithoutCancel(ctx)); err != nil && f.Result == ResultOK {
			f = Finding{Result: ResultWarn, Found: "a client cannot leave: " + firstLine(err)}
		}
	}()
	ref, err := system.Find(ctx, conn.Proc())
	if errors.Is(err, system.ErrNoController) {
		return Finding{
			Result: ResultWarn, Found: "no system controller answers: worlds cannot be declared",
			Suggestion: "start a hostd with --system",
		}
	}
	var now system.Snapshot
	if err == nil {
		now, err = system.GetSnapshot.Call(ctx, ref, system.Filter{})
	}
	if err != nil {
		return Finding{
			Result: ResultFail, Found: "the system controller: " + firstLine(err),
			Suggestion: "see the log of its hostd",
		}
	}
	owns := text.Pluralize(len(now.Worlds), "world") + " and " + text.Pluralize(
		len(now.Detached), "detached mesh",
	)
	d.durable = now.Durable
	f = Finding{Result: ResultOK, Found: fmt.Sprintf("epoch %d, %s, kept in JetStream", now.Epoch, owns)}
	if !now.Durable {
		f = Finding{
			Result: ResultWarn, Found: owns + ": " + NotDurableText,
			Suggestion: "enable JetStream, then restart hostd",
		}
	}
	return f
}
