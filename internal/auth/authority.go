package auth

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/castnet-io/castnet/subjects"
)

const (
	// MaxLife is the longest life of a user JWT.
	MaxLife = 366 * 24 * time.Hour

	// keepEnded is how long ended users and keys remain in the list.
	keepEnded = 30 * 24 * time.Hour

	// pushLife is the life of the JWT that reports a changed account to servers.
	pushLife = time.Minute
)

// Authority is an operator and its account for castnet, with all its secrets.
type Authority struct {
	Version      int    `json:"version"`
	Root         string `json:"root"`
	Namespace    string `json:"namespace"`
	OperatorSeed string `json:"operator_seed"`
	SystemSeed   string `json:"system_seed"`
	AccountSeed  string `json:"account_seed"`
	Changes      int    `json:"changes"` // of the account
	Keys         []Key  `json:"keys"`
	Users        []User `json:"users"`
}

// Key is the signing key of one principal.
type Key struct {
	Principal subjects.Principal `json:"principal"`
	Public    string             `json:"public"`
	Seed      string             `json:"seed,omitempty"` // "" once it is revoked
	Made      time.Time          `json:"made"`
	Revoked   time.Time          `json:"revoked,omitzero"`
}

// User is a minted user JWT.
type User struct {
	Principal subjects.Principal `json:"principal"`
	Public    string             `json:"public"`
	Signer    string             `json:"signer"` // public key
	Made      time.Time          `json:"made"`
	Expires   time.Time          `json:"expires"`
	Revoked   time.Time          `json:"revoked,omitzero"`
}

// version is the format of the file.
const version = 1

// newAuthority makes an operator, a system account and an account.
func newAuthority(space subjects.Space) (*Authority, error) {
	a := &Authority{Version: version, Root: space.Root(), Namespace: space.Namespace()}
	var errs [3]error
	a.OperatorSeed, errs[0] = newSeed(nkeys.CreateOperator)
	a.SystemSeed, errs[1] = newSeed(nkeys.CreateAccount)
	a.AccountSeed, errs[2] = newSeed(nkeys.CreateAccount)
	return a, errors.Join(errs[:]...)
}

func newSeed(create func() (nkeys.KeyPair, error)) (string, error) {
	pair, err := create()
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	return string(seed), err
}

// now is the present in the resolution of JWTs.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// Space is the subject space of the permissions.
func (a *Authority) Space() (subjects.Space, error) { return subjects.NewSpace(a.Root, a.Namespace) }

// check refuses a file that is none of this version.
func (a *Authority) check() error {
	if a.Version != version {
		return fmt.Errorf("version is %d, want %d", a.Version, version)
	}
	if _, err := a.Space(); err != nil {
		return err
	}
	seeds := map[string]string{"operator": a.OperatorSeed, "system": a.SystemSeed, "account": a.AccountSeed}
	for what, seed := range seeds {
		if _, err := nkeys.FromSeed([]byte(seed)); err != nil {
			return fmt.Errorf("the %s seed is none", what)
		}
	}
	return nil
}

// prune forgets users and keys that ended long ago.
func (a *Authority) prune() {
	old := now().Add(-keepEnded)
	a.Users = slices.DeleteFunc(a.Users, func(u User) bool { return u.Expires.Before(old) })
	a.Keys = slices.DeleteFunc(a.Keys, func(k Key) bool { return k.Seed == "" && k.Revoked.Before(old) })
}

// key returns the valid key of a principal, or nil.
func (a *Authority) key(p subjects.Principal) *Key {
	for i := range a.Keys {
		if k := &a.Keys[i]; k.Principal == p && k.Seed != "" {
			return k
		}
	}
	return nil
}

// principal checks a label, and returns its principal with that role (AUTH-1).
func principal(role subjects.Role, label string) (subjects.Principal, error) {
	if err := subjects.CheckLabel("name", label); err != nil {
		return subjects.Principal{}, err
	}
	return role.Principal(label), nil
}

// addKey makes a key for a principal that has none.
func (a *Authority) addKey(p subjects.Principal) (Key, error) {
	pair, err := nkeys.CreateAccount()
	if err != nil {
		return Key{}, err
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil {
		return Key{}, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return Key{}, err
	}
	k := Key{Principal: p, Public: public, Seed: string(seed), Made: now()}
	a.Keys = append(a.Keys, k)
	a.Changes++
	return k, nil
}

// hostPrincipals are the principals that a label of a host can have.
func hostPrincipals(label string) []subjects.Principal {
	return []subjects.Principal{subjects.Host.Principal(label), subjects.System.Principal(label),
		subjects.Proc.Principal(label)}
}

// AddHost makes the keys of a hostd: with system, of one that may become the system controller.
func (a *Authority) AddHost(label string, system bool) (HostKey, error) {
	role := subjects.Host
	if system {
		role = subjects.System
	}
	host, err := principal(role, label)
	if err != nil {
		return HostKey{}, err
	}
	for _, p := range hostPrincipals(label) {
		if a.key(p) != nil {
			return HostKey{}, fmt.Errorf("cannot add host %s: %s has a key already; remove it first: "+
				"castnet auth host rm %s", label, p, label)
		}
	}
	account, err := publicOf(a.AccountSeed)
	if err != nil {
		return HostKey{}, err
	}
	own, err := a.addKey(host)
	if err != nil {
		return HostKey{}, err
	}
	procs, err := a.addKey(subjects.Proc.Principal(label))
	if err != nil {
		return HostKey{}, err
	}
	return HostKey{
		Version: version, Root: a.Root, Namespace: a.Namespace, Account: account,
		Host:  Issuer{Principal: host, Seed: own.Seed},
		Procs: Issuer{Principal: procs.Principal, Seed: procs.Seed},
	}, nil
}

// RemoveHost revokes the keys of a host (AUTH-2).
func (a *Authority) RemoveHost(label string) error {
	if err := subjects.CheckLabel("host label", label); err != nil {
		return err
	}
	removed := false
	for _, p := range hostPrincipals(label) {
		removed = a.revokeKeys(func(k Key) bool { return k.Principal == p }) || removed
	}
	if !removed {
		return fmt.Errorf("there is no host %s: see castnet auth ls", label)
	}
	return nil
}

// Revoke ends a principal, or what has this public key (AUTH-2).
func (a *Authority) Revoke(name string) error {
	named := func(p subjects.Principal, key string) bool {
		return name != "" && (p.String() == name || key == name)
	}
	found := a.revokeKeys(func(k Key) bool { return named(k.Principal, k.Public) })
	for i := range a.Users {
		if u := &a.Users[i]; u.Revoked.IsZero() && named(u.Principal, u.Public) {
			u.Revoked = now()
			found = true
		}
	}
	if !found {
		return fmt.Errorf("cannot revoke %q: want a principal such as u-alice, or a key, of castnet auth ls", name)
	}
	a.Changes++
	return nil
}

// revokeKeys takes keys out of the account, and forgets their seeds.
func (a *Authority) revokeKeys(match func(Key) bool) (found bool) {
	for i := range a.Keys {
		if k := &a.Keys[i]; k.Seed != "" && match(*k) {
			k.Seed = ""
			k.Revoked = now()
			a.Changes++
			found = true
		}
	}
	return found
}

// Mint makes a user JWT of a person's principal, with the key of the principal or a new one. It
// returns the text of a credentials file.
func (a *Authority) Mint(role subjects.Role, label string, life time.Duration) (
	creds []byte, u User, err error) {
	if !role.IsOneOf(subjects.UserRoles()...) {
		return nil, u, fmt.Errorf("cannot mint for role %q: want program, operator, observer or caster; "+
			"for hosts, castnet auth host add", role)
	}
	p, err := principal(role, label)
	if err != nil {
		return nil, u, err
	}
	k := a.key(p)
	if k == nil {
		added, err := a.addKey(p)
		if err != nil {
			return nil, u, err
		}
		k = &added
	}
	account, err := publicOf(a.AccountSeed)
	if err != nil {
		return nil, u, err
	}
	minted, err := Issuer{Principal: p, Seed: k.Seed}.mint(account, life)
	if err != nil {
		return nil, u, err
	}
	u = User{Principal: p, Public: minted.public, Signer: k.Public, Made: now(), Expires: minted.expires}
	a.Users = append(a.Users, u)
	creds, err = minted.creds()
	return creds, u, err
}

// AccountJWT is the account with all keys that are valid, signed by the operator.
func (a *Authority) AccountJWT() (string, error) {
	space, err := a.Space()
	if err != nil {
		return "", err
	}
	public, err := publicOf(a.AccountSeed)
	if err != nil {
		return "", err
	}
	claims := jwt.NewAccountClaims(public)
	claims.Name = a.Root
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		MaxAckPending: jwt.NoLimit, MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit,
	}
	for _, k := range a.Keys {
		if k.Seed != "" {
			claims.SigningKeys.AddScopedSigner(scopeOf(space, k))
		}
	}
	for _, u := range a.Users {
		if !u.Revoked.IsZero() && u.Expires.After(now()) {
			claims.RevokeAt(u.Public, u.Revoked)
		}
	}
	return encode(claims, a.OperatorSeed)
}

// scopeOf is the template of a key: what its principal may do, and nothing of the user's own words
// (AUTH-1).
func scopeOf(space subjects.Space, k Key) *jwt.UserScope {
	grants := space.Grants(subjects.User{Principal: k.Principal})
	s := jwt.NewUserScope()
	s.Key = k.Public
	s.Role = k.Principal.String()
	s.Template.Pub = jwt.Permission{Allow: grants.Publish, Deny: grants.DenyPublish}
	s.Template.Sub = jwt.Permission{Allow: grants.Subscribe, Deny: grants.DenySubscribe}
	s.Template.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard, jwt.ConnectionTypeWebsocket,
		jwt.ConnectionTypeInProcess}
	return s
}

// systemJWT is the system account.
func (a *Authority) systemJWT() (public, text string, err error) {
	public, err = publicOf(a.SystemSeed)
	if err != nil {
		return "", "", err
	}
	claims := jwt.NewAccountClaims(public)
	claims.Name = "SYS"
	text, err = encode(claims, a.OperatorSeed)
	return public, text, err
}

// operatorJWT is the operator, which names the system account.
func (a *Authority) operatorJWT() (string, error) {
	public, err := publicOf(a.OperatorSeed)
	if err != nil {
		return "", err
	}
	system, err := publicOf(a.SystemSeed)
	if err != nil {
		return "", err
	}
	claims := jwt.NewOperatorClaims(public)
	claims.Name = a.Root
	claims.SystemAccount = system
	return encode(claims, a.OperatorSeed)
}

// PushSubject is where servers take a changed account.
const PushSubject = "$SYS.REQ.CLAIMS.UPDATE"

// MintPush makes a user of the system account that can push accounts, and nothing else.
func (a *Authority) MintPush() (text, seed string, err error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return "", "", err
	}
	public, err := user.PublicKey()
	if err != nil {
		return "", "", err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = "castnet-auth"
	claims.Expires = now().Add(pushLife).Unix()
	claims.Permissions.Pub.Allow = jwt.StringList{PushSubject}
	claims.Permissions.Sub.Allow = jwt.StringList{subjects.Inbox + ".>"}
	text, err = encode(claims, a.SystemSeed)
	if err != nil {
		return "", "", err
	}
	secret, err := user.Seed()
	return text, string(secret), err
}

// encode signs claims by a seed.
func encode(c jwt.Claims, seed string) (string, error) {
	var results jwt.ValidationResults
	c.Validate(&results)
	if results.IsBlocking(true) {
		return "", errors.Join(results.Errors()...)
	}
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	return c.Encode(pair)
}

// publicOf is the public key of a seed.
func publicOf(seed string) (string, error) {
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	return pair.PublicKey()
}
