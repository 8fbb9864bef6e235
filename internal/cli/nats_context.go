package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tlsFirst is a context setting without a variable.
const tlsFirst = "tlsfirst"

// contextURL is the default server of a context.
const contextURL = "nats://127.0.0.1:4222"

// contextFile is the part of a `nats context save` file that castnet reads.
type contextFile struct {
	URL         string `json:"url"`
	SocksProxy  string `json:"socks_proxy"`
	Token       string `json:"token"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Creds       string `json:"creds"`
	NKey        string `json:"nkey"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	NSC         string `json:"nsc"`
	InboxPrefix string `json:"inbox_prefix"`
	UserJWT     string `json:"user_jwt"`
	UserSeed    string `json:"user_seed"`
	TLSFirst    bool   `json:"tls_first"`
}

// loadContext reads the selected NATS context (CLI-1), if any.
func (c *Connection) loadContext(getenv func(string) string) (settings, error) {
	dir := contextDir(getenv)
	name := c.contextName(getenv)
	if name == "" && firstNonEmpty(c.Server, getenv("NATS_URL")) == "" {
		name = selectedContext(dir)
	}
	if name == "" {
		return nil, nil
	}
	f, err := readContext(dir, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		known := strings.Join(knownContexts(dir), ", ")
		return nil, Usagef("NATS context %q does not exist; there is %s", name, firstNonEmpty(known, "none"))
	case err != nil:
		return nil, Usagef("NATS context %q: %w", name, err)
	case f.SocksProxy != "" && f.SocksProxy != "none":
		return nil, Usagef("NATS context %q goes through the proxy %s: want one that connects directly", name,
			f.SocksProxy)
	case f.NSC != "":
		return nil, Usagef("NATS context %q takes its credentials from nsc (%s): want one that names their file",
			name, f.NSC)
	}
	path := func(value string) string { return expandPath(getenv, value) }
	set := settings{
		"NATS_URL": firstNonEmpty(f.URL, contextURL), "NATS_CREDS": path(f.Creds), "NATS_NKEY": path(f.NKey),
		"NATS_USER": f.User, "NATS_PASSWORD": f.Password, "NATS_TOKEN": f.Token,
		"NATS_JWT": f.UserJWT, "NATS_SEED": f.UserSeed, "NATS_CERT": path(f.Cert),
		"NATS_KEY": path(f.Key), "NATS_CA": path(f.CA), "NATS_INBOX_PREFIX": f.InboxPrefix,
	}
	if f.TLSFirst {
		set[tlsFirst] = "true"
	}
	return set, nil
}

// contextDir returns the directory of the nats command's contexts.
func contextDir(getenv func(string) string) string {
	config := getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(getenv("HOME"), ".config")
	}
	return filepath.Join(config, "nats")
}

// selectedContext returns the context of `nats context select`, or "".
func selectedContext(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "context.txt"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// readContext reads a context file. A name that leads out of dir counts as unknown.
func readContext(dir, name string) (f contextFile, err error) {
	if strings.Contains(name, "..") || strings.ContainsAny(name, `/\`) {
		return f, fs.ErrNotExist
	}
	text, err := os.ReadFile(filepath.Join(dir, "context", name+".json"))
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f)
}

// knownContexts returns the names of the contexts in dir.
func knownContexts(dir string) (names []string) {
	files, err := filepath.Glob(filepath.Join(dir, "context", "*.json"))
	if err != nil {
		return nil // dir contains a Glob metacharacter
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	slices.Sort(names)
	return names
}

// expandPath expands $NAME and a leading ~ in a path, as the nats command does.
func expandPath(getenv func(string) string, path string) string {
	path = os.Expand(path, getenv)
	if path == "~" || strings.HasPrefix(path, "~/") {
		return getenv("HOME") + path[1:]
	}
	return path
}
