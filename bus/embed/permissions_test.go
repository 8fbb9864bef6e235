package embed_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/bus/signin"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/subjects"
)

var update = flag.Bool("update", false, "write the tables of docs/permissions.md")

// party is a user with a name of its own in each part of a subject.
type party struct {
	user   subjects.User
	sender subjects.Sender
	proc   subjects.ProcID
}

func newParty(t *testing.T, role subjects.Role, label string) party {
	t.Helper()
	mesh, err := subjects.NewMeshID("m" + label)
	require.NoError(t, err)
	p := party{proc: subjects.ProcID{Mesh: mesh}}
	p.user = subjects.User{Principal: role.Principal(label), Process: p.proc.Process()}
	p.sender = subjects.NewSender(p.user.Principal, p.user.Process)
	if role.IsOneOf(subjects.Host, subjects.System) {
		p.user.Process = subjects.ProcessID{} // one user for all parts of a hostd
	}
	return p
}

// A subject row builds a subject of one party, or a filter.
type subjectRow struct {
	name  string
	build func(s subjects.Space, of party) string
}

// sent are the subjects that a party sends, in its own name where they have a name.
func sent() []subjectRow {
	mesh, err := subjects.NewMeshID("target")
	if err != nil {
		panic(err)
	}
	to := subjects.ProcID{Mesh: mesh}
	host := subjects.HostID(mesh)
	rows := []subjectRow{
		{"p, a message to a port", func(s subjects.Space, of party) string { return s.Port(to.Actor("a").Port("p"), of.sender) }},
		{"k, a cast", func(s subjects.Space, of party) string { return s.Cast(mesh, "a", "p", "_", of.sender) }},
		{"f, a packet", func(s subjects.Space, of party) string { return s.Frame(to.Process(), of.sender) }},
		{"c, control", func(s subjects.Space, of party) string { return s.Control(to.Process(), of.sender) }},
		{"n, a hint", func(s subjects.Space, _ party) string { return s.Hint(to.Process(), "x") }},
		{"hr, reads a host", func(s subjects.Space, of party) string { return s.HostRead(host.String(), "info", of.sender) }},
		{"hw, acts on a host", func(s subjects.Space, of party) string { return s.HostWrite(host, "drain", of.sender) }},
		{"hv, a host's event", func(s subjects.Space, of party) string { return s.HostEvent(to, of.sender) }},
		{"cast, by a gateway", func(s subjects.Space, of party) string { return s.Gateway("m", "a", "e", of.sender) }},
		{"log, output", func(s subjects.Space, of party) string { return s.Log(to, "stdout", of.sender) }},
		{"r, a reply", func(s subjects.Space, of party) string { return s.Reply(of.sender, "t") }},
	}
	for _, kind := range []string{"actor", "proc", "mesh", "rank", "host", "audit"} {
		rows = append(rows, subjectRow{"ev." + kind + ", an event",
			func(s subjects.Space, of party) string { return s.Event(kind, mesh.Scope(), of.sender) }})
	}
	for _, kind := range []string{"host", "gone", "hosts", "echo", "gateway", "claim", "ticket"} {
		rows = append(rows, subjectRow{"hb." + kind,
			func(s subjects.Space, of party) string { return s.Heartbeat(kind, of.sender) }})
	}
	return append(rows, literal("_INBOX.x.1", "$SRV.PING.castnet-system", "$SYS.REQ.ACCOUNT.PING.CONNZ",
		"$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING", "$JS.API.INFO", "$JS.API.STREAM.NAMES",
		"$JS.API.STREAM.DELETE.KV_castnet-castnet-default", "$KV.castnet-castnet-default.x", "work.of.a.program")...)
}

// heard are the filters with which a party listens.
func heard() []subjectRow {
	rows := []subjectRow{
		{"p, messages", func(s subjects.Space, of party) string { return s.PortsOf(of.proc) }},
		{"k, casts", func(s subjects.Space, of party) string { return s.CastsOf(of.proc.Mesh, "_") }},
		{"f, packets", func(s subjects.Space, of party) string { return s.FramesOf(of.proc.Process()) }},
		{"c, control", func(s subjects.Space, of party) string { return s.ControlsOf(of.proc.Process()) }},
		{"n, hints", func(s subjects.Space, of party) string { return s.HintsOf(of.proc.Process()) }},
		{"hr, to a host", func(s subjects.Space, of party) string { return s.HostReads(of.proc.Mesh.String(), "") }},
		{"hw, to a host", func(s subjects.Space, of party) string {
			return s.HostWrites(subjects.HostID(of.proc.Mesh), "")
		}},
		{"hv, hosts' events", func(s subjects.Space, of party) string { return s.HostEvents(of.proc.Mesh) }},
		{"cast, as a gateway", func(s subjects.Space, _ party) string { return s.Gateways() }},
		{"ev, events", func(s subjects.Space, of party) string { return s.Events("", of.proc.Mesh) }},
		{"log, output", func(s subjects.Space, of party) string { return s.Logs(of.proc.Mesh) }},
		{"r, replies", func(s subjects.Space, of party) string { return s.Replies(of.sender) }},
		{"its inbox", func(_ subjects.Space, of party) string { return of.user.Inbox() + ".x.*" }},
	}
	for _, kind := range []string{"host", "gone", "hosts", "gateway", "claim", "ticket"} {
		rows = append(rows, subjectRow{"hb." + kind,
			func(s subjects.Space, _ party) string { return s.Heartbeats(kind) }})
	}
	rows = append(rows, subjectRow{"hb.echo",
		func(s subjects.Space, of party) string { return s.Heartbeat("echo", of.sender) }})
	return append(rows, literal(">", "castnet.v1.default.>", "castnet.>", "_INBOX.>", "$SRV.PING", "$SRV.PING.castnet-proc",
		"$SRV.PING.castnet-host", "$SRV.PING.castnet-gateway", "$SRV.PING.castnet-system", "$SYS.>",
		"$KV.castnet-castnet-default.>", "work.of.a.program")...)
}

// literal are subjects without a party.
func literal(all ...string) (rows []subjectRow) {
	for _, subject := range all {
		rows = append(rows, subjectRow{"`" + subject + "`", func(subjects.Space, party) string { return subject }})
	}
	return rows
}

// tally counts the answers of the server.
type tally struct{ permitted, denied int }

func (n *tally) add(permitted bool) bool {
	if permitted {
		n.permitted++
	} else {
		n.denied++
	}
	return permitted
}

// cell is what a user may do with a row: with its own subject, and with that of another.
func (n *tally) cell(subject, other string, permitted func(subject string) bool) string {
	own := n.add(permitted(subject))
	if other == subject {
		if own {
			return "yes"
		}
		return "–"
	}
	switch foreign := n.add(permitted(other)); {
	case own && foreign:
		return "any"
	case own:
		return "own"
	case foreign:
		return "others" // nothing is so
	}
	return "–"
}

// client is a connection of one user.
type client struct {
	t     *testing.T
	bus   *bus.Bus
	inbox string

	mu     sync.Mutex
	denied map[string]bool // publications
}

func signIn(t *testing.T, srv *embed.Server, user subjects.User) *client {
	t.Helper()
	key := ticket.NewMaster(srv.Token()).Issue(subjects.Space{}, user.Principal, time.Time{})
	o, err := signin.As(bus.Options{URL: srv.URL(), Token: key.Text()}, subjects.Space{}, user)
	require.NoError(t, err)
	b, err := bus.Open(t.Context(), o)
	require.NoError(t, err, user)
	c := &client{t: t, bus: b, inbox: user.Inbox(), denied: map[string]bool{}}
	t.Cleanup(b.Watch(func(s bus.State) {
		if e, ok := errors.AsType[*bus.PermissionError](s.Err); ok && s.Kind == bus.Denied && e.Op == bus.OpPublish {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.denied[e.Subject] = true
		}
	}))
	t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
	return c
}

// publish publishes to all subjects. It returns after the server's answers.
func (c *client) publish(all ...string) {
	c.t.Helper()
	for _, subject := range all {
		require.NoError(c.t, c.bus.Control().Publish(subject, nil), subject)
	}
	sub, err := c.bus.Control().Subscribe(c.inbox+".last", func(bus.Msg) {})
	require.NoError(c.t, err) // denials come in order before this
	require.NoError(c.t, sub.Unsubscribe())
}

func (c *client) mayPublish(subject string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.denied[subject]
}

func (c *client) maySubscribe(filter string) bool {
	c.t.Helper()
	sub, err := c.bus.Control().Subscribe(filter, func(bus.Msg) {})
	if err != nil {
		require.ErrorAs(c.t, err, new(*bus.PermissionError), filter)
		return false
	}
	require.NoError(c.t, sub.Unsubscribe())
	return true
}

// table is a Markdown table with a row for each subject and a column for each role.
func table(title string, rows []subjectRow, cell func(role subjects.Role, row subjectRow) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", title)
	for _, role := range subjects.AllRoles() {
		fmt.Fprintf(&b, " %s |", role)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(subjects.AllRoles())) + "\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, role := range subjects.AllRoles() {
			fmt.Fprintf(&b, " %s |", cell(role, row))
		}
		b.WriteString("\n")
	}
	return b.String()
}

const permissionsPage = "../../docs/permissions.md"

// The whole matrix on a real server: each role, each kind of subject, in its own name and in that of
// another, to publish and to subscribe.
func TestTickets_serverPermitsWhatTheTablesSay_EMB3(t *testing.T) {
	t.Parallel()
	srv := start(t, embed.Options{Tickets: true, Token: ticket.NewToken(), JetStream: true})
	space, count := subjects.Space{}, &tally{}
	sent, heard := sent(), heard()
	clients := map[subjects.Role]*client{}
	parties := map[subjects.Role][2]party{}
	for _, role := range subjects.AllRoles() {
		own, other := newParty(t, role, "a"), newParty(t, role, "b")
		parties[role] = [2]party{own, other}
		c := signIn(t, srv, own.user)
		clients[role] = c
		for _, row := range sent {
			c.publish(row.build(space, own), row.build(space, other))
		}
	}
	publish := table("may publish", sent, func(role subjects.Role, row subjectRow) string {
		of := parties[role]
		return count.cell(row.build(space, of[0]), row.build(space, of[1]), clients[role].mayPublish)
	})
	subscribe := table("may subscribe", heard, func(role subjects.Role, row subjectRow) string {
		of := parties[role]
		return count.cell(row.build(space, of[0]), row.build(space, of[1]), clients[role].maySubscribe)
	})
	require.NotContains(t, publish+subscribe, "others")
	generated := fmt.Sprintf("%s\n%s\n%d answers of the server: %d permitted, %d denied.\n", publish, subscribe,
		count.permitted+count.denied, count.permitted, count.denied)

	const begin, end = "<!-- the tables -->\n", "<!-- the end of the tables -->\n"
	page, err := os.ReadFile(permissionsPage)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	written, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(permissionsPage, []byte(before+begin+"\n"+generated+"\n"+end+after), 0o644))
		return
	}
	require.Equal(t, "\n"+generated+"\n", written, "renew it with -update")
}

// A client of each role tries the names of all other roles on the subjects that carry authority.
func TestTickets_noRoleSpeaksInTheNameOfAnother_EMB3(t *testing.T) {
	t.Parallel()
	srv := start(t, embed.Options{Tickets: true, Token: ticket.NewToken()})
	space := subjects.Space{}
	for _, role := range subjects.AllRoles() {
		own := newParty(t, role, "a")
		c := signIn(t, srv, own.user)
		var forged []string
		for _, other := range subjects.AllRoles() {
			for _, label := range []string{"a", "b"} {
				as := newParty(t, other, label)
				key := ticket.NewMaster(srv.Token()).Issue(space, own.user.Principal, time.Time{})
				if key.MayName(as.user.Principal) {
					continue
				}
				for _, row := range sent() {
					if subject := row.build(space, as); strings.HasSuffix(subject, as.sender.String()) {
						forged = append(forged, subject)
					}
				}
			}
		}
		require.Greater(t, len(forged), 200)
		c.publish(forged...)
		for _, subject := range forged {
			require.False(t, c.mayPublish(subject), "%s: %s", own.user, subject)
		}
	}
}
