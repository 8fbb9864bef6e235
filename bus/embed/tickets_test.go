package embed_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// newUser is the process of a new mesh's rank 0, with a principal.
func newUser(t *testing.T, principal subjects.Principal) (subjects.User, subjects.Sender, subjects.ProcID) {
	t.Helper()
	mesh, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	id := subjects.ProcID{Mesh: mesh}
	return subjects.User{Principal: principal, Process: id.Process()}, subjects.NewSender(principal, id.Process()), id
}

// open connects with a token or a ticket.
func open(t *testing.T, srv *embed.Server, token, inbox string) (*bus.Bus, error) {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Options{URL: srv.URL(), Token: token, InboxPrefix: inbox})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
	}
	return b, err
}

func TestTickets_requireATokenOfTheServersOwn_EMB3(t *testing.T) {
	for _, o := range []embed.Options{{}, {User: "u", Password: "p"}, {Token: "t", User: "u"},
		{Token: "t", ConfigFile: config(t, "")}} {
		o.Tickets = true
		_, err := embed.Start(t.Context(), o)
		require.ErrorContains(t, err, "want Tickets with a Token alone")
	}
	srv := start(t, embed.Options{Host: "0.0.0.0", DontListen: true, Tickets: true, Token: "t"})
	require.Equal(t, "t", srv.Token())
	start(t, embed.Options{}).EndTicket("none") // of a server that takes none
}

func TestTickets_holderMayOnlyWhatItsProcMay_EMB3(t *testing.T) {
	t.Parallel()
	srv := start(t, embed.Options{Tickets: true, Token: "secret"})
	operator, err := open(t, srv, "secret", "")
	require.NoError(t, err)
	require.True(t, ticket.TakenBy(operator.Control().ServerName()))
	space := subjects.Space{}
	key := ticket.NewMaster("secret").Issue(space, subjects.Host.Principal("a"), time.Time{})
	user, self, id := newUser(t, subjects.Proc.Principal("a"))
	heard := make(chan string, 16)
	_, err = operator.Control().Subscribe(space.String()+".>", func(m bus.Msg) { heard <- m.Subject })
	require.NoError(t, err)

	text, _ := key.Sign(user)
	proc, err := open(t, srv, text, user.Inbox())
	require.NoError(t, err)
	denied := make(chan string, 16)
	defer proc.Watch(func(s bus.State) {
		if s.Kind == bus.Denied {
			denied <- s.Err.(*bus.PermissionError).Subject
		}
	})()
	port := id.Actor("a").Port("p")
	require.NoError(t, proc.Control().Publish(space.Port(port, self), nil))
	require.Equal(t, space.Port(port, self), testkit.Next(t, heard))
	_, stranger, _ := newUser(t, subjects.Proc.Principal("a"))
	for _, subject := range []string{space.Port(port, stranger), space.HostEvent(id, self), "$JS.API.INFO"} {
		require.NoError(t, proc.Control().Publish(subject, nil))
		require.Equal(t, subject, testkit.Next(t, denied))
	}
	require.Empty(t, heard)
	_, err = proc.Control().Subscribe(space.String()+".>", func(bus.Msg) {})
	require.Error(t, err)

	services := make(chan string, 16)
	_, err = proc.Control().Subscribe("$SRV.>", func(m bus.Msg) { services <- m.Subject })
	require.NoError(t, err)
	require.NoError(t, operator.Control().Publish("$SRV.PING.castnet-system.x", nil))
	require.NoError(t, operator.Control().Publish("$SRV.PING", nil))
	require.Equal(t, "$SRV.PING", testkit.Next(t, services), "it cannot pose as another service")
	_, err = operator.Control().Subscribe("work.3", func(m bus.Msg) { heard <- m.Subject })
	require.NoError(t, err)
	require.NoError(t, proc.Control().Publish("work.3", nil))
	require.Equal(t, "work.3", testkit.Next(t, heard))
}

func TestTickets_othersAreRefused_EMB3(t *testing.T) {
	t.Parallel()
	srv := start(t, embed.Options{Tickets: true, Token: "secret"})
	space := subjects.Space{}
	user, _, _ := newUser(t, subjects.Proc.Principal("a"))
	master := ticket.NewMaster("secret")
	signed := func(m ticket.Master, of subjects.Principal) string {
		text, _ := m.Issue(space, of, time.Time{}).Sign(user)
		return text
	}
	for name, token := range map[string]string{
		"nothing": "", "wrong token": "secret2", "other key": signed(ticket.NewMaster("other"), user.Principal),
		"another host": signed(master, subjects.Host.Principal("b")), "no tag": "castnet-ticket-2:",
		"expired": master.Issue(space, subjects.Operator.Principal("a"), time.Now().Add(-time.Second)).Text(),
	} {
		_, err := open(t, srv, token, "")
		require.Error(t, err, name)
	}
}

func TestEndTicket_closesItsConnectionsAndRefusesIt_EMB3(t *testing.T) {
	t.Parallel()
	srv := start(t, embed.Options{Tickets: true, Token: "secret"})
	space := subjects.Space{}
	key := ticket.NewMaster("secret").Issue(space, subjects.Host.Principal("a"), time.Time{})
	user, _, _ := newUser(t, subjects.Proc.Principal("a"))
	ended, serial := key.Sign(user)
	lives, _ := key.Sign(user)
	first, err := open(t, srv, ended, user.Inbox())
	require.NoError(t, err)
	second, err := open(t, srv, lives, user.Inbox())
	require.NoError(t, err)
	srv.EndTicket(serial)
	<-first.Done() // the server refused it twice
	_, err = open(t, srv, ended, user.Inbox())
	require.Error(t, err)
	require.NoError(t, second.Control().Flush(t.Context()))
	require.NoError(t, second.Data().Flush(t.Context()))

	for n := range 70000 { // more than the server remembers
		srv.EndTicket(strconv.Itoa(n))
	}
	require.NoError(t, second.Control().Flush(t.Context()))
	_, err = open(t, srv, ended, user.Inbox())
	require.NoError(t, err, "the oldest ended ticket is forgotten")
}
