package embed

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

const (
	defaultHost = "127.0.0.1"

	// A silently dead client is noticed within 15 s. A client that does not read is cut after 5 s.
	pingInterval  = 5 * time.Second
	maxPingsOut   = 2
	writeDeadline = 5 * time.Second

	// The time over which a leaving server spreads the goodbyes to its clients.
	lameDuckDuration = 30 * time.Second
	lameDuckGrace    = 5 * time.Second

	// The time for a TLS handshake; nats-server's own, 2 s, is short on a busy machine.
	tlsTimeout = 5 * time.Second
)

// Options describe the server. The zero value listens on 127.0.0.1, on any free
// port, and lets everybody on this machine in.
type Options struct {
	Host string // default 127.0.0.1
	Port int    // 0: any free port

	// Credentials of clients: a token, or a user. Richer schemes go into ConfigFile.
	Token          string
	User, Password string

	// Tickets makes the server take tickets beside the token, which is then required (EMB-3). A
	// server with a ConfigFile takes none.
	Tickets bool

	// TLS encrypts the connections of clients; nil: no TLS. With ClientCAs each client needs a
	// certificate of theirs. A ConfigFile has its own.
	TLS *tls.Config

	// ConfigFile is a configuration file of nats-server, taken whole. The fields of these Options
	// override it.
	ConfigFile string

	// JetStream turns it on. Without a StoreDir nothing outlives the server.
	JetStream bool
	StoreDir  string

	MaxPayload int  // bytes of a message; default 1 MiB, at most 64 MiB
	DontListen bool // reachable through InProcessConn only
	Insecure   bool // allow an address off loopback without authentication

	// Log gets the server's warnings and errors, and at level debug the rest.
	Log zerolog.Logger
}

// serverOptions merges the file, the fields and the defaults, in falling
// precedence of the fields.
func (o Options) serverOptions() (*server.Options, error) {
	so := &server.Options{}
	if o.ConfigFile != "" {
		parsed, err := server.ProcessConfigFile(o.ConfigFile)
		if err != nil {
			return nil, fmt.Errorf("configuration file %s: %w", o.ConfigFile, err)
		}
		so = parsed
	}
	if o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("port is %d, expected 0 to 65535", o.Port)
	}
	if o.MaxPayload < 0 || o.MaxPayload > server.MAX_PAYLOAD_MAX_SIZE {
		return nil, fmt.Errorf("MaxPayload is %d, expected 0 to %d", o.MaxPayload,
			server.MAX_PAYLOAD_MAX_SIZE)
	}
	if o.Password != "" && o.User == "" {
		return nil, errors.New("want a User with the Password")
	}
	if o.Tickets && (o.Token == "" || o.User != "" || o.ConfigFile != "") {
		return nil, errors.New("want Tickets with a Token alone")
	}
	if o.TLS != nil && o.ConfigFile != "" {
		return nil, errors.New("want TLS or a ConfigFile, got both")
	}
	o.apply(so)
	setDefaults(so)
	return so, nil
}

// apply overrides the file's settings with the set fields.
func (o Options) apply(so *server.Options) {
	if o.Host != "" {
		so.Host = o.Host
	}
	if o.Port != 0 {
		so.Port = o.Port
	}
	if o.Token != "" {
		so.Authorization = o.Token
	}
	if o.User != "" {
		so.Username, so.Password = o.User, o.Password
	}
	if o.MaxPayload != 0 {
		so.MaxPayload = int32(o.MaxPayload)
	}
	if o.TLS != nil {
		so.TLSConfig = o.TLS.Clone()
		so.TLS, so.TLSTimeout = true, tlsTimeout.Seconds()
		if o.TLS.ClientCAs != nil {
			so.TLSVerify = true
			so.TLSConfig.ClientAuth = tls.RequireAndVerifyClientCert
		}
	}
	so.JetStream = so.JetStream || o.JetStream
	if o.StoreDir != "" {
		so.StoreDir = o.StoreDir
	}
	so.DontListen = so.DontListen || o.DontListen
}

// maxClosedClients bounds the closed connections that the server remembers. Its own default,
// 10,000, takes 15 MB.
const maxClosedClients = 256

// setDefaults fills in the remaining settings. Signals belong to the program.
func setDefaults(so *server.Options) {
	if so.MaxClosedClients == 0 {
		so.MaxClosedClients = maxClosedClients
	}
	if so.Host == "" {
		so.Host = defaultHost
	}
	if so.Port == 0 {
		so.Port = server.RANDOM_PORT
	}
	if so.PingInterval == 0 {
		so.PingInterval = pingInterval
	}
	if so.MaxPingsOut == 0 {
		so.MaxPingsOut = maxPingsOut
	}
	if so.WriteDeadline == 0 {
		so.WriteDeadline = writeDeadline
	}
	if so.LameDuckDuration == 0 {
		so.LameDuckDuration = lameDuckDuration
	}
	if so.LameDuckGracePeriod == 0 {
		so.LameDuckGracePeriod = lameDuckGrace
	}
	so.NoSigs = true
}

// listenAddr is the server's listen address, for error messages.
func listenAddr(so *server.Options) string {
	if so.DontListen {
		return ""
	}
	return net.JoinHostPort(so.Host, strconv.Itoa(max(so.Port, 0)))
}

// temporaryStore gives JetStream a directory of its own if none is named. All servers of the
// machine would share the default one.
func temporaryStore(so *server.Options) (dir string, err error) {
	if !so.JetStream || so.StoreDir != "" {
		return "", nil
	}
	dir, err = os.MkdirTemp("", "castnet-jetstream-")
	so.StoreDir = dir
	return dir, err
}
