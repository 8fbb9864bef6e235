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

// tlsFirst is a setting of contexts that has no variable.
const tlsFirst = "tlsfirst"

// contextURL is the server of a context that names none.
const contextURL = "nats://127.0.0.1:4222"

// contextFile is what castnet reads of a file that `nats context save` writes.
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

// context reads the NATS context that applies (CLI-2); without one, nothing is set.
func (c *Connection) context(getenv func(string) string) (settings, error) {
	dir := contextDir(getenv)
	name := c.contextName(getenv)
	if name == "" && first(c.Server, getenv("NATS_URL")) == "" {
		name = selectedContext(dir)
	}
	if name == "" {
		return nil, nil
	}
	f, err := readContext(dir, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		known := strings.Join(knownContexts(dir), ", ")
		return nil, Usagef("NATS context %q does not exist; there is %s", name, first(known, "none"))
	case err != nil:
		return nil, Usagef("NATS context %q: %w", name, err)
	case f.SocksProxy != "" && f.SocksProxy != "none":
		return nil, Usagef("NATS context %q goes through the proxy %s: want one that connects directly", name, f.SocksProxy)
	case f.NSC != "":
		return nil, Usagef("NATS context %q takes its credentials from nsc (%s): want one that names their file", name, f.NSC)
	}
	path := func(value string) string { return expand(getenv, value) }
	set := settings{
		"NATS_URL": first(f.URL, contextURL), "NATS_CREDS": path(f.Creds), "NATS_NKEY": path(f.NKey),
		"NATS_USER": f.User, "NATS_PASSWORD": f.Password, "NATS_TOKEN": f.Token,
		"NATS_JWT": f.UserJWT, "NATS_SEED": f.UserSeed, "NATS_CERT": path(f.Cert),
		"NATS_KEY": path(f.Key), "NATS_CA": path(f.CA), "NATS_INBOX_PREFIX": f.InboxPrefix,
	}
	if f.TLSFirst {
		set[tlsFirst] = "true"
	}
	return set, nil
}

// contextDir is where the nats command keeps its contexts.
func contextDir(getenv func(string) string) string {
	config := getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(getenv("HOME"), ".config")
	}
	return filepath.Join(config, "nats")
}

// selectedContext is the context that `nats context select` chose, or "".
func selectedContext(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "context.txt"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// readContext reads the file of a context. A name that would leave dir does not exist.
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

// knownContexts are the names of the contexts in dir.
func knownContexts(dir string) (names []string) {
	files, err := filepath.Glob(filepath.Join(dir, "context", "*.json"))
	if err != nil {
		return nil // dir holds a character that Glob takes for a pattern
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	slices.Sort(names)
	return names
}

// expand replaces $NAME and a leading ~ in the path of a file, as the nats command does.
func expand(getenv func(string) string, path string) string {
	path = os.Expand(path, getenv)
	if path == "~" || strings.HasPrefix(path, "~/") {
		return getenv("HOME") + path[1:]
	}
	return path
}
