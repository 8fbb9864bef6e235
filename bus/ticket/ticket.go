package ticket

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/subjects"
)

// Ticket is the credential of one process.
type Ticket struct {
	Space  subjects.Space
	Sender subjects.Sender // with role and host, mesh, rank and generation
	Serial string          // different for each ticket
}

// New returns a ticket with a new serial.
func New(space subjects.Space, sender subjects.Sender) Ticket {
	return Ticket{Space: space, Sender: sender, Serial: rand.Text()}
}

// MaxText bounds the text of a ticket, in bytes.
const MaxText = 384

// prefix begins the text of each ticket, with its version.
const prefix = "castnet-ticket-1:"

// serverPrefix begins the name of a server that takes tickets.
const serverPrefix = "castnet-tickets-"

var (
	// ErrMalformed reports a text that is no ticket of this version.
	ErrMalformed = errors.New("no ticket")
	// ErrForeign reports a ticket of another key, or a changed one.
	ErrForeign = errors.New("ticket of another server")
)

// Key signs and verifies the tickets of one server.
type Key struct{ secret [sha256.Size]byte }

// NewKey derives the key of the server with this token.
func NewKey(token string) Key {
	return Key{[sha256.Size]byte(tag([]byte(token), prefix))}
}

// Sign returns the text of a ticket; "" without a sender or serial.
func (k Key) Sign(t Ticket) string {
	if !t.Sender.IsValid() || t.Serial == "" {
		return ""
	}
	parts := []string{t.Space.Root(), t.Space.Namespace(), t.Sender.String(), t.Serial}
	body := prefix + strings.Join(parts, ":")
	return body + ":" + base64.RawURLEncoding.EncodeToString(tag(k.secret[:], body))
}

// Verify reads the text of a ticket. Its error is ErrMalformed or ErrForeign.
func (k Key) Verify(text string) (Ticket, error) {
	at := strings.LastIndexByte(text, ':')
	if !Is(text) || len(text) > MaxText || at < len(prefix) {
		return Ticket{}, ErrMalformed
	}
	given, err := base64.RawURLEncoding.Strict().DecodeString(text[at+1:])
	if err != nil {
		return Ticket{}, ErrMalformed
	}
	if !hmac.Equal(given, tag(k.secret[:], text[:at])) {
		return Ticket{}, ErrForeign
	}
	parts := strings.Split(text[len(prefix):at], ":")
	if len(parts) != 4 {
		return Ticket{}, ErrMalformed
	}
	t := Ticket{Serial: parts[3]}
	t.Space, err = subjects.NewSpace(parts[0], parts[1])
	if err == nil {
		t.Sender, err = subjects.ParseSender(parts[2])
	}
	if err == nil && k.Sign(t) != text {
		err = errors.New("not in its one form")
	}
	if err != nil {
		return Ticket{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return t, nil
}

// Is reports whether a token is a ticket, without a check of its tag.
func Is(token string) bool { return strings.HasPrefix(token, prefix) }

// NewServerName returns a unique name for a server that takes tickets. Clients learn from the name
// that it does.
func NewServerName() string { return serverPrefix + rand.Text() }

// TakenBy reports whether the server of that name takes tickets.
func TakenBy(server string) bool { return strings.HasPrefix(server, serverPrefix) }

func tag(secret []byte, text string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(text))
	return h.Sum(nil)
}
