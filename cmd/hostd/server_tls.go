package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/cli"
)

// authorityFile is the file in the directory of the host that has the certificate of the authority.
const authorityFile = "authority.pem"

// tlsFlags are the flags for the TLS of the own server.
type tlsFlags struct {
	tls                          bool
	tlsCert, tlsKey, tlsClientCA string
}

func (f *tlsFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.tls, "tls", false,
		"encrypt connections to its own server, with a certificate of its own; --state-dir keeps its fingerprint")
	fs.StringVar(&f.tlsCert, "tls-cert", "", "certificate `FILE` of its own server, in place of --tls")
	fs.StringVar(&f.tlsKey, "tls-key", "", "`FILE` with the key of --tls-cert")
	fs.StringVar(&f.tlsClientCA, "tls-client-ca", "",
		"`FILE` with the authority of clients: its own server refuses others. hostd has --tlscert and --tlskey")
}

// usesTLS reports whether the own server encrypts.
func (f *tlsFlags) usesTLS() bool { return f.tls || f.tlsCert != "" }

// isSet reports whether a flag is set.
func (f *tlsFlags) isSet() bool { return f.usesTLS() || f.tlsKey != "" || f.tlsClientCA != "" }

// checkTLS refuses contradicting flags.
func (f *tlsFlags) checkTLS(natsConfig string, conn *cli.Connection) error {
	switch {
	case f.isSet() && natsConfig != "":
		return cli.Usagef("--tls and --tls-cert are for a server without --nats-config: want TLS in %s", natsConfig)
	case f.tls && f.tlsCert != "":
		return cli.Usagef("want --tls, or --tls-cert with --tls-key, got both")
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return cli.Usagef("--tls-cert and --tls-key go together, got only one of them")
	case f.tlsClientCA != "" && !f.usesTLS():
		return cli.Usagef("--tls-client-ca %q: want --tls or --tls-cert with it", f.tlsClientCA)
	case f.tlsClientCA != "" && conn.TLSCert == "":
		return cli.Usagef("--tls-client-ca %q: want a client certificate for hostd and its procs: "+
			"--tlscert and --tlskey", f.tlsClientCA)
	case f.tlsClientCA == "" && natsConfig == "" && conn.TLSCert+conn.TLSKey != "":
		return cli.Usagef("--tlscert and --tlskey are for clients: " +
			"want --tls-cert and --tls-key for its own server")
	}
	return nil
}

// serverTLS is the TLS of the own server. A nil *serverTLS is none.
type serverTLS struct {
	settings    *tls.Config
	fingerprint string // what clients compare
	authority   []byte // certificate in PEM for clients that know no fingerprints; nil: none is known
}

// forServer returns the settings of the server; nil: no TLS.
func (t *serverTLS) forServer() *tls.Config {
	if t == nil {
		return nil
	}
	return t.settings
}

// forClients returns what clients compare; "": no TLS.
func (t *serverTLS) forClients() string {
	if t == nil {
		return ""
	}
	return t.fingerprint
}

// loadTLS returns the TLS of the own server, after its state.
func (c *config) loadTLS(log zerolog.Logger) (*serverTLS, error) {
	var t *serverTLS
	var err error
	switch {
	case !c.usesTLS():
		return nil, nil
	case c.tls:
		t, err = c.server.ownTLS()
	default:
		t, err = filesTLS(c.tlsCert, c.tlsKey, log)
	}
	if err == nil && c.tlsClientCA != "" {
		t.settings.ClientCAs, err = readAuthorities(c.tlsClientCA)
	}
	return t, err
}

// ownTLS uses the authority of the last hostd with this state directory, or a new one.
func (s *serverConfig) ownTLS() (*serverTLS, error) {
	var err error
	if s.authorityKey == "" {
		s.authorityKey, err = newAuthorityKey()
		if err != nil {
			return nil, fmt.Errorf("--tls: cannot make a key: %w", err)
		}
	}
	a, err := newAuthority(s.authorityKey, s.host)
	if err != nil {
		return nil, fmt.Errorf("--tls: cannot use the key of the state directory: %w", err)
	}
	return &serverTLS{settings: a.settings(), fingerprint: a.fingerprint(), authority: a.pem()}, nil
}

// readAuthorities reads the certificates in a file.
func readAuthorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = errors.New("want a certificate in PEM")
	}
	if err != nil {
		return nil, fmt.Errorf("--tls-client-ca %q: %w", file, err)
	}
	return pool, nil
}

// filesTLS uses the certificate in a file. Clients compare its own key: the authority of a public
// certificate signs those of everybody.
func filesTLS(cert, key string, log zerolog.Logger) (*serverTLS, error) {
	f := &certificateFile{cert: cert, key: key, log: log}
	first, err := f.load()
	if err != nil {
		return nil, err
	}
	f.current, f.loaded = first, modified(cert)
	f.fingerprint = bus.FingerprintOf(first.Leaf)
	settings := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: f.get}
	return &serverTLS{settings: settings, fingerprint: f.fingerprint}, nil
}

// certificateFile is a certificate that others renew in its file.
type certificateFile struct {
	cert, key   string
	fingerprint string
	log         zerolog.Logger

	mu      sync.Mutex // guards the fields below
	current *tls.Certificate
	loaded  time.Time // modification time of the file at its last reading
}

func (f *certificateFile) load() (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %q: %w", f.cert, err)
	}
	return &c, nil
}

// get returns the certificate for a handshake. A changed file counts if it has the same key, which
// procs and joined hosts know.
func (f *certificateFile) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := modified(f.cert)
	if at.IsZero() || at.Equal(f.loaded) {
		return f.current, nil
	}
	f.loaded = at
	next, err := f.load()
	if err == nil && bus.FingerprintOf(next.Leaf) != f.fingerprint {
		err = fmt.Errorf("--tls-cert %q: it has a new key: want the same key, or a restart of all hosts", f.cert)
	}
	if err != nil {
		f.log.Warn().Err(err).Msg("cannot use the new certificate of the server: it keeps the last one")
		return f.current, nil
	}
	f.current = next
	return next, nil
}

// modified returns the time of the last change of a file; zero: unknown.
func modified(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// writeAuthorityFile keeps the certificate of the authority for clients on this machine, such as
// the nats command.
func (n *node) writeAuthorityFile() error {
	if n.authorityFile() == "" {
		return nil
	}
	if err := os.WriteFile(n.authorityFile(), n.config.server.tls.authority, 0o600); err != nil {
		return fmt.Errorf("cannot keep the certificate of the server's authority: %w", err)
	}
	return nil
}

// authorityFile returns the file with the certificate of the authority, or "".
func (n *node) authorityFile() string {
	if n.config.server.tls == nil || n.config.server.tls.authority == nil {
		return ""
	}
	return filepath.Join(n.host.RunDir(), authorityFile)
}
