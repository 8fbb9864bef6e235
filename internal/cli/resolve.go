package cli

import (
	"strings"

	"github.com/castnet-io/castnet/bus"
)

// source is a place that settings come from: the value of a NATS_ variable, or of what stands
// for it there; "" = not said.
type source = func(key string) string

// settings is a source that has been read.
type settings map[string]string

func (s settings) get(key string) string { return s[key] }

// identities are the ways to say who connects, in the order in which one source prefers them.
var identities = [...][]string{
	{"NATS_CREDS"}, {"NATS_NKEY"}, {"NATS_JWT", "NATS_SEED"}, {"NATS_USER", "NATS_PASSWORD"}, {"NATS_TOKEN"},
}

// resolve takes each setting from the first source that has it, an identity and a certificate
// whole (CLI-3).
func resolve(sources ...source) settings {
	set := settings{}
	for _, key := range []string{"NATS_URL", "NATS_CA", "NATS_INBOX_PREFIX"} {
		set.take(sources, key)
	}
	for i, s := range sources {
		if says(s, "NATS_CERT", "NATS_KEY") {
			set.take(sources[i:], "NATS_CERT", "NATS_KEY")
			break
		}
	}
	for i, s := range sources {
		for _, keys := range identities {
			if says(s, keys...) {
				set.take(sources[i:], keys...)
				return set
			}
		}
	}
	return set
}

// take sets each key from the first source that has it.
func (s settings) take(sources []source, keys ...string) {
	for _, key := range keys {
		for _, from := range sources {
			s[key] = first(s[key], from(key))
		}
	}
}

func says(s source, keys ...string) bool {
	for _, key := range keys {
		if s(key) != "" {
			return true
		}
	}
	return false
}

func hasIdentity(s source) bool {
	for _, keys := range identities {
		if says(s, keys...) {
			return true
		}
	}
	return false
}

// localToken is the token of this machine's hostd if url is its URL (CLI-4).
func localToken(getenv source, url string) string {
	if url == "" {
		return ""
	}
	path, err := bus.LocalFile(getenv)
	if err != nil {
		return ""
	}
	local, err := bus.ReadLocal(path)
	if err != nil || strings.TrimSuffix(url, "/") != local.URL {
		return ""
	}
	return local.Token
}

// first is the first string that says something.
func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
