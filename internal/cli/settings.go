package cli

import (
	"strings"

	"github.com/castnet-io/castnet/bus"
)

// source looks up a setting under the name of its NATS_ variable. "" = unset.
type source = func(key string) string

// settings are the merged settings of several sources.
type settings map[string]string

func (s settings) get(key string) string { return s[key] }

// identities are the kinds of credentials, in order of preference within a source.
var identities = [...][]string{
	{"NATS_CREDS"}, {"NATS_NKEY"}, {"NATS_JWT", "NATS_SEED"}, {"NATS_USER", "NATS_PASSWORD"}, {"NATS_TOKEN"},
}

// resolve takes each setting from the first source with it, an identity and a certificate whole
// (CLI-1).
func resolve(sources ...source) settings {
	set := settings{}
	for _, key := range []string{"NATS_URL", "NATS_CA", "NATS_INBOX_PREFIX"} {
		set.setFrom(sources, key)
	}
	for i, s := range sources {
		if hasAny(s, "NATS_CERT", "NATS_KEY") {
			set.setFrom(sources[i:], "NATS_CERT", "NATS_KEY")
			break
		}
	}
	for i, s := range sources {
		for _, keys := range identities {
			if hasAny(s, keys...) {
				set.setFrom(sources[i:], keys...)
				return set
			}
		}
	}
	return set
}

// setFrom sets each key from the first source with it.
func (s settings) setFrom(sources []source, keys ...string) {
	for _, key := range keys {
		for _, from := range sources {
			s[key] = firstNonEmpty(s[key], from(key))
		}
	}
}

func hasAny(s source, keys ...string) bool {
	for _, key := range keys {
		if s(key) != "" {
			return true
		}
	}
	return false
}

func hasIdentity(s source) bool {
	for _, keys := range identities {
		if hasAny(s, keys...) {
			return true
		}
	}
	return false
}

// localToken returns the token of this machine's hostd if url is its URL (CLI-1).
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

// firstNonEmpty returns the first non-empty string.
func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
