package bus

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

const (
	// maxCredsSize bounds a credentials file. A scoped user JWT has less than 1 KiB.
	maxCredsSize = 64 << 10

	// renewalPoll is the shortest pause between two looks at a file that its writer has not renewed.
	renewalPoll = 100 * time.Millisecond

	// renewalTimeout bounds the reconnect of a renewal, during which the other connection stays.
	renewalTimeout = 5 * time.Second
)

// userJWT is a user JWT with the seed of its key.
type userJWT struct {
	text, seed string
	claims     userClaims
}

// userClaims are the claims that concern a client. Only the server verifies them.
type userClaims struct {
	Name      string `json:"name"`
	NotBefore int64  `json:"nbf"` // Unix seconds; 0: no bound
	Expires   int64  `json:"exp"`
}

// parseClaims reads the claims of a JWT without its signature.
func parseClaims(jwt string) (userClaims, error) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 || len(jwt) > maxCredsSize {
		return userClaims{}, errors.New("malformed JWT: want three parts joined by dots")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return userClaims{}, fmt.Errorf("malformed JWT: %w", err)
	}
	var c userClaims
	if err := json.Unmarshal(data, &c); err != nil {
		return userClaims{}, fmt.Errorf("malformed JWT: %w", err)
	}
	return c, nil
}

// expires is the end of the JWT; zero: it has none.
func (c userClaims) expires() time.Time {
	if c.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(c.Expires, 0)
}

// advice says what to do when a server refuses the JWT, as far as this machine's clock knows.
func (c userClaims) advice(now time.Time) string {
	const rest = "the server may have another operator or account, or the key was revoked, " +
		"or one of the clocks is wrong"
	at := func(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }
	switch end := c.expires(); {
	case c.NotBefore > now.Unix():
		return fmt.Sprintf("the JWT of %q is valid from %s only: compare the clock of this machine, %s, "+
			"with that of its maker", c.Name, at(c.NotBefore), at(now.Unix()))
	case end.IsZero():
		return fmt.Sprintf("the JWT of %q has no end: %s", c.Name, rest)
	case !now.Before(end):
		return fmt.Sprintf("the JWT of %q expired at %s, by this machine's clock %s ago: make a new one",
			c.Name, at(c.Expires), now.Sub(end).Round(time.Second))
	default:
		return fmt.Sprintf("the JWT of %q is valid until %s by this machine's clock: %s",
			c.Name, at(c.Expires), rest)
	}
}

// hasUserJWT reports whether the user proves itself by a JWT.
func (o *Options) hasUserJWT() bool { return o.Creds != "" || o.JWT != "" || o.UserJWT != nil }

// readUserJWT reads the present credentials.
func (o *Options) readUserJWT() (u userJWT, err error) {
	switch {
	case o.UserJWT != nil:
		u.text, u.seed, err = o.UserJWT()
	case o.Creds != "":
		u, err = readCreds(o.Creds)
	default:
		u = userJWT{text: o.JWT, seed: o.Seed}
	}
	if err == nil {
		u.claims, err = parseClaims(u.text)
		if err != nil && o.Creds != "" {
			err = fmt.Errorf("cannot read credentials %s: %w", o.Creds, err)
		}
	}
	return u, err
}

// readCreds reads a credentials file. JWT and seed are of one version of the file.
func readCreds(path string) (userJWT, error) {
	f, err := os.Open(expandPath(path))
	if err != nil {
		return userJWT{}, fmt.Errorf("cannot read credentials: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCredsSize+1))
	if err != nil {
		return userJWT{}, fmt.Errorf("cannot read credentials: %w", err)
	}
	if len(data) > maxCredsSize {
		return userJWT{}, fmt.Errorf("cannot read credentials %s: want at most %d bytes", path, maxCredsSize)
	}
	jwt, err := nkeys.ParseDecoratedJWT(data)
	if err != nil {
		return userJWT{}, fmt.Errorf("cannot read credentials %s: %w", path, err)
	}
	key, err := nkeys.ParseDecoratedUserNKey(data)
	if err != nil {
		return userJWT{}, fmt.Errorf("cannot read credentials %s: %w", path, err)
	}
	defer key.Wipe()
	seed, err := key.Seed()
	return userJWT{text: jwt, seed: string(seed)}, err
}

// expandPath replaces variables and a leading ~, as the nats command does.
func expandPath(path string) string {
	path = os.ExpandEnv(path)
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// UserName is the name of the user in the credentials: of a JWT, or User; "" if they have none or
// cannot be read. Only the server verifies it.
func (o *Options) UserName() string {
	if !o.hasUserJWT() {
		return o.User
	}
	u, err := o.readUserJWT()
	if err != nil {
		return ""
	}
	return u.claims.Name
}

// Expires is the end of the user JWT by the clock of its maker; zero: it has none, or there is no
// JWT that can be read.
func (o *Options) Expires() time.Time {
	if !o.hasUserJWT() {
		return time.Time{}
	}
	u, err := o.readUserJWT()
	if err != nil {
		return time.Time{}
	}
	return u.claims.expires()
}

// authentication is the state of a connection whose user has a JWT.
type authentication struct {
	mu      sync.Mutex
	user    userJWT   // of the latest connect
	since   time.Time // of that connect
	changed chan struct{}

	firstRefusal, lastRefusal time.Time // of consecutive ones; zero: none
}

func newAuthentication() *authentication { return &authentication{changed: make(chan struct{}, 1)} }

// jwtOption authenticates each connect by the credentials as they are then. A refused JWT may be
// replaced by a valid one, so nats.go keeps trying.
func (c *Conn) jwtOption(o Options) []nats.Option {
	return []nats.Option{
		nats.UserJWT(func() (string, error) { return c.auth.connect(&o) }, c.auth.sign),
		nats.IgnoreAuthErrorAbort(),
	}
}

// connect returns the JWT for a connect.
func (a *authentication) connect(o *Options) (string, error) {
	u, err := o.readUserJWT()
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	a.user, a.since = u, time.Now()
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
	return u.text, nil
}

// sign signs a server's nonce with the key of the JWT of this connect.
func (a *authentication) sign(nonce []byte) ([]byte, error) {
	a.mu.Lock()
	seed := a.user.seed
	a.mu.Unlock()
	key, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, fmt.Errorf("cannot sign with the seed of the credentials: %w", err)
	}
	defer key.Wipe()
	return key.Sign(nonce)
}

// advice describes the JWT of the latest connect; "" before it.
func (a *authentication) advice() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.user.text == "" {
		return ""
	}
	return a.user.claims.advice(time.Now())
}

// refused counts a refusal, and returns the time since the first of consecutive ones. A gap ends
// them: the server was away meanwhile.
func (a *authentication) refused(gap time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.firstRefusal.IsZero() || now.Sub(a.lastRefusal) > gap {
		a.firstRefusal = now
	}
	a.lastRefusal = now
	return now.Sub(a.firstRefusal)
}

// isUsed reports whether the user has a JWT.
func (a *authentication) isUsed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.user.text != ""
}

// accepted ends the consecutive refusals.
func (a *authentication) accepted() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.firstRefusal = time.Time{}
}

// due returns when to renew: at a share of the time from the connect to the end of the JWT.
func (a *authentication) due(share float64) (at, end time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	end = a.user.claims.expires()
	if !end.After(a.since) {
		return time.Time{}, end // the server decides, and nats.go reads the credentials again
	}
	return a.since.Add(time.Duration(share * float64(end.Sub(a.since)))), end
}

// onRefused ends the Bus when a server has refused the credentials for too long.
func (c *Conn) onRefused(err error) {
	c.sampledLog.Warn().Err(err).Str("credentials", c.auth.advice()).
		Msg("the server refuses the credentials: trying again")
	if c.auth.refused(c.refusedTimeout) >= c.refusedTimeout {
		c.bus.fail(&ConnectError{URL: c.where, Reason: WrongCredentials, Hint: c.auth.advice(), Err: err})
	}
}

// isRefusal reports whether a server refused or ended the authentication.
func isRefusal(err error) bool {
	for _, refusal := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked,
		nats.ErrAccountAuthExpired} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// renewalShare draws when a connection renews, as a share of the life of its JWT. The windows of
// the two connections are apart, and the processes of one host spread over them.
func renewalShare(name ConnName) float64 {
	const window = 0.125
	first := 0.625
	if name == ControlConn {
		first = 0.75
	}
	return first + window*rand.Float64()
}

// renew reconnects with new credentials before the present ones end (BUS-9). It ends with the Bus.
func (c *Conn) renew(o Options) {
	defer close(c.renewed)
	share := renewalShare(c.name)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at, end := c.auth.due(share)
		var ready <-chan time.Time
		if !at.IsZero() {
			now := time.Now()
			wait := at.Sub(now)
			if wait <= 0 && !c.reconnectWithNewer(&o, end) {
				wait = max(renewalPoll, end.Sub(now)/8)
			}
			timer.Reset(max(0, wait))
			ready = timer.C
		}
		select {
		case <-c.bus.done:
			return
		case <-c.auth.changed:
		case <-ready:
		}
	}
}

// awaitRenewal waits for the end of a renewal, and reports whether a failed publish can be
// repeated.
func (c *Conn) awaitRenewal() bool {
	if !c.renews {
		return false
	}
	c.calls.enter()
	defer c.calls.leave()
	return c.nc.IsConnected()
}

// reconnectWithNewer reconnects if there are credentials that end later. One connection of the Bus
// stays meanwhile.
func (c *Conn) reconnectWithNewer(o *Options, end time.Time) bool {
	next, err := o.readUserJWT()
	if err != nil {
		c.sampledLog.Warn().Err(err).Msg("cannot read new credentials")
		return false
	}
	if later := next.claims.expires(); !later.IsZero() && !later.After(end) {
		return false
	}
	c.bus.renewing.Lock()
	defer c.bus.renewing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), renewalTimeout)
	defer cancel()
	waiting, stop := context.WithTimeout(context.Background(), min(renewalTimeout, time.Until(end)/2))
	defer c.calls.close(waiting)()
	stop()
	_ = c.nc.FlushWithContext(ctx) // publishes of the moment; the connection may be lost already
	select {
	case <-c.reconnected: // an earlier one
	default:
	}
	c.leaving.Store(true)
	c.log.Info().Time("until", next.claims.expires()).Msg("bus reconnects with new credentials")
	forceReconnect(c.nc, c.log)
	late := time.NewTimer(renewalTimeout)
	defer late.Stop()
	select {
	case <-c.reconnected: // the callbacks of the lost connection have run, too
	case <-late.C:
	case <-c.bus.done:
	}
	return true
}
