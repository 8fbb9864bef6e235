package auth_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

func TestRevoke_closesConnectionsAtOnce_AUTH2(t *testing.T) {
	t.Parallel()
	var creds []byte
	var user auth.User
	var host auth.HostKey
	s := newSite(t, func(a *auth.Authority) {
		var err error
		creds, user, err = a.Mint(subjects.Program, "alice", time.Hour)
		require.NoError(t, err)
		host, err = a.AddHost("n07", true)
		require.NoError(t, err)
	})
	mintProc := func() (string, string, error) { return host.MintHost(time.Hour) }
	path := s.write("alice.creds", creds)
	for _, c := range []struct {
		connect bus.Options
		end     func(*auth.Authority) error
	}{
		{bus.Options{Creds: path}, func(a *auth.Authority) error { return a.Revoke(user.Public) }},
		{bus.Options{Creds: s.mint(subjects.Program, "alice", time.Hour)}, func(a *auth.Authority) error {
			return a.Revoke("u-alice")
		}},
		{bus.Options{UserJWT: mintProc}, func(a *auth.Authority) error { return a.RemoveHost("n07") }},
	} {
		lost := make(chan bus.State, 100)
		c.connect.OnState = func(st bus.State) { lost <- st }
		c.connect.RefusedTimeout = time.Second
		c.connect.ReconnectMax = 100 * time.Millisecond
		b := s.open(c.connect)
		s.push(func(a *auth.Authority) { require.NoError(t, c.end(a)) })
		for st := testkit.Next(t, lost); st.Kind != bus.Disconnected && st.Kind != bus.Closed; { // broken at once
			st = testkit.Next(t, lost)
		}
		testkit.Next(t, b.Done())
		require.ErrorContains(t, b.Err(), "or the key was revoked")
	}
	_, err := s.tryOpen(bus.Options{UserJWT: mintProc})
	require.ErrorContains(t, err, "the server refused the credentials")
}
