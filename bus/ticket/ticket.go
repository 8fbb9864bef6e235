package ticket

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// MaxText bounds the text of a key or a ticket, in bytes.
const MaxText = 640

// The beginnings of the texts, each with its version.
const (
	tokenPrefix  = "castnet-token-1-"
	keyPrefix    = "castnet-key-1"
	ticketPrefix = "castnet-ticket-2"
)

// serverPrefix begins the name of a server that takes tickets.
const serverPrefix = "castnet-tickets-"

var (
	// ErrMalformed reports a text that is no key or ticket of this version.
	ErrMalformed = errors.New("no key or ticket")
	// ErrForeign reports a key or ticket of another server, or a changed one.
	ErrForeign = errors.New("key or ticket of another server")
	// ErrExpired reports a key after its time.
	ErrExpired = errors.New("key has expired")
	// ErrOtherUser reports a ticket for a user that its key may not name.
	ErrOtherUser = errors.New("key is not for this user")
)

// NewToken returns a new token for a server. Its form says that the server takes tickets.
func NewToken() string { return tokenPrefix + rand.Text() }

// IsToken reports whether a text has the form of NewToken.
func IsToken(text string) bool { return strings.HasPrefix(text, tokenPrefix) }

// Is reports whether a text is a ticket, without a check.
func Is(text string) bool { return strings.HasPrefix(text, ticketPrefix+":") }

// NewServerName returns a unique name for a server that takes tickets. Clients learn from the name
// that it does.
func NewServerName() string { return serverPrefix + rand.Text() }

// TakenBy reports whether the server of that name takes tickets.
func TakenBy(server string) bool { return strings.HasPrefix(server, serverPrefix) }

// Master issues and verifies all keys and tickets of one server.
type Master struct{ secret []byte }

// NewMaster derives the master of the server with this token.
func NewMaster(token string) Master { return Master{tag([]byte(token), "castnet-master-2")} }

// Issue returns a key for a principal, with a new serial. The zero time means that it does not
// expire; times count in whole seconds.
func (m Master) Issue(space subjects.Space, principal subjects.Principal, expires time.Time) Key {
	k := Key{space: space, principal: principal, serial: rand.Text()}
	if !expires.IsZero() {
		k.expires = expires.Unix()
	}
	k.secret = m.secretOf(k)
	return k
}

func (m Master) secretOf(k Key) []byte { return tag(m.secret, k.header()) }

// Credential is the verified meaning of a key or a ticket.
type Credential struct {
	Space   subjects.Space
	User    subjects.User
	Expires time.Time // zero: never
	Serials []string  // of the key and, of a ticket, its own
}

// Verify reads the text of a key or a ticket at that time.
func (m Master) Verify(text string, now time.Time) (Credential, error) {
	body, given, err := split(text)
	if err != nil {
		return Credential{}, err
	}
	var k Key
	var c Credential
	if !Is(text) {
		k, err = parseKeyHeader(body)
		if err == nil && !hmac.Equal(given, m.secretOf(k)) {
			err = ErrForeign
		}
		c = Credential{k.space, subjects.User{Principal: k.principal}, k.Expires(), []string{k.serial}}
	} else {
		c, k, err = m.readTicket(body, given)
	}
	switch {
	case err != nil:
		return Credential{}, err
	case k.expires != 0 && now.Unix() >= k.expires:
		return Credential{}, fmt.Errorf("%w: that of %s, at %s", ErrExpired, k.principal,
			k.Expires().UTC().Format(time.RFC3339))
	case !MayName(k.principal, c.User.Principal):
		return Credential{}, fmt.Errorf("%w: that of %s for %s", ErrOtherUser, k.principal, c.User)
	}
	return c, nil
}

func (m Master) readTicket(body string, given []byte) (Credential, Key, error) {
	parts := strings.Split(strings.TrimPrefix(body, ticketPrefix+":"), ":")
	if len(parts) != headerParts+2 {
		return Credential{}, Key{}, ErrMalformed
	}
	k, err := parseHeader(strings.Join(parts[:headerParts], ":"))
	if err == nil && !hmac.Equal(given, tag(m.secretOf(k), body)) {
		err = ErrForeign
	}
	var sender subjects.Sender
	if err == nil {
		sender, err = subjects.ParseSender(parts[headerParts])
	}
	var process subjects.ProcessID
	if err == nil {
		process, err = sender.Process()
	}
	serial := parts[headerParts+1]
	if err == nil && serial == "" {
		err = ErrMalformed
	}
	if err != nil {
		return Credential{}, Key{}, asMalformed(err)
	}
	user := subjects.User{Principal: sender.Principal(), Process: process}
	return Credential{k.space, user, k.Expires(), []string{k.serial, serial}}, k, nil
}

// Key is the credential of a principal. Its holder signs tickets for the principal's processes. The
// key of a host also signs for its procs and its gateway.
type Key struct {
	space     subjects.Space
	principal subjects.Principal
	expires   int64 // Unix seconds; 0: never
	serial    string
	secret    []byte
}

// ParseKey reads the text of a key. Only its server can verify it.
func ParseKey(text string) (Key, error) {
	body, secret, err := split(text)
	if err != nil {
		return Key{}, err
	}
	k, err := parseKeyHeader(body)
	if err != nil {
		return Key{}, err
	}
	k.secret = secret
	return k, nil
}

// KeyOf returns the key in a client's token for a principal. The token is a key, or one of
// NewToken, which has a key for each principal. It is false for any other token.
func KeyOf(token string, space subjects.Space, principal subjects.Principal) (Key, bool) {
	if IsToken(token) {
		return NewMaster(token).Issue(space, principal, time.Time{}), true
	}
	k, err := ParseKey(token)
	return k, err == nil
}

// Principal is the principal that the key is for.
func (k Key) Principal() subjects.Principal { return k.principal }

// Space is the Space of the key's principal.
func (k Key) Space() subjects.Space { return k.space }

// Serial names the key, for EndTicket of package embed.
func (k Key) Serial() string { return k.serial }

// Expires is the end of the key; zero: none.
func (k Key) Expires() time.Time {
	if k.expires == 0 {
		return time.Time{}
	}
	return time.Unix(k.expires, 0)
}

// Text is the key as a token. It is secret.
func (k Key) Text() string {
	return keyPrefix + ":" + k.header() + ":" + base64.RawURLEncoding.EncodeToString(k.secret)
}

// Advice says what to do when a server refuses the key, as far as this machine's clock knows.
func (k Key) Advice(now time.Time) string {
	const rest = "the server may be another one, or the key was revoked, or one of the clocks is wrong"
	switch end := k.Expires(); {
	case end.IsZero():
		return fmt.Sprintf("the key of %s has no end: %s", k.principal, rest)
	case !now.Before(end):
		return fmt.Sprintf("the key of %s expired at %s, by this machine's clock %s ago: castnet auth "+
			"makes a new one", k.principal, end.UTC().Format(time.RFC3339), now.Sub(end).Round(time.Second))
	default:
		return fmt.Sprintf("the key of %s is valid until %s by this machine's clock: %s", k.principal,
			end.UTC().Format(time.RFC3339), rest)
	}
}

// MayName reports whether a server takes tickets of this key for users of a principal.
func (k Key) MayName(p subjects.Principal) bool { return MayName(k.principal, p) }

// Sign returns a ticket for one process, and its serial. Both are "" for a user whose name is
// incomplete.
func (k Key) Sign(user subjects.User) (text, serial string) {
	sender := subjects.NewSender(user.Principal, user.Process)
	if !sender.IsValid() || len(k.secret) == 0 {
		return "", ""
	}
	serial = rand.Text()
	body := ticketPrefix + ":" + k.header() + ":" + sender.String() + ":" + serial
	return body + ":" + base64.RawURLEncoding.EncodeToString(tag(k.secret, body)), serial
}

// headerParts is the number of parts of a key's header.
const headerParts = 5

func (k Key) header() string {
	return strings.Join([]string{k.space.Root(), k.space.Namespace(), k.principal.String(),
		strconv.FormatInt(k.expires, 10), k.serial}, ":")
}

func parseKeyHeader(body string) (Key, error) {
	header, is := strings.CutPrefix(body, keyPrefix+":")
	if !is {
		return Key{}, ErrMalformed
	}
	return parseHeader(header)
}

func parseHeader(text string) (k Key, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != headerParts {
		return Key{}, ErrMalformed
	}
	k.serial = parts[4]
	k.space, err = subjects.NewSpace(parts[0], parts[1])
	if err == nil {
		k.principal, err = subjects.ParsePrincipal(parts[2])
	}
	if err == nil {
		k.expires, err = strconv.ParseInt(parts[3], 10, 64)
	}
	if err == nil && (k.expires < 0 || k.serial == "" || k.header() != text) {
		err = errors.New("not in its one form")
	}
	if err != nil {
		return Key{}, asMalformed(err)
	}
	return k, nil
}

// MayName reports whether the credential of one principal is good for another one. A host has the
// names of its parts. A host with a system controller has that name, too.
func MayName(of, p subjects.Principal) bool {
	switch {
	case of == p:
		return true
	case of.Label() != p.Label():
		return false
	case of.Role() == subjects.Host:
		return p.Role().IsOneOf(subjects.Proc, subjects.Gateway)
	case of.Role() == subjects.System:
		return p.Role().IsOneOf(subjects.Host, subjects.Proc, subjects.Gateway)
	}
	return false
}

// split separates the tag at the end of a text. It has one form.
func split(text string) (body string, tag []byte, err error) {
	at := strings.LastIndexByte(text, ':')
	if len(text) > MaxText || at < 0 {
		return "", nil, ErrMalformed
	}
	tag, err = base64.RawURLEncoding.Strict().DecodeString(text[at+1:])
	if err != nil || len(tag) != sha256.Size || base64.RawURLEncoding.EncodeToString(tag) != text[at+1:] {
		return "", nil, ErrMalformed
	}
	return text[:at], tag, nil
}

func asMalformed(err error) error {
	if errors.Is(err, ErrMalformed) || errors.Is(err, ErrForeign) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

func tag(secret []byte, text string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(text))
	return h.Sum(nil)
}
