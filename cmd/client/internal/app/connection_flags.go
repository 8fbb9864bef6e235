package app

import (
	"net/url"
	"strings"

	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/subjects"
)

// ConnectionFlags repeats the connection flags of this command. Secrets are left to the
// environment.
func (a *App) ConnectionFlags() []string {
	c := a.Conn
	var flags []string
	for _, f := range []struct{ name, value string }{
		{"--server", redactPassword(c.Server)}, {"--context", c.Context}, {"--creds", c.Creds}, {"--nkey", c.NKey},
		{"--user", c.User}, {"--tlscert", c.TLSCert}, {"--tlskey", c.TLSKey}, {"--tlsca", c.TLSCA},
	} {
		if f.value != "" {
			flags = append(flags, f.name, text.ShellQuote(f.value))
		}
	}
	for _, f := range []struct{ name, value, variable string }{
		{"--password", c.Password, "NATS_PASSWORD"}, {"--token", c.Token, "NATS_TOKEN"},
	} {
		if f.value != "" {
			flags = append(flags, f.name, `"$`+f.variable+`"`)
		}
	}
	if c.Namespace != subjects.DefaultNamespace {
		flags = append(flags, "--namespace", c.Namespace)
	}
	return flags
}

// redactPassword removes passwords from a list of URLs.
func redactPassword(servers string) string {
	parts := strings.Split(servers, ",")
	for i, p := range parts {
		if u, err := url.Parse(p); err == nil && u.User != nil {
			u.User = nil
			parts[i] = u.String()
		}
	}
	return strings.Join(parts, ",")
}

// NatsPrefix returns the nats command with the connection flags of this command. `castnet env`
// supplies settings without flag or variable.
func (a *App) NatsPrefix() string {
	if !a.Conn.IsConfigured(a.Getenv) {
		return `eval "$(castnet env)" && nats`
	}
	flags := a.ConnectionFlags()
	if a.Conn.Namespace != subjects.DefaultNamespace {
		flags = flags[:len(flags)-2] // part of the subject
	}
	return strings.Join(append([]string{"nats"}, flags...), " ")
}
