package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/castnet-io/castnet/bus"
)

// defaultTimeout is the library's default deadline of a request.
const defaultTimeout = 30 * time.Second

// Connection holds the bus flags. The flags have the names of the nats command.
type Connection struct {
	Server  string // one or more URLs, comma separated
	Context string // name of a NATS context

	Creds, NKey    string
	User, Password string
	Token          string
	TokenFile      string // - is Stdin
	Stdin          io.Reader

	TLSCert, TLSKey, TLSCA string
	TLSFirst               bool
	TLSFingerprint         string

	InboxPrefix string
	Insecure    bool

	Timeout   time.Duration // for a connect to one server, and for a request
	Namespace string        // castnet namespace on this bus

	timeoutSet  func() bool
	tokenOfFile string // once it was read
}

// Flags adds the flags to a set. Parsing the set fills c.
func (c *Connection) Flags(fs *pflag.FlagSet) {
	fs.StringVarP(&c.Server, "server", "s", "", "NATS server `URL`, or several, comma separated (NATS_URL)")
	fs.StringVar(&c.Context, "context", "", "NATS context `NAME`, as made by nats context (NATS_CONTEXT)")
	fs.StringVar(&c.Creds, "creds", "", "credentials `FILE` (NATS_CREDS)")
	fs.StringVar(&c.NKey, "nkey", "", "NKEY seed `FILE` (NATS_NKEY)")
	fs.StringVar(&c.User, "user", "", "user `NAME` (NATS_USER)")
	fs.StringVar(&c.Password, "password", "", "`PASSWORD` of the user (NATS_PASSWORD)")
	fs.StringVar(&c.Token, "token", "", "`TOKEN` (NATS_TOKEN)")
	fs.StringVar(&c.TokenFile, "token-file", "",
		"`FILE` with the token, which ps does not show; - is standard input")
	fs.StringVar(&c.TLSCert, "tlscert", "", "client certificate `FILE` (NATS_CERT)")
	fs.StringVar(&c.TLSKey, "tlskey", "", "`FILE` with the certificate's key (NATS_KEY)")
	fs.StringVar(&c.TLSCA, "tlsca", "",
		"`FILE` with the authority that signed the server's certificate (NATS_CA)")
	fs.StringVar(&c.TLSFingerprint, "tls-fingerprint", "",
		"trust the server whose certificate comes from this key, as `sha256:HEX` of it (NATS_TLS_FINGERPRINT)")
	fs.BoolVar(&c.TLSFirst, "tlsfirst", false, "start the TLS handshake before the server's greeting")
	fs.StringVar(&c.InboxPrefix, "inbox-prefix", "", "`PREFIX` of reply subjects (NATS_INBOX_PREFIX)")
	fs.BoolVar(&c.Insecure, "insecure", false, "accept a server off this machine without authentication")
	fs.DurationVar(&c.Timeout, "timeout", defaultTimeout, "time for a request, and to connect if set")
	fs.StringVar(&c.Namespace, "namespace", "default", "`NAME` of the namespace on this bus")
	c.Stdin = os.Stdin
	c.timeoutSet = func() bool { return fs.Changed("timeout") }
}

// Options returns the bus options (CLI-1), without connection name and log.
func (c *Connection) Options(getenv func(string) string) (bus.Options, error) {
	if err := c.validate(); err != nil {
		return bus.Options{}, err
	}
	nctx, err := c.loadContext(getenv)
	if err != nil {
		return bus.Options{}, err
	}
	flags, err := c.flagSource()
	if err != nil {
		return bus.Options{}, err
	}
	set := resolve(flags.get, getenv, nctx.get)
	if text := set[fingerprint]; text != "" {
		if err := bus.CheckFingerprint(text); err != nil {
			return bus.Options{}, Usagef("--tls-fingerprint: %w", err)
		}
	}
	if set["NATS_PASSWORD"] != "" && set["NATS_USER"] == "" {
		return bus.Options{}, Usagef("a password needs a user: set --user or NATS_USER")
	}
	local, isLocal := localServer(getenv, set["NATS_URL"])
	if isLocal && !hasIdentity(set.get) {
		set["NATS_TOKEN"] = local.Token
	}
	// FromEnv adds the local file if no URL is set, and its hint on failure.
	o := bus.FromEnv(func(key string) string {
		if strings.HasPrefix(key, "NATS_") {
			return set[key]
		}
		return getenv(key)
	})
	if isLocal {
		o.UseTLSOf(local)
	}
	o.TLSFirst, o.Insecure = c.TLSFirst || nctx[tlsFirst] != "", c.Insecure
	if c.timeoutSet != nil && c.timeoutSet() {
		o.ConnectTimeout = c.Timeout
	}
	return o, nil
}

// IsConfigured reports whether a flag or a variable selects the bus.
func (c *Connection) IsConfigured(getenv func(string) string) bool {
	return c.Server != "" || c.contextName(getenv) != "" || getenv("NATS_URL") != ""
}

// HasIdentity reports whether a flag has credentials.
func (c *Connection) HasIdentity() bool {
	return c.Creds != "" || c.NKey != "" || c.User != "" || c.Token != "" || c.TokenFile != ""
}

func (c *Connection) contextName(getenv func(string) string) string {
	return firstNonEmpty(c.Context, getenv("NATS_CONTEXT"))
}

// validate refuses contradicting flags.
func (c *Connection) validate() error {
	identities := 0
	for _, given := range []string{c.Creds, c.NKey, c.User, c.Token, c.TokenFile} {
		if given != "" {
			identities++
		}
	}
	switch {
	case identities > 1:
		return Usagef("want one of --creds, --nkey, --user, --token and --token-file, got several")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return Usagef("--tlscert and --tlskey go together, got only one of them")
	case c.TLSCA != "" && c.TLSFingerprint != "":
		return Usagef("want one of --tlsca and --tls-fingerprint, got both")
	case c.timeoutSet != nil && c.Timeout <= 0:
		return Usagef("--timeout is %s, want more than 0", c.Timeout)
	}
	return nil
}

// checkFile refuses the file of a flag if it does not exist or permits no reads. A pipe is not
// opened: its text can be read once.
func checkFile(flag, path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() {
		var f *os.File
		f, err = os.Open(path)
		if err == nil {
			f.Close()
		}
	}
	if err != nil {
		return Usagef("cannot read %s %q: %w", flag, path, err)
	}
	return nil
}

// maxToken bounds a token in a file, in bytes.
const maxToken = 4096

// ReadToken returns the token of a flag, or "". It reads a file once.
func (c *Connection) ReadToken() (string, error) {
	switch {
	case c.TokenFile == "":
		return c.Token, nil
	case c.Token != "":
		return "", Usagef("want one of --token and --token-file, got both")
	case c.tokenOfFile != "":
		return c.tokenOfFile, nil
	}
	token, err := c.readTokenFile()
	if err != nil {
		return "", Usagef("cannot read --token-file %q: %w", c.TokenFile, err)
	}
	c.tokenOfFile = token
	return token, nil
}

func (c *Connection) readTokenFile() (string, error) {
	in := c.Stdin
	if c.TokenFile != "-" {
		f, err := os.Open(c.TokenFile)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxToken+1))
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxToken:
		return "", fmt.Errorf("want a token of at most %d bytes", maxToken)
	case token == "" || strings.ContainsFunc(token, unicode.IsSpace):
		return "", errors.New("want one word")
	}
	return token, nil
}

// flagSource returns the flags under the names of their variables.
func (c *Connection) flagSource() (settings, error) {
	if err := checkFile("--creds", c.Creds); err != nil {
		return nil, err
	}
	if err := checkFile("--nkey", c.NKey); err != nil {
		return nil, err
	}
	token, err := c.ReadToken()
	return settings{
		"NATS_URL": c.Server, "NATS_CREDS": c.Creds, "NATS_NKEY": c.NKey, "NATS_USER": c.User,
		"NATS_PASSWORD": c.Password, "NATS_TOKEN": token, "NATS_CERT": c.TLSCert, "NATS_KEY": c.TLSKey,
		"NATS_CA": c.TLSCA, fingerprint: c.TLSFingerprint, "NATS_INBOX_PREFIX": c.InboxPrefix,
	}, err
}
