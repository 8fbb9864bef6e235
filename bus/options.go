package bus

import (
	"errors"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// DefaultURL is where a server is looked for when nothing else is said.
const DefaultURL = "nats://127.0.0.1:4222"

const (
	defaultQueueLen       = 65536
	lossyQueueLen         = 8192 // or QueueLen, if that is less
	defaultConnectTimeout = 2 * time.Second
	defaultPingInterval   = 5 * time.Second
	defaultReconnectMax   = 2 * time.Second
	defaultName           = "castnet"
)

// InProcess is a server in this process, reached without a socket.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Options say which server to use and how. The zero value connects to
// DefaultURL without credentials and logs nothing.
type Options struct {
	URL    string    // one or more, comma separated; default DefaultURL
	Server InProcess // used instead of URL when set
	Name   string    // shown by the server, with "/data" or "/control" appended; default "castnet"

	// Credentials, as the nats command line has them. Creds and NKey are files.
	Creds, NKey    string
	User, Password string
	Token          string
	JWT, Seed      string // used together

	CertFile, KeyFile, CAFile string // PEM files; CertFile and KeyFile go together
	TLSFirst                  bool   // TLS handshake before the server says a word

	InboxPrefix string // of reply subjects; default "_INBOX"

	// Insecure allows a server off this machine that asks for no
	// authentication.
	Insecure bool

	QueueLen       int           // messages an Inbox holds, a lossy one at most 8192; default 65536
	ConnectTimeout time.Duration // per server and connection; default 2 s
	PingInterval   time.Duration // between pings of the server; two that go unanswered end the connection; default 5 s
	ReconnectMax   time.Duration // between tries to reconnect, which begin sooner; default 2 s

	// OnState hears of every State, in order per lane, the two lanes
	// concurrently. It is called on the connection's event goroutine and must
	// not block and not call Close.
	OnState func(State)

	Log zerolog.Logger

	// hint travels from FromEnv into a ConnectError.
	hint string
}

// FromEnv reads the variables the nats command line reads: NATS_URL,
// NATS_CREDS, NATS_NKEY, NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_JWT,
// NATS_SEED, NATS_CERT, NATS_KEY, NATS_CA, NATS_INBOX_PREFIX. Without NATS_URL
// it takes URL and token from the file of a server on this machine (see Local),
// if there is one.
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
		InboxPrefix: getenv("NATS_INBOX_PREFIX"),
	}
	if o.URL == "" {
		o.useLocal(getenv)
	}
	return o
}

// useLocal fills URL and Token from the local file. A file that cannot be
// trusted is not an error yet, since the default URL may work, but the user
// must learn of it if that fails too.
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
}

func (o *Options) hasCredentials() bool {
	return o.Creds != "" || o.NKey != "" || o.User != "" || o.Token != "" || o.JWT != ""
}

// withDefaults fills in what was left out.
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
	}
	if o.PingInterval <= 0 {
		o.PingInterval = defaultPingInterval
	}
	if o.ReconnectMax <= 0 {
		o.ReconnectMax = defaultReconnectMax
	}
	return o
}

// check finds combinations that mean nothing, before anything is dialled.
func (o *Options) check() error {
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("CertFile and KeyFile must be given together")
	case (o.JWT == "") != (o.Seed == ""):
		return errors.New("JWT and Seed must be given together")
	case o.Password != "" && o.User == "":
		return errors.New("a Password is given without a User")
	}
	return nil
}

// where names the server for people: userinfo is cut off, since it may be a
// password or a token.
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

// stripUserinfo works on text, so that a URL which does not parse does not
// leak its password into the error that says so.
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
