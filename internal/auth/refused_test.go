package auth_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/subjects"
)

// hostileNames are no labels, and wildcards, several tokens or templates where they are taken as they stand.
var hostileNames = []string{"*", ">", "a.b", "a.*", "", "_", "{{name()}}", "a b", "-a", strings.Repeat("a", 33)}

func TestAuthority_refusesNamesThatAreNoLabels_AUTH1(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, auth.Init(dir, subjects.Space{}))
	for _, name := range hostileNames {
		for _, change := range []func(*auth.Authority) error{
			func(a *auth.Authority) error { _, _, err := a.Mint(subjects.Program, name, time.Hour); return err },
			func(a *auth.Authority) error { _, err := a.AddHost(name, false); return err },
			func(a *auth.Authority) error { return a.RemoveHost(name) },
			func(a *auth.Authority) error { return a.Revoke(name) },
		} {
			err := auth.Update(dir, change)
			require.ErrorContains(t, err, "want ", "%q", name)
		}
	}
	a, err := auth.Read(dir)
	require.NoError(t, err)
	require.Empty(t, a.Keys)
	for _, role := range []subjects.Role{0, subjects.Host, subjects.Proc, subjects.System, subjects.Gateway} {
		_, _, err := a.Mint(role, "x", time.Hour)
		require.ErrorContains(t, err, "want program, operator, observer or caster")
	}
	for _, life := range []time.Duration{0, -time.Hour, time.Millisecond, auth.MaxLife + time.Hour} {
		_, _, err := a.Mint(subjects.Program, "x", life)
		require.ErrorContains(t, err, "want 1s to", life)
	}
}

// forge makes a user with a stolen signing key.
func forge(t *testing.T, signer, account string, change func(*jwt.UserClaims)) bus.Options {
	t.Helper()
	user, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err := user.PublicKey()
	require.NoError(t, err)
	claims := jwt.NewUserClaims(public)
	claims.SetScoped(true)
	claims.IssuerAccount = account
	change(claims)
	pair, err := nkeys.FromSeed([]byte(signer))
	require.NoError(t, err)
	text, err := claims.Encode(pair)
	require.NoError(t, err)
	seed, err := user.Seed()
	require.NoError(t, err)
	return bus.Options{JWT: text, Seed: string(seed)}
}

func TestServer_aStolenKeyMakesUsersOfItsPrincipalOnly_AUTH1(t *testing.T) {
	t.Parallel()
	var key auth.HostKey
	s := newSite(t, func(a *auth.Authority) {
		var err error
		key, err = a.AddHost("n07", false)
		require.NoError(t, err)
	})
	for _, name := range append(hostileNames, "o-root", "h-other", "s-n07") {
		b := s.open(forge(t, key.Procs.Seed, key.Account, func(c *jwt.UserClaims) { c.Name = name }))
		requireGrants(t, b, subjects.Proc.Principal("n07"))
	}
	all := func(c *jwt.UserClaims) { c.Permissions.Pub.Allow.Add(">"); c.Permissions.Sub.Allow.Add(">") }
	unscoped := func(c *jwt.UserClaims) { c.SetScoped(false) }
	bearer := func(c *jwt.UserClaims) { c.BearerToken = true }
	elsewhere := func(c *jwt.UserClaims) { c.IssuerAccount = publicAccount(t) }
	for name, change := range map[string]func(*jwt.UserClaims){
		"permissions": all, "without a scope": unscoped, "bearer": bearer, "another account": elsewhere,
	} {
		_, err := s.tryOpen(forge(t, key.Procs.Seed, key.Account, change))
		require.Error(t, err, name) // the server may search for another account longer than the client waits
	}
}

func publicAccount(t *testing.T) string {
	t.Helper()
	pair, err := nkeys.CreateAccount()
	require.NoError(t, err)
	public, err := pair.PublicKey()
	require.NoError(t, err)
	return public
}

func TestServer_refusesWrongCredentials_AUTH1(t *testing.T) {
	t.Parallel()
	var key auth.HostKey
	addHost := func(a *auth.Authority) {
		var err error
		key, err = a.AddHost("n07", false)
		require.NoError(t, err)
	}
	newSite(t, addHost)
	foreign := key
	s := newSite(t, addHost)
	text, seed, err := key.MintHost(time.Hour)
	require.NoError(t, err)
	_, otherSeed, err := key.MintHost(time.Hour)
	require.NoError(t, err)
	for name, o := range map[string]bus.Options{
		"of another authority":      {UserJWT: func() (string, string, error) { return foreign.MintHost(time.Hour) }},
		"replayed without its seed": {JWT: text, Seed: otherSeed},
		"expired": forge(t, key.Host.Seed, key.Account, func(c *jwt.UserClaims) {
			c.Expires = time.Now().Add(-time.Minute).Unix()
		}),
		"not valid yet": forge(t, key.Host.Seed, key.Account, func(c *jwt.UserClaims) {
			c.NotBefore = time.Now().Add(time.Hour).Unix()
		}),
		"changed":                 {JWT: strings.Replace(text, ".", ".e", 1), Seed: seed},
		"none":                    {},
		"a token":                 {Token: "secret"},
		"a password":              {User: "h-n07", Password: "secret"},
		"a signing key as a user": {JWT: text, Seed: key.Host.Seed},
	} {
		_, err := s.tryOpen(o)
		require.Error(t, err, name)
		for _, secret := range []string{seed, otherSeed, key.Host.Seed, foreign.Host.Seed} {
			require.NotContains(t, err.Error(), secret, name)
		}
	}
	s.open(bus.Options{JWT: text, Seed: seed})
}

func TestFiles_areForTheirOwnerOnly_AUTH3(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	_, err := auth.Read(dir)
	require.ErrorContains(t, err, "make one with castnet auth init")
	require.NoError(t, auth.Init(dir, subjects.Space{}))
	require.ErrorContains(t, auth.Init(dir, subjects.Space{}), "has an authority already")
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "authority.json"): 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), path)
	}
	var key auth.HostKey
	require.NoError(t, auth.Update(dir, func(a *auth.Authority) (err error) {
		key, err = a.AddHost("n07", false)
		return err
	}))
	text, err := key.Text()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "n07.key")
	require.NoError(t, auth.WritePrivate(path, text))
	got, err := auth.ReadHostKey(path)
	require.NoError(t, err)
	require.Equal(t, key, got)
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = auth.ReadHostKey(path)
	require.ErrorContains(t, err, "want no access for others: chmod 600 "+path)
	require.NoError(t, os.Chmod(filepath.Join(dir, "authority.json"), 0o644))
	_, err = auth.Read(dir)
	require.ErrorContains(t, err, "want no access for others")
}

func TestUpdate_changesOfManyWritersAreAllThere_AUTH3(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, auth.Init(dir, subjects.Space{}))
	const writers = 16
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			err := auth.Update(dir, func(a *auth.Authority) error {
				_, err := a.AddHost("n"+string(rune('a'+i)), false)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	a, err := auth.Read(dir)
	require.NoError(t, err)
	require.Len(t, a.Keys, 2*writers)
	require.Equal(t, 2*writers, a.Changes)
	err = auth.Update(dir, func(a *auth.Authority) error {
		require.NoError(t, a.RemoveHost("na"))
		return os.ErrClosed
	})
	require.ErrorIs(t, err, os.ErrClosed)
	again, err := auth.Read(dir)
	require.NoError(t, err)
	require.Equal(t, a, again)
}

func TestAuthority_aHostHasOneKeyAtATime_AUTH2(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	require.NoError(t, auth.Init(dir, subjects.Space{}))
	require.NoError(t, auth.Update(dir, func(a *auth.Authority) error {
		_, err := a.AddHost("a", false)
		require.NoError(t, err)
		_, err = a.AddHost("a", true)
		require.ErrorContains(t, err, "remove it first: castnet auth host rm a")
		require.ErrorContains(t, a.RemoveHost("b"), "there is no host b: see castnet auth ls")
		require.NoError(t, a.RemoveHost("a"))
		for _, k := range a.Keys {
			require.Empty(t, k.Seed, "the seed of a revoked key")
			require.False(t, k.Revoked.IsZero())
		}
		key, err := a.AddHost("a", true)
		require.NoError(t, err)
		require.Equal(t, "s-a", key.Host.Principal.String())
		return err
	}))
}

// Files of the wrong form are refused, and no part of a seed is in the error.
func FuzzHostKey(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "auth")
	require.NoError(f, auth.Init(dir, subjects.Space{}))
	require.NoError(f, auth.Update(dir, func(a *auth.Authority) error {
		key, err := a.AddHost("n07", false)
		if err == nil {
			text, _ := json.Marshal(key)
			f.Add(text)
		}
		return err
	}))
	for _, text := range []string{"", "{}", "null", `{"version":1,"host":{"principal":"h-a"},"procs":{"principal":"p-b"}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "key")
		require.NoError(t, auth.WritePrivate(path, data))
		key, err := auth.ReadHostKey(path)
		if err == nil {
			require.Equal(t, key.Host.Principal.Label(), key.Procs.Principal.Label())
		}
	})
}

// The answer of a server to a push is data of another program.
func FuzzPush(f *testing.F) {
	for _, text := range []string{"", "{}", `{"data":{"code":200}}`, `{"error":{"code":500,"description":"x"}}`, "["} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := auth.PushResult(data); err == nil {
			require.Contains(t, string(data), "200")
		}
	})
}

func TestPush_saysWhyAServerDidNotTakeTheAccount(t *testing.T) {
	for text, want := range map[string]string{
		`{"error":{"code":500,"description":"jwt update resulted in error"}}`: `code 500: "jwt update resulted in error"`,
		`{"data":{"code":500}}`: "did not store it", "{": "malformed answer", strings.Repeat(" ", 1<<17): "at most 65536",
	} {
		require.ErrorContains(t, auth.PushResult([]byte(text)), want)
	}
	s := newSite(t, func(*auth.Authority) {})
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, auth.Init(other, subjects.Space{}))
	a, err := auth.Read(other)
	require.NoError(t, err)
	err = auth.Push(testkit.Soon(t), a, bus.Options{URL: s.server.URL()})
	require.ErrorContains(t, err, "cannot push the account")
	require.ErrorContains(t, err, "the server refused the credentials")
}
