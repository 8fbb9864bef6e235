package ticket_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/subjects"
)

// now is a time of the tests.
var now = time.Unix(1_900_000_000, 0)

// user reads <principal>.<process>.
func user(t testing.TB, text string) subjects.User {
	t.Helper()
	s, err := subjects.ParseSender(text)
	require.NoError(t, err)
	process, err := s.Process()
	require.NoError(t, err)
	return subjects.User{Principal: s.Principal(), Process: process}
}

const process = ".trainers-7kd93x0b5m2qa_12-0"

func TestVerify_readsKeysAndTickets_TICKET1(t *testing.T) {
	space, err := subjects.NewSpace("a.b", "lab")
	require.NoError(t, err)
	master := ticket.NewMaster("secret")
	for _, in := range []subjects.Space{{}, space} {
		for _, expires := range []time.Time{{}, now.Add(time.Hour)} {
			key := master.Issue(in, subjects.Host.Principal("n07"), expires)
			got, err := master.Verify(key.Text(), now)
			require.NoError(t, err)
			require.Equal(t, ticket.Credential{Space: in, User: subjects.User{Principal: key.Principal()},
				Expires: expires, Serials: []string{key.Serial()}}, got)
			read, err := ticket.ParseKey(key.Text())
			require.NoError(t, err)
			require.Equal(t, key, read)

			of := user(t, "p-n07"+process)
			text, serial := read.Sign(of)
			require.True(t, ticket.Is(text))
			got, err = master.Verify(text, now)
			require.NoError(t, err)
			require.Equal(t, ticket.Credential{Space: in, User: of, Expires: expires,
				Serials: []string{key.Serial(), serial}}, got)
			_, other := read.Sign(of)
			require.NotEqual(t, serial, other)
		}
	}
}

func TestKey_signsForItsOwnNames_TICKET3(t *testing.T) {
	master := ticket.NewMaster("secret")
	for of, names := range map[string]string{
		"u-a": "u-a", "o-a": "o-a", "w-a": "w-a", "c-a": "c-a", "p-a": "p-a", "g-a": "g-a",
		"h-a": "h-a p-a g-a", "s-a": "s-a h-a p-a g-a",
	} {
		principal, err := subjects.ParsePrincipal(of)
		require.NoError(t, err)
		key := master.Issue(subjects.Space{}, principal, time.Time{})
		for _, role := range subjects.AllRoles() {
			for _, label := range []string{"a", "b"} {
				name := role.Principal(label)
				text, _ := key.Sign(user(t, name.String()+process))
				_, err := master.Verify(text, now)
				want := strings.Contains(" "+names+" ", " "+name.String()+" ")
				require.Equal(t, want, err == nil, "%s for %s", of, name)
				require.Equal(t, want, key.MayName(name))
				if !want {
					require.ErrorIs(t, err, ticket.ErrOtherUser)
					require.ErrorContains(t, err, of)
				}
			}
		}
	}
	text, serial := master.Issue(subjects.Space{}, subjects.Host.Principal("a"), time.Time{}).Sign(subjects.User{})
	require.Empty(t, text+serial)
	_, err := ticket.ParseKey("secret")
	require.ErrorIs(t, err, ticket.ErrMalformed)
}

func TestKeyOf_findsTheKeyInATokenOfAClient(t *testing.T) {
	alice := subjects.UserPrincipal(subjects.Program, "alice")
	token := ticket.NewToken()
	require.True(t, ticket.IsToken(token))
	key, ok := ticket.KeyOf(token, subjects.Space{}, alice)
	require.True(t, ok)
	require.Equal(t, alice, key.Principal())
	_, err := ticket.NewMaster(token).Verify(key.Text(), now)
	require.NoError(t, err)
	given, ok := ticket.KeyOf(key.Text(), subjects.Space{}, subjects.UserPrincipal(subjects.Operator, "bob"))
	require.True(t, ok)
	require.Equal(t, key, given)
	text, _ := key.Sign(user(t, "u-alice"+process))
	for _, other := range []string{"", "secret", text} {
		_, ok = ticket.KeyOf(other, subjects.Space{}, alice)
		require.False(t, ok, other)
	}
}

func TestVerify_refusesExpiredKeysAndTheirTickets_TICKET1(t *testing.T) {
	master := ticket.NewMaster("secret")
	key := master.Issue(subjects.Space{}, subjects.Host.Principal("n07"), now)
	text, _ := key.Sign(user(t, "p-n07"+process))
	for _, text := range []string{key.Text(), text} {
		_, err := master.Verify(text, now.Add(-time.Second))
		require.NoError(t, err)
		_, err = master.Verify(text, now)
		require.ErrorIs(t, err, ticket.ErrExpired)
		require.ErrorContains(t, err, "h-n07, at 2030-03-17T17:46:40Z")
	}
}

// A holder of the server's token cannot make a key with such a name, and no text with one is a key.
func TestKey_namesThatAreNoLabelsAreRefused_TICKET1(t *testing.T) {
	master := ticket.NewMaster("secret")
	key := master.Issue(subjects.Space{}, subjects.UserPrincipal(subjects.Observer, "bob"), time.Time{})
	of := user(t, "w-bob"+process)
	signed, _ := key.Sign(of)
	for _, name := range []string{"*", ">", "a.b", "a.>", "", "_", "{{name()}}", "a b", strings.Repeat("a", 33)} {
		principal := subjects.Observer.Principal(name)
		text, serial := master.Issue(subjects.Space{}, principal, time.Time{}).Sign(
			subjects.User{Principal: principal, Process: of.Process})
		require.Empty(t, text+serial, "%q", name)
		for _, text := range []string{key.Text(), signed} {
			_, err := master.Verify(strings.Replace(text, "w-bob", "w-"+name, 1), now)
			require.ErrorIs(t, err, ticket.ErrMalformed, "%q", name)
			require.ErrorContains(t, err, "want ", "%q", name)
		}
	}
}

func TestSign_longestTicketFits_TICKET2(t *testing.T) {
	space, err := subjects.NewSpace(strings.Repeat("r.", subjects.MaxRoot/2-1)+"rr",
		strings.Repeat("n", subjects.MaxLabel))
	require.NoError(t, err)
	long := strings.Repeat("m", subjects.MaxLabel)
	mesh, err := subjects.NewMeshID(long)
	require.NoError(t, err)
	of := subjects.ProcID{Mesh: mesh, Rank: 1<<32 - 1, Gen: 1<<32 - 1}.Process()
	master := ticket.NewMaster("secret")
	text, _ := master.Issue(space, subjects.System.Principal(long), time.Unix(1<<62, 0)).
		Sign(subjects.User{Principal: subjects.Proc.Principal(long), Process: of})
	require.LessOrEqual(t, len(text), ticket.MaxText)
	_, err = master.Verify(text, now)
	require.NoError(t, err)
}

func TestVerify_refusesOtherTokensAndChangedTexts_TICKET1(t *testing.T) {
	master := ticket.NewMaster("secret")
	key := master.Issue(subjects.Space{}, subjects.Host.Principal("n07"), now.Add(time.Hour))
	signed, _ := key.Sign(user(t, "p-n07"+process))
	for _, text := range []string{key.Text(), signed} {
		_, err := ticket.NewMaster("other").Verify(text, now)
		require.ErrorIs(t, err, ticket.ErrForeign)
		for _, change := range [][2]string{{"h-n07", "h-n08"}, {"1900003600", "1900003601"}, {":0:", ":1:"}} {
			if changed := strings.Replace(text, change[0], change[1], 1); changed != text {
				_, err = master.Verify(changed, now)
				require.ErrorIs(t, err, ticket.ErrForeign)
			}
		}
		_, err = master.Verify(text[strings.Index(text, ":")+1:], now)
		require.ErrorIs(t, err, ticket.ErrMalformed)
		rapid.Check(t, func(t *rapid.T) {
			b := []byte(text)
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
			_, err := master.Verify(string(b), now)
			require.Error(t, err)
		})
	}
	_, err := master.Verify("secret", now)
	require.ErrorIs(t, err, ticket.ErrMalformed)
}

func FuzzVerify(f *testing.F) {
	master := ticket.NewMaster("secret")
	key := master.Issue(subjects.Space{}, subjects.Host.Principal("n07"), time.Time{})
	text, _ := key.Sign(user(f, "p-n07"+process))
	f.Add(text)
	f.Add(key.Text())
	f.Add(text + "\n")
	f.Add("castnet-ticket-2:a:b:h-x:0:s:p-x.y:s:")
	f.Add(strings.Repeat(":", 1000))
	f.Fuzz(func(t *testing.T, given string) {
		got, err := master.Verify(given, now)
		if err != nil {
			require.Zero(t, got)
			return
		}
		require.True(t, got.User.Principal.IsValid())
		require.NotEmpty(t, got.Serials)
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add(ticket.NewMaster("s").Issue(subjects.Space{}, subjects.Host.Principal("n07"), now).Text())
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := ticket.ParseKey(text); err == nil {
			require.Equal(t, text, k.Text())
		}
	})
}
