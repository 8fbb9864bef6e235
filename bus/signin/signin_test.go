package signin_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/bus/signin"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

func TestAs_signsInAsOneProcessOfAPrincipal_SIGN1(t *testing.T) {
	t.Parallel()
	token := ticket.NewToken()
	srv := bustest.Server(t, func(o *embed.Options) { o.DontListen, o.Token, o.Tickets = false, token, true })
	id, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	other, err := subjects.NewSpace("", "other")
	require.NoError(t, err)
	process := subjects.ProcID{Mesh: id}.Process()
	alice := subjects.UserPrincipal(subjects.Program, "alice")
	bob := subjects.UserPrincipal(subjects.Program, "bob")
	key := func(space subjects.Space, p subjects.Principal) string {
		return ticket.NewMaster(token).Issue(space, p, time.Time{}).Text()
	}
	open := func(token string, as subjects.Principal) (*bus.Bus, error) {
		o, err := signin.As(bus.Options{URL: srv.URL(), Token: token, Log: testkit.Log(t)}, subjects.Space{},
			subjects.User{Principal: as, Process: process})
		if err != nil {
			return nil, err
		}
		b, err := bus.Open(testkit.Soon(t), o)
		if err == nil {
			t.Cleanup(func() { require.NoError(t, b.Close(context.Background())) })
		}
		return b, err
	}
	for _, token := range []string{token, key(subjects.Space{}, alice)} {
		b, err := open(token, alice)
		require.NoError(t, err)
		own := subjects.NewSender(alice, process)
		heard := make(chan bus.Msg, 1)
		_, err = b.Control().Subscribe(subjects.Space{}.FramesOf(process), func(m bus.Msg) { heard <- m })
		require.NoError(t, err)
		require.NoError(t, b.Data().Publish(subjects.Space{}.Frame(process, own), nil))
		testkit.Next(t, heard)
		_, err = b.Control().Subscribe(subjects.Inbox+".>", func(bus.Msg) {})
		require.ErrorAs(t, err, new(*bus.PermissionError))
		answered, err := b.Control().Request(testkit.Soon(t), bus.Msg{Subject: subjects.UserInfo})
		require.NoError(t, err, "replies come to its own inbox")
		require.Contains(t, string(answered.Data), own.String())
	}
	_, err = open(key(subjects.Space{}, bob), alice)
	require.ErrorContains(t, err, "cannot speak as u-alice with the key of u-bob")
	_, err = open(key(other, alice), alice)
	require.ErrorContains(t, err, "cannot use the key of u-alice in castnet.v1.default: it is for castnet.v1.other")
	_, err = open("wrong", alice)
	require.Error(t, err)
}

func TestAs_refusedKeysSayWhatToDo_SIGN1(t *testing.T) {
	t.Parallel()
	token := ticket.NewToken()
	srv := bustest.Server(t, func(o *embed.Options) { o.DontListen, o.Token, o.Tickets = false, token, true })
	alice := subjects.UserPrincipal(subjects.Program, "alice")
	hour := time.Hour + time.Minute
	now := time.Now()
	revoked := ticket.NewMaster(token).Issue(subjects.Space{}, alice, now.Add(hour))
	srv.EndTicket(revoked.Serial())
	issue := func(token string, end time.Time) string {
		return ticket.NewMaster(token).Issue(subjects.Space{}, alice, end).Text()
	}
	for name, c := range map[string]struct{ key, want string }{
		"expired an hour ago": {issue(token, now.Add(-time.Hour)), "expired at "},
		"made by a clock that is an hour off, for a minute": {issue(token, now.Add(time.Minute-time.Hour)),
			"ago: castnet auth makes a new one"},
		"of another server": {issue(ticket.NewToken(), now.Add(hour)), "the server may be another one"},
		"revoked":           {revoked.Text(), "or the key was revoked, or one of the clocks is wrong"},
		"without an end":    {issue(ticket.NewToken(), time.Time{}), "the key of u-alice has no end"},
	} {
		id, err := subjects.NewMeshID("m")
		require.NoError(t, err)
		o, err := signin.As(bus.Options{URL: srv.URL(), Token: c.key, Log: testkit.Log(t)}, subjects.Space{},
			subjects.User{Principal: alice, Process: subjects.ProcID{Mesh: id}.Process()})
		require.NoError(t, err)
		_, err = bus.Open(testkit.Soon(t), o)
		require.ErrorContains(t, err, string(bus.WrongCredentials), name)
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), c.key, name)
		require.NotContains(t, err.Error(), o.Token, name)
	}
}

func TestSpeaker_isThePrincipalOfTheKey_SIGN1(t *testing.T) {
	alice, bob := subjects.Operator.Principal("alice"), subjects.Operator.Principal("bob")
	id, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	process := subjects.ProcID{Mesh: id}.Process()
	token, end := ticket.NewToken(), time.Unix(1_900_000_000, 0)
	key := bus.Options{Token: ticket.NewMaster(token).Issue(subjects.Space{}, bob, end).Text()}
	require.Equal(t, bob, signin.Speaker(key, alice))
	require.Equal(t, end, signin.Expires(key))
	host := bus.Options{Token: ticket.NewMaster(token).Issue(subjects.Space{}, subjects.Host.Principal("a"), end).Text()}
	require.Equal(t, subjects.Gateway.Principal("a"), signin.Speaker(host, subjects.Gateway.Principal("a")))
	for _, token := range []string{"", "secret", token} {
		o := bus.Options{Token: token}
		require.Equal(t, alice, signin.Speaker(o, alice))
		require.Zero(t, signin.Expires(o))
		known := signin.KnownAs(o, subjects.Space{}, subjects.User{Principal: alice, Process: process})
		require.Equal(t, ticket.IsToken(token), known.Process.IsValid())
	}
}
