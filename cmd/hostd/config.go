package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/ticket"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/auth"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
)

// config is a validated command line.
type config struct {
	flags
	space        subjects.Space
	level        zerolog.Level
	procLogLevel string // log level of procs; "" = default

	allowCommands [][]string        // programs with fixed arguments
	rlimits       host.ProcLimits   // of procs
	labels        map[string]string // of the host
	keys          *keys.Config      // limits
	hostKey       *auth.HostKey     // nil: no --auth-key
	invitation    *agent.Invitation // to the mesh that it joins; nil: none

	external *bus.Options // nil: run a server
	server   serverConfig // the own server, otherwise

	tracer actor.Tracer // nil: no spans are exported
}

// serverConfig configures hostd's own server.
type serverConfig struct {
	host    string
	port    int // 0 with portSet: any
	portSet bool
	token   string // "" with a configuration file or --insecure
	// portRestored marks the port of the last server with this state directory.
	portRestored   bool
	tokenGenerated bool // tokenGenerated marks a generated token, secret unless shared.

	revoked      []string   // the serials of refused keys
	authorityKey string     // of the last server with this state directory, or of this one; "": none
	tls          *serverTLS // set at the start
}

// isLoopback reports whether only this machine reaches the server.
func (s serverConfig) isLoopback() bool {
	ip := net.ParseIP(s.host)
	return s.host == "localhost" || ip != nil && ip.IsLoopback()
}

// isPrivate reports whether only programs of this user can connect. They may then run any program
// of the user without new rights. A typed token is no secret, because ps shows it.
func (c config) isPrivate() bool {
	return c.external == nil && c.natsConfig == "" && c.server.isLoopback() && c.server.token != "" &&
		c.conn.Token == ""
}

// newConfig validates all settings before anything starts.
func (f flags) newConfig(getenv func(string) string) (config, error) {
	c := config{flags: f}
	var err error
	c.space, err = subjects.NewSpace("", f.conn.Namespace)
	if err != nil {
		return c, err
	}
	c.label, err = hostLabel(f.label, os.Hostname)
	if err != nil {
		return c, err
	}
	c.allow, c.allowCommands, err = allowed(f.allow)
	if err != nil {
		return c, err
	}
	c.rlimits, err = parseProcLimits(f.procLimits)
	if err != nil {
		return c, err
	}
	c.labels, err = hostLabels(f.hostLabels)
	if err != nil {
		return c, err
	}
	c.keys, err = f.loadKeys(getenv)
	if err != nil {
		return c, err
	}
	if f.http != "" {
		c.http, err = cli.LoopbackAddress(f.http)
		if err != nil {
			return c, cli.Usagef("--http %q: %v", f.http, err)
		}
	}
	if f.uiAct && f.http == "" {
		return c, cli.Usagef("--ui-act is for the page of --http: want both")
	}
	c.level, c.procLogLevel, err = logLevels(f.logLevel)
	if err != nil {
		return c, err
	}
	switch {
	case f.logFormat != "" && f.logFormat != "json" && f.logFormat != "console":
		return c, cli.Usagef("--log-format %q: want json or console", f.logFormat)
	case f.natsConfig != "" && !isFile(f.natsConfig):
		return c, cli.Usagef("--nats-config %q: want a file that can be read", f.natsConfig)
	case f.systemCreds != "" && !isFile(f.systemCreds):
		return c, cli.Usagef("--system-creds %q: want a file that can be read", f.systemCreds)
	case f.readySet && f.ready <= 0:
		return c, cli.Usagef("--ready-timeout is %s, want more than 0", f.ready)
	case f.lameDuckTimeout < 0:
		return c, cli.Usagef("--lame-duck is %s, want a duration such as 2m, or 0 to drain at once",
			f.lameDuckTimeout)
	}
	if err := c.validate(f.usesExternalBus(getenv)); err != nil {
		return c, err
	}
	if err := c.loadAuthKey(); err != nil {
		return c, err
	}
	if f.joinMesh != "" && f.natsConfig == "" && !f.usesExternalBus(getenv) {
		return c, cli.Usagef("--join-mesh is for a mesh on another server: want --nats with it")
	}
	c.invitation, err = c.readInvitation()
	if err != nil {
		return c, err
	}
	if f.usesExternalBus(getenv) {
		if f.hasServerFlags() {
			return c, cli.Usagef("--listen, --nats-config, --data and --tls are for a server of its own: " +
				"want them without --nats and --context")
		}
		o, err := f.conn.Options(getenv)
		if err != nil {
			return c, err
		}
		o = c.authenticate(o)
		c.external = &o
		return c, c.checkIdentity(o)
	}
	c.server, err = f.serverConfig(getenv)
	return c, err
}

func (f flags) hasServerFlags() bool {
	return f.listen != "" || f.natsConfig != "" || f.data != "" || f.tlsFlags.isSet()
}

// usesExternalBus reports whether to join a bus. Flags override the environment. A merely selected
// NATS context does not count, because hostd without flags is a whole system.
func (f flags) usesExternalBus(getenv func(string) string) bool {
	if f.hasServerFlags() && f.conn.Server == "" && f.conn.Context == "" {
		return false
	}
	return f.conn.IsConfigured(getenv)
}

// serverConfig returns the settings of the own server.
func (f flags) serverConfig(getenv func(string) string) (serverConfig, error) {
	s := serverConfig{host: "127.0.0.1", port: defaultPort}
	token, err := f.conn.ReadToken()
	if err != nil {
		return s, err
	}
	if err := f.checkTLS(f.natsConfig, &f.conn); err != nil {
		return s, err
	}
	if f.natsConfig == "" {
		if f.authKey != "" {
			return s, cli.Usagef("--auth-key is for another server, or for one with a configuration file: " +
				"want --nats or --nats-config")
		}
		if strings.Join([]string{f.conn.Creds, f.conn.NKey, f.conn.User, f.conn.Password, f.conn.TLSCA,
			f.conn.TLSFingerprint, f.conn.InboxPrefix}, "") != "" || f.conn.TLSFirst {
			return s, cli.Usagef("credentials, and TLS of clients, are for another server, or for one with a " +
				"configuration file: want --nats or --nats-config; --tls and --tls-cert encrypt its own server")
		}
		s.token = token
		if s.token == "" {
			s.token = getenv("NATS_TOKEN")
		}
		if s.token == "" && !f.conn.Insecure {
			s.token, s.tokenGenerated = ticket.NewToken(), true
		}
	} else {
		s.host = ""
		s.port = 0
		s.portSet = true
		s.token = token
	}
	if f.listen == "" {
		return s, nil
	}
	host, port, err := net.SplitHostPort(f.listen)
	if err != nil {
		return s, cli.Usagef("--listen %q: want HOST:PORT, such as 127.0.0.1:4222", f.listen)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return s, cli.Usagef("--listen %q: want a port from 0 (any) to 65535", f.listen)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	s.host = host
	s.port = int(n)
	s.portSet = true
	return s, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// hostLabel returns the given label, or the first part of the machine's name.
func hostLabel(said string, hostname func() (string, error)) (string, error) {
	if said != "" {
		return said, subjects.CheckLabel("host label", said)
	}
	name, err := hostname()
	if err != nil {
		return "", cli.Usagef("cannot read the hostname (%w): set --label", err)
	}
	label, _, _ := strings.Cut(name, ".")
	if err := subjects.CheckLabel("host label", label); err != nil {
		return "", cli.Usagef("the hostname %q is no valid label: set --label: %w", name, err)
	}
	return label, nil
}

// allowed returns the permitted paths, and the programs with fixed arguments. An entry that is no
// path is a program with arguments, between spaces. It refuses missing programs, because they are
// probably misspelled.
func allowed(entries []string) (paths []string, commands [][]string, err error) {
	for _, entry := range entries {
		abs, err := filepath.Abs(entry)
		if err == nil {
			_, err = os.Stat(abs)
		}
		if err == nil {
			paths = append(paths, abs)
			continue
		}
		words := strings.Fields(entry)
		if len(words) < 2 {
			return nil, nil, cli.Usagef("--allow %q: want a program or a directory: %w", entry, err)
		}
		words[0], err = filepath.Abs(words[0])
		if err == nil && !isFile(words[0]) {
			err = fmt.Errorf("%s is no file", words[0])
		}
		if err != nil {
			return nil, nil, cli.Usagef("--allow %q: want a program with arguments: %w", entry, err)
		}
		commands = append(commands, words)
	}
	return paths, commands, nil
}
