package bus

import (
	"errors"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// DefaultURL is the default address of the server.
const DefaultURL = "nats://127.0.0.1:4222"

const (
	defaultQueueLen       = 65536
	lossyQueueLen         = 8192 // or QueueLen, if smaller
	defaultConnectTimeout = 2 * time.Second
	inProcessTimeout      = 30 * time.Second
	defaultPingInterval   = 5 * time.Second
	defaultReconnectMax   = 2 * time.Second
	// A proc without its host ends after that time, too, and its peers have given up on its messages.
	defaultRefusedTimeout = time.Minute
	defaultName           = "castnet"
)

// InProcess is a server in this process, reached without a socket.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Options configure a connection. The zero value connects to DefaultURL without credentials and
// logs nothing.
type Options struct {
	URL    string    // one or more, comma separated; default DefaultURL
	Server InProcess // used instead of URL when set
	Name   string    // shown by the server, with "/data" or "/control" appended; default "castnet"

	// Credentials, as the nats command line has them. Creds and NKey are files.
	Creds, NKey    string
	User, Password string
	Token          string
	JWT, Seed      string // used together

	// UserJWT makes the JWT and the seed of its key for each connect, in place of Creds. It may block.
	UserJWT func() (jwt, seed string, err error)

	// Advice says what to do when the server refuses a Token at the first connect; nil: unknown.
	Advice func(now time.Time) string

	// RefusedTimeout ends the Bus when servers have refused its Creds or UserJWT for this long, one
	// refusal after another; default 1 min. A refusal of other credentials ends it at the second one.
	RefusedTimeout time.Duration

	CertFile, KeyFile, CAFile string // PEM files; CertFile and KeyFile go together
	TLSFirst                  bool   // TLS handshake before the server's first message
	// Fingerprint of the one key from which the server's certificate must come, see FingerprintOf.
	// It requires TLS, and counts in place of CAFile and of the server's name.
	Fingerprint string

	InboxPrefix string // of reply subjects; default "_INBOX"

	// Insecure allows a server off this machine without authentication.
	Insecure bool

	QueueLen int // messages an Inbox holds, a lossy one at most 8192; default 65536
	// ConnectTimeout bounds the connection to one server; default 2 s, and 30 s for Server, which
	// only a busy machine delays.
	ConnectTimeout time.Duration
	// between pings of the server; two unanswered ones end the connection; default 5 s
	PingInterval time.Duration
	ReconnectMax time.Duration // bound of the reconnect delay, which starts shorter; default 2 s

	// OnState receives every State, in order for each connection, and concurrently for the two. It
	// runs on the connection's event goroutine and must not block and not call Close.
	OnState func(State)

	Log zerolog.Logger

	// hint travels from FromEnv into a ConnectError.
	hint string
}

// FromEnv reads the variables of the nats command line: NATS_URL, NATS_CREDS, NATS_NKEY, NATS_USER,
// NATS_PASSWORD, NATS_TOKEN, NATS_JWT, NATS_SEED, NATS_CERT, NATS_KEY, NATS_CA, NATS_INBOX_PREFIX.
// NATS_TLS_FINGERPRINT, which that command does not know, is the Fingerprint. Without NATS_URL it
// takes URL, token and TLS from the file of a server on this machine (see LocalServer), if there is
// one.
func FromEnv(getenv func(string) string) Options {
	o := Options{
		URL:         getenv("NATS_URL"),
		Creds:       getenv("NATS_CREDS"),
		NKey:        getenv("NATS_NKEY"),
		User:        getenv("NATS_USER"),
		Password:    getenv("NATS_PASSWORD"),
		Token:       getenv("NATS_TOKEN"),
		JWT:         getenv("NATS_JWT"),
		Seed:        getenv("NATS_SEED"),
		CertFile:    getenv("NATS_CERT"),
		KeyFile:     getenv("NATS_KEY"),
		CAFile:      getenv("NATS_CA"),
		Fingerprint: getenv("NATS_TLS_FINGERPRINT"),
		InboxPrefix: getenv("NATS_INBOX_PREFIX"),
	}
	if o.URL == "" {
		o.useLocal(getenv)
	}
	return o
}

// useLocal sets URL, Token and TLS from the local file. An untrusted file is not an error yet,
// because the default URL may work. If that fails too, the error mentions the file.
func (o *Options) useLocal(getenv func(string) string) {
	path, err := LocalFile(getenv)
	if err != nil {
		o.hint = err.Error()
		return
	}
	local, err := ReadLocal(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			o.hint = err.Error()
		}
		return
	}
	o.URL = local.URL
	if !o.hasCredentials() {
		o.Token = local.Token
	}
	o.UseTLSOf(local)
}

// UseTLSOf takes from the record of a server what its TLS requires, except what is set.
func (o *Options) UseTLSOf(l LocalServer) {
	if o.CAFile == "" && o.Fingerprint == "" {
		o.CAFile, o.Fingerprint = l.CAFile, l.Fingerprint
	}
	if o.CertFile == "" && o.KeyFile == "" {
		o.CertFile, o.KeyFile = l.CertFile, l.KeyFile
	}
}

func (o *Options) hasCredentials() bool {
	return o.NKey != "" || o.User != "" || o.Token != "" || o.hasUserJWT()
}

// WithoutCredentials returns the options for a connection of another user.
func (o Options) WithoutCredentials() Options {
	o.Creds = ""
	o.NKey = ""
	o.User = ""
	o.Password = ""
	o.Token = ""
	o.JWT = ""
	o.Seed = ""
	o.UserJWT = nil
	o.Advice = nil
	return o
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	if o.URL == "" {
		o.URL = DefaultURL
	}
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.QueueLen <= 0 {
		o.QueueLen = defaultQueueLen
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = defaultConnectTimeout
		if o.Server != nil {
			o.ConnectTimeout = inProcessTimeout
		}
	}
	if o.PingInterval <= 0 {
		o.PingInterval = defaultPingInterval
	}
	if o.ReconnectMax <= 0 {
		o.ReconnectMax = defaultReconnectMax
	}
	if o.RefusedTimeout <= 0 {
		o.RefusedTimeout = defaultRefusedTimeout
	}
	return o
}

// check refuses contradictory options before any connection.
func (o *Options) check() error {
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("want CertFile and KeyFile together")
	case (o.JWT == "") != (o.Seed == ""):
		return errors.New("want JWT and Seed together")
	case o.Password != "" && o.User == "":
		return errors.New("want a User with the Password")
	case o.Fingerprint != "":
		return CheckFingerprint(o.Fingerprint)
	}
	return nil
}

// where names the server for people, without the userinfo, which may be a password or a token.
func (o *Options) where() string {
	if o.Server != nil {
		return "the server in this process"
	}
	urls := strings.Split(o.URL, ",")
	for i, u := range urls {
		urls[i] = stripUserinfo(strings.TrimSpace(u))
	}
	return strings.Join(urls, ",")
}

// stripUserinfo works on text, so that an invalid URL does not leak its password into the error
// message.
func stripUserinfo(u string) string {
	at := strings.LastIndexByte(u, '@')
	if at < 0 {
		return u
	}
	scheme := ""
	if i := strings.Index(u, "://"); i >= 0 && i < at {
		scheme = u[:i+len("://")]
	}
	return scheme + u[at+1:]
}
