package signin

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/subjects"
)

// Speaker returns the principal in whose name the holder of the credentials speaks: p if they
// permit it or name nobody, otherwise their own.
func Speaker(o bus.Options, p subjects.Principal) subjects.Principal {
	if named, ok := principal(o); ok && !ticket.MayName(named, p) {
		return named
	}
	if key, err := ticket.ParseKey(o.Token); err == nil && !key.MayName(p) {
		return key.Principal()
	}
	return p
}

// principal returns the principal that a user JWT or a user's name is for.
func principal(o bus.Options) (subjects.Principal, bool) {
	p, err := subjects.ParsePrincipal(o.UserName())
	return p, err == nil
}

// As returns the options with which a user connects. It replaces the token by the user's ticket or
// key, if the token has one (SIGN-1). Where the credentials are of one principal, replies come to
// its inbox, because its permissions include no other.
func As(o bus.Options, space subjects.Space, user subjects.User) (bus.Options, error) {
	if named, ok := principal(o); ok {
		if !ticket.MayName(named, user.Principal) {
			return o, fmt.Errorf("cannot speak as %s with the credentials of %s: castnet auth makes some for it",
				user.Principal, named)
		}
		if o.InboxPrefix == "" {
			o.InboxPrefix = subjects.User{Principal: named}.Inbox()
		}
		return o, nil
	}
	key, ok := ticket.KeyOf(o.Token, space, user.Principal)
	switch {
	case !ok:
		return o, nil
	case !key.MayName(user.Principal):
		return o, fmt.Errorf("cannot speak as %s with the key of %s: castnet auth makes one for it",
			user.Principal, key.Principal())
	case key.Space() != space:
		return o, fmt.Errorf("cannot use the key of %s in %s: it is for %s", key.Principal(), space, key.Space())
	}
	if !ticket.IsToken(o.Token) {
		o.Advice = key.Advice
	}
	o.Token = key.Text()
	if user.Process.IsValid() {
		o.Token, _ = key.Sign(user)
	}
	o.InboxPrefix = user.Inbox()
	return o, nil
}

// KnownAs returns the user whom a server with permissions knows by these credentials: one process
// by a key, and all those of the principal by others.
func KnownAs(o bus.Options, space subjects.Space, user subjects.User) subjects.User {
	if _, ok := ticket.KeyOf(o.Token, space, user.Principal); ok {
		return user
	}
	return subjects.User{Principal: user.Principal}
}

// Expires returns the time at which the credentials end; zero: they do not, or do not say so.
func Expires(o bus.Options) time.Time {
	if key, err := ticket.ParseKey(o.Token); err == nil {
		return key.Expires()
	}
	return o.Expires()
}
