package bus

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/subjects"
)

// Speaker returns the principal in whose name the holder of the credentials speaks: p if they permit
// it or name nobody, otherwise their own.
func (o Options) Speaker(p subjects.Principal) subjects.Principal {
	if key, err := ticket.ParseKey(o.Token); err == nil && !key.MayName(p) {
		return key.Principal()
	}
	return p
}

// KnownAs returns the user whom a server with permissions knows by these credentials: one process by
// a key, and all those of the principal by others.
func (o Options) KnownAs() subjects.User {
	if _, ok := ticket.KeyOf(o.Token, o.Space, o.As.Principal); ok {
		return o.As
	}
	return subjects.User{Principal: o.As.Principal}
}

// Expires returns the time at which the credentials end; zero: they do not, or do not say so.
func (o Options) Expires() time.Time {
	key, err := ticket.ParseKey(o.Token)
	if err != nil {
		return time.Time{}
	}
	return key.Expires()
}

// signIn replaces the token by the credential of the user, if it has one (BUS-9).
func (o Options) signIn() (Options, error) {
	if !o.As.Principal.IsValid() {
		return o, nil
	}
	key, ok := ticket.KeyOf(o.Token, o.Space, o.As.Principal)
	switch {
	case !ok:
		return o, nil
	case !key.MayName(o.As.Principal):
		return o, fmt.Errorf("cannot speak as %s with the key of %s: get one for it by castnet auth mint",
			o.As.Principal, key.Principal())
	case key.Space() != o.Space:
		return o, fmt.Errorf("cannot use the key of %s in %s: it is for %s", key.Principal(), o.Space, key.Space())
	}
	o.Token = key.Text()
	if o.As.Process.IsValid() {
		o.Token, _ = key.Sign(o.As)
	}
	o.InboxPrefix = o.As.Inbox()
	return o, nil
}
