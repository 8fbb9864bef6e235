package cli

import (
	"slices"
	"strings"

	"github.com/castnet-io/castnet/bus"
)

// source looks up a setting under the name of its NATS_ variable. "" = unset.
type source = func(key string) string

// settings are the merged settings of several sources.
type settings map[string]string

func (s settings) get(key string) string { return s[key] }

// fingerprint is the variable of the TLS fingerprint, which the nats command does not have.
const fingerprint = "NATS_TLS_FINGERPRINT"

// whole are settings that come from one source together: a certificate with its key, and what the
// server's certificate is compared with.
var whole = [...][]string{{"NATS_CERT", "NATS_KEY"}, {"NATS_CA", fingerprint}}

// identities are the kinds of credentials, in order of preference within a source.
var identities = [...][]string{
	{"NATS_CREDS"}, {"NATS_NKEY"}, {"NATS_JWT", "NATS_SEED"}, {"NATS_USER", "NATS_PASSWORD"}, {"NATS_TOKEN"},
}

// resolve takes each setting from the first source with it, an identity and a certificate whole
// (CLI-1).
func resolve(sources ...source) settings {
	set := settings{}
	for _, key := range []string{"NATS_URL", "NATS_INBOX_PREFIX"} {
		set.setFrom(sources, key)
	}
	for _, keys := range whole {
		at := slices.IndexFunc(sources, func(s source) bool { return hasAny(s, keys...) })
		if at >= 0 {
			set.setFrom(sources[at:at+1], keys...)
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

// localServer returns the server of this machine's hostd if url is its URL (CLI-1). The scheme does
// not count: a server with TLS requires it of nats:// too.
func localServer(getenv source, url string) (l bus.LocalServer, is bool) {
	_, address, _ := strings.Cut(strings.TrimSuffix(url, "/"), "://")
	if address == "" {
		return l, false
	}
	path, err := bus.LocalFile(getenv)
	if err != nil {
		return l, false
	}
	l, err = bus.ReadLocal(path)
	_, its, _ := strings.Cut(l.URL, "://")
	return l, err == nil && address == its
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
