package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/cli"
)

// printBanner prints the address and the policy: a paragraph for a person, one line for a machine.
func (n *node) printBanner(stderr io.Writer, log zerolog.Logger, getenv func(string) string) {
	bus := n.describeBus()
	client := n.clientCommand(getenv)
	nats := n.natsCommand()
	if !n.usesConsole(stderr) {
		log.Info().Str("version", cli.Version()).Stringer("host", n.host.ID()).Str("bus", n.bus.Control().URL()).
			Bool("embedded", n.server != nil).Str("local_file", n.localFile).Str("namespace", n.space.Namespace()).
			Str("run_dir", n.host.RunDir()).Str("allow", n.describePolicy()).Str("connect", client).
			Str("http", n.readyURL()).Str("page_file", n.pageFile()).
			Str("labels", formatLabels(n.labels)).Str("fingerprint", n.options.Fingerprint).
			Str("join", n.joinCommand()).Msg("hostd is ready")
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "hostd %s\n\n", cli.Version())
	for _, line := range [][2]string{
		{"host", n.host.ID().String()}, {"labels", formatLabels(n.labels)}, {"bus", bus}, {"logs", n.host.RunDir()},
		{"runs", n.describePolicy()}, {"probes", n.readyURL()}, {"page", n.describePage()},
		{"try", client}, {"watch", nats}, {"join", n.joinCommand()}, {"token", n.describeToken()},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "  %-6s %s\n", line[0], line[1])
		}
	}
	b.WriteString("\nhostd is ready. Ctrl-C drains and stops.\n\n")
	fmt.Fprint(stderr, b.String())
}

// readyURL returns the address of the health endpoint, or "".
func (n *node) readyURL() string {
	if n.health == nil {
		return ""
	}
	return n.health.url + "/readyz"
}

// pageFile returns the file with the address of the page, or "".
func (n *node) pageFile() string {
	if n.health == nil {
		return ""
	}
	return filepath.Join(n.host.RunDir(), pageFile)
}

func (n *node) describePage() string {
	if n.health == nil {
		return ""
	}
	return n.health.page.Site() + "; its address with the token is in " + n.pageFile()
}

func (n *node) describeBus() string {
	line := n.bus.Control().URL()
	switch {
	case n.server == nil:
		line += ", joined"
	case n.localFile != "":
		line += ", its own; the token is in " + n.localFile
	default:
		line += ", its own"
	}
	if ns := n.space.Namespace(); ns != "default" {
		line += ", namespace " + ns
	}
	return line
}

// describePolicy describes the permitted programs.
func (n *node) describePolicy() string {
	if n.allowsUserPrograms() {
		return "hostd's built-in actors, and any program of this user"
	}
	programs := slices.Clone(n.allow)
	for _, c := range n.allowCommands {
		programs = append(programs, strings.Join(c, " "))
	}
	if len(programs) > 0 {
		return "hostd's built-in actors, and " + strings.Join(programs, ", ")
	}
	return "hostd's built-in actors (--allow PATH for more)"
}

// clientCommand returns the shortest command that reaches this host in the same environment. A
// variable or a NATS context may name another server.
func (n *node) clientCommand(getenv func(string) string) string {
	var args string
	if o, err := new(cli.Connection).Options(getenv); err != nil || o.URL != n.options.URL {
		args = " --server " + redactUserinfo(n.options.URL)
		if n.options.Fingerprint != "" {
			args += " --tls-fingerprint " + n.options.Fingerprint
		}
	}
	if ns := n.space.Namespace(); ns != "default" {
		args += " --namespace " + ns
	}
	return "castnet" + args + " hosts"
}

func (n *node) natsCommand() string {
	token := ""
	if n.localFile != "" && n.options.Token != "" {
		token = `NATS_TOKEN="$(jq -r .token ` + n.localFile + `)" `
	}
	authority := ""
	if n.authorityFile() != "" {
		authority = " --tlsca " + n.authorityFile()
	}
	return fmt.Sprintf("%snats --server %s%s sub '%s.v1.%s.ev.>'", token, n.bus.Control().URL(), authority,
		n.space.Root(), n.space.Namespace())
}

// isJoinable reports whether hostds of other machines reach the own server with its token.
func (n *node) isJoinable() bool {
	return n.server != nil && n.natsConfig == "" && !n.config.server.isLoopback()
}

// joinCommand returns the command of a hostd on another machine, or "". It holds no secret.
func (n *node) joinCommand() string {
	u, err := url.Parse(n.bus.Control().URL())
	if err != nil || !n.isJoinable() {
		return ""
	}
	u.Host = net.JoinHostPort(reachableName(n.config.server.host), u.Port())
	line := "hostd --nats " + u.String()
	if n.options.Fingerprint != "" {
		line += " --tls-fingerprint " + n.options.Fingerprint
	}
	if n.options.Token != "" {
		line += " --token-file token"
	} else {
		line += " --insecure"
	}
	return line
}

// describeToken returns how the file of the join command comes about, or "".
func (n *node) describeToken() string {
	switch {
	case !n.isJoinable() || n.options.Token == "":
		return ""
	case n.conn.TokenFile != "" && n.conn.TokenFile != "-":
		return "copy " + n.conn.TokenFile + " to that machine as the file token"
	case n.localFile != "":
		return "(umask 077; jq -r .token " + n.localFile + " > token) makes the file for that machine"
	}
	return "the token of this hostd, in the file token of that machine"
}

// reachableName returns the name of a listen address for other machines.
func reachableName(listen string) string {
	ip := net.ParseIP(listen)
	if ip == nil || !ip.IsUnspecified() {
		return listen
	}
	if all := machineAddresses(); len(all) > 0 {
		return all[0].String()
	}
	if name, err := os.Hostname(); err == nil {
		return name
	}
	return listen
}

// redactUserinfo removes passwords from URLs.
func redactUserinfo(urls string) string {
	parts := strings.Split(urls, ",")
	for i, raw := range parts {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil && u.User != nil {
			u.User = nil
			parts[i] = u.String()
		}
	}
	return strings.Join(parts, ",")
}
