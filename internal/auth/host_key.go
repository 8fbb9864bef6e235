package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/castnet-io/castnet/subjects"
)

// HostKey is the secret of one hostd: it makes users for itself and its procs.
type HostKey struct {
	Version   int    `json:"version"`
	Root      string `json:"root"`
	Namespace string `json:"namespace"`
	Account   string `json:"account,omitempty"` // "" with passwords
	Host      Issuer `json:"host"`
	Procs     Issuer `json:"procs"`
}

// Issuer makes the users of a principal by a seed, or is its only user by a password.
type Issuer struct {
	Principal subjects.Principal `json:"principal"`
	Seed      string             `json:"seed,omitempty"`
	Password  string             `json:"password,omitempty"`
}

// HasPasswords reports whether the users are fixed, and have no JWTs.
func (k HostKey) HasPasswords() bool { return k.Host.Password != "" }

// MintHost makes a user for the hostd.
func (k HostKey) MintHost(life time.Duration) (text, seed string, err error) {
	m, err := k.Host.mint(k.Account, life)
	return m.text, m.seed, err
}

// MintProc makes a user for a proc, as the text of a credentials file.
func (k HostKey) MintProc(life time.Duration) ([]byte, error) {
	m, err := k.Procs.mint(k.Account, life)
	if err != nil {
		return nil, err
	}
	return m.creds()
}

// Text is the file of the key.
func (k HostKey) Text() ([]byte, error) {
	text, err := json.MarshalIndent(k, "", "  ")
	return append(text, '\n'), err
}

// ReadHostKey reads the file of a key. It refuses a file that others can read.
func ReadHostKey(path string) (HostKey, error) {
	data, err := readPrivate(path)
	if err != nil {
		return HostKey{}, fmt.Errorf("cannot read the key of a host: %w", err)
	}
	k, err := parseHostKey(data)
	if err != nil {
		return HostKey{}, fmt.Errorf("cannot read the key of a host %s: %w", path, err)
	}
	return k, nil
}

func parseHostKey(data []byte) (HostKey, error) {
	var k HostKey
	if err := json.Unmarshal(data, &k); err != nil {
		return HostKey{}, errors.New("want the file that castnet auth host add wrote")
	}
	if err := k.check(); err != nil {
		return HostKey{}, err
	}
	return k, nil
}

func (k HostKey) check() error {
	_, err := subjects.NewSpace(k.Root, k.Namespace)
	host, procs := k.Host.Principal, k.Procs.Principal
	switch {
	case k.Version != version:
		return fmt.Errorf("version is %d, want %d", k.Version, version)
	case err != nil:
		return err
	case !host.Role().IsOneOf(subjects.Host, subjects.System):
		return fmt.Errorf("principal of the host is %q, want h-NAME or s-NAME", host)
	case procs != subjects.Proc.Principal(host.Label()):
		return fmt.Errorf("principal of the procs is %q, want p-%s", procs, host.Label())
	case k.Host.Password != "" && k.Procs.Password != "":
		return nil
	case !nkeys.IsValidPublicAccountKey(k.Account):
		return errors.New("the account is no public key")
	}
	for _, i := range []Issuer{k.Host, k.Procs} {
		if kind, _, err := nkeys.DecodeSeed([]byte(i.Seed)); err != nil || kind != nkeys.PrefixByteAccount {
			return fmt.Errorf("the seed of %s is none of a signing key", i.Principal)
		}
	}
	return nil
}

// minted is a new user.
type minted struct {
	text, seed, public string
	expires            time.Time
}

// creds is the text of a credentials file.
func (m minted) creds() ([]byte, error) { return jwt.FormatUserConfig(m.text, []byte(m.seed)) }

// mint makes a user with a new key (AUTH-2). Its permissions are those of the issuer's template.
func (i Issuer) mint(account string, life time.Duration) (m minted, err error) {
	if life < time.Second || life > MaxLife {
		return m, fmt.Errorf("cannot mint a user for %s: want 1s to %s", life, MaxLife)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		return m, err
	}
	defer user.Wipe()
	m.public, err = user.PublicKey()
	if err != nil {
		return m, err
	}
	seed, err := user.Seed()
	if err != nil {
		return m, err
	}
	m.seed = string(seed)
	m.expires = now().Add(life)
	claims := jwt.NewUserClaims(m.public)
	claims.SetScoped(true)
	claims.Name = i.Principal.String()
	claims.IssuerAccount = account
	claims.Expires = m.expires.Unix()
	m.text, err = encode(claims, i.Seed)
	return m, err
}
