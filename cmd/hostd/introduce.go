package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/internal/cli"
)

// introduce says what runs and how to get at it: a paragraph for a person, one line for a machine.
func (n *node) introduce(stderr io.Writer, log zerolog.Logger, getenv func(string) string) {
	bus, client, nats := n.busLine(), n.clientLine(getenv), n.natsLine()
	if !n.console(stderr) {
		log.Info().Str("version", cli.Version()).Stringer("host", n.host.ID()).Str("bus", n.bus.Control().URL()).
			Bool("embedded", n.server != nil).Str("local_file", n.local).Str("namespace", n.space.Namespace()).
			Str("run_dir", n.runDir).Str("allow", n.policy()).Str("connect", client).Str("http", n.probes()).
			Str("labels", labelLine(n.labels)).Msg("hostd is ready")
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "hostd %s\n\n", cli.Version())
	for _, line := range [][2]string{
		{"host", n.host.ID().String()}, {"labels", labelLine(n.labels)}, {"bus", bus}, {"logs", n.runDir}, {"runs", n.policy()},
		{"probes", n.probes()}, {"try", client}, {"watch", nats},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "  %-6s %s\n", line[0], line[1])
		}
	}
	b.WriteString("\nCtrl-C drains and stops.\n\n")
	fmt.Fprint(stderr, b.String())
}

// probes is where health is told; "" is nowhere.
func (n *node) probes() string {
	if n.health == nil {
		return ""
	}
	return n.health.url + "/readyz"
}

func (n *node) busLine() string {
	line := n.bus.Control().URL()
	switch {
	case n.server == nil:
		line += ", joined"
	case n.local != "":
		line += ", its own; the token is in " + n.local
	default:
		line += ", its own"
	}
	if ns := n.space.Namespace(); ns != "default" {
		line += ", namespace " + ns
	}
	return line
}

// policy is what may run, in words.
func (n *node) policy() string {
	switch {
	case n.anyOfUser():
		return "hostd's built-in actors, and any program of this user"
	case len(n.allow) > 0:
		return "hostd's built-in actors, and " + strings.Join(n.allow, ", ")
	}
	return "hostd's built-in actors (--allow PATH for more)"
}

// clientLine is the shortest command that finds this host in an environment like this one: a
// variable or a NATS context may lead elsewhere.
func (n *node) clientLine(getenv func(string) string) string {
	var args string
	if o, err := new(cli.Connection).Options(getenv); err != nil || o.URL != n.options.URL {
		args = " --server " + withoutUserinfo(n.options.URL)
	}
	if ns := n.space.Namespace(); ns != "default" {
		args += " --namespace " + ns
	}
	return "client" + args + " hosts"
}

func (n *node) natsLine() string {
	token := ""
	if n.local != "" && n.options.Token != "" {
		token = ` --token "$(jq -r .token ` + n.local + `)"`
	}
	return fmt.Sprintf("nats --server %s%s sub '%s.v1.%s.ev.>'", n.bus.Control().URL(), token, n.space.Root(), n.space.Namespace())
}

// withoutUserinfo keeps passwords off the screen.
func withoutUserinfo(urls string) string {
	parts := strings.Split(urls, ",")
	for i, raw := range parts {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil && u.User != nil {
			u.User = nil
			parts[i] = u.String()
		}
	}
	return strings.Join(parts, ",")
}
