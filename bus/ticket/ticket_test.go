package ticket_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/subjects"
)

func sender(t testing.TB) subjects.Sender {
	t.Helper()
	s, err := subjects.ParseSender("p-n07.trainers-7kd93x0b5m2qa_12-0")
	require.NoError(t, err)
	return s
}

func TestVerify_readsTheTicketThatWasSigned_TICKET1(t *testing.T) {
	space, err := subjects.NewSpace("a.b", "lab")
	require.NoError(t, err)
	for _, in := range []subjects.Space{{}, space} {
		signed := ticket.New(in, sender(t))
		text := ticket.NewKey("secret").Sign(signed)
		require.True(t, ticket.Is(text))
		got, err := ticket.NewKey("secret").Verify(text)
		require.NoError(t, err)
		require.Equal(t, signed, got)
		require.NotEqual(t, signed, ticket.New(in, sender(t)), "another serial")
	}
	require.Empty(t, ticket.NewKey("secret").Sign(ticket.Ticket{}))
}

func TestSign_longestTicketFits_TICKET2(t *testing.T) {
	space, err := subjects.NewSpace(strings.Repeat("r.", subjects.MaxRoot/2-1)+"rr",
		strings.Repeat("n", subjects.MaxLabel))
	require.NoError(t, err)
	long := strings.Repeat("m", subjects.MaxLabel)
	mesh, err := subjects.NewMeshID(long)
	require.NoError(t, err)
	process := subjects.ProcID{Mesh: mesh, Rank: 1<<32 - 1, Gen: 1<<32 - 1}.Process()
	key := ticket.NewKey("secret")
	text := key.Sign(ticket.New(space, subjects.NewSender(subjects.Proc.Principal(long), process)))
	require.LessOrEqual(t, len(text), ticket.MaxText)
	_, err = key.Verify(text)
	require.NoError(t, err)
}

func TestVerify_refusesOtherKeysAndChangedTexts_TICKET1(t *testing.T) {
	key := ticket.NewKey("secret")
	text := key.Sign(ticket.New(subjects.Space{}, sender(t)))
	_, err := ticket.NewKey("other").Verify(text)
	require.ErrorIs(t, err, ticket.ErrForeign)
	_, err = key.Verify(strings.Replace(text, "p-n07", "h-n07", 1))
	require.ErrorIs(t, err, ticket.ErrForeign)
	_, err = key.Verify(strings.Replace(text, "ticket-1", "ticket-2", 1))
	require.ErrorIs(t, err, ticket.ErrMalformed)
	_, err = key.Verify("secret")
	require.ErrorIs(t, err, ticket.ErrMalformed)
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(text)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		_, err := key.Verify(string(b))
		require.Error(t, err)
	})
}

func FuzzVerify(f *testing.F) {
	key := ticket.NewKey("secret")
	text := key.Sign(ticket.New(subjects.Space{}, sender(f)))
	f.Add(text)
	f.Add(text + "\n")
	f.Add("castnet-ticket-1:a:b:p-x.y:s:")
	f.Add(strings.Repeat(":", 1000))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := key.Verify(text)
		if err != nil {
			require.Zero(t, got)
			return
		}
		require.Equal(t, text, key.Sign(got))
	})
}
