package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
)

// add40 spawns counters at 40 on each of the hosts, and adds 1 in each.
func add40(t *testing.T, s site, o bus.Options, hosts int) {
	t.Helper()
	counters, _ := spawnOn(t, s.connect(t, o), hosts)
	sum, err := cast.Reduce(testkit.Soon(t), counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 41*2*hosts, sum)
}

func TestHostd_encryptsItsServerForProgramsAndProcs_HOSTD15(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--tls", "--label", "a")
	require.True(t, strings.HasPrefix(d.ready.Bus, "tls://127.0.0.1:"), d.ready.Bus)
	l := s.readLocal(t)
	require.Equal(t, d.ready.Fingerprint, l.Fingerprint)
	require.NoError(t, bus.CheckFingerprint(l.Fingerprint))
	info, err := os.Stat(l.CAFile)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())

	add40(t, s, bus.Options{}, 1)
	s.start(t, "--nats", d.ready.Bus, "--label", "b").Stop(t) // by the local file

	for name, o := range map[string]bus.Options{
		"no fingerprint": {URL: l.URL, Token: l.Token},
		"another":        {URL: l.URL, Token: l.Token, Fingerprint: "sha256:" + strings.Repeat("00", 32)},
	} {
		_, err := bus.Open(testkit.Soon(t), o)
		require.Error(t, err, name)
	}
	b, err := bus.Open(testkit.Soon(t), bus.Options{URL: l.URL, Token: l.Token, CAFile: l.CAFile,
		ConnectTimeout: testkit.Patience})
	require.NoError(t, err, "programs that know no fingerprints, such as the nats command")
	require.NoError(t, b.Close(testkit.Soon(t)))
	d.Stop(t)
	s.requireClean(t)
}

func TestHostd_joinsByTheLineOfTheBanner_HOSTD15(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.start(t, "--tls", "--listen", "0.0.0.0:0", "--label", "a")
	require.NotContains(t, d.ready.Join, s.readLocal(t).Token)
	words := strings.Fields(d.ready.Join)
	require.Equal(t, []string{"hostd", "--nats", words[2], "--tls-fingerprint", d.ready.Fingerprint, "--token-file",
		"token"}, words)
	u, err := url.Parse(words[2])
	require.NoError(t, err)
	require.False(t, net.ParseIP(u.Hostname()).IsUnspecified())

	away := newSite(t) // as if on another machine
	require.NoError(t, os.WriteFile(filepath.Join(away.tmp, "token"), []byte(s.readLocal(t).Token), 0o600))
	joined := away.start(t, append(words[1:], "--label", "b")...)
	hosts, err := s.connect(t, bus.Options{}).AwaitHosts(testkit.Soon(t), 2)
	require.NoError(t, err)
	require.Equal(t, "host=2", hosts.Extent().String())
	add40(t, s, bus.Options{}, 2)
	words[4] = "sha256:" + strings.Repeat("00", 32)
	code, why := away.requireFailedStart(t, append(words[1:], "--label", "c")...)
	require.Equal(t, 6, code)
	require.Contains(t, why, "the server is not that of the TLS fingerprint")
	joined.Stop(t)
	d.Stop(t)
}

func TestHostd_bannerNamesTheFileOfTheToken(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("canary"), 0o600))
	for name, row := range map[string]struct {
		args []string
		want []string
	}{
		"a file":  {[]string{"--token-file", file}, []string{"copy " + file + " to that machine"}},
		"its own": {[]string{"--tls"}, []string{"jq -r .token ", "--tls-fingerprint sha256:"}},
	} {
		d := s.spawn(t, append(row.args, "--listen", "0.0.0.0:0", "--log-format", "console", "--label", "a")...)
		require.Eventually(t, func() bool { return strings.Contains(d.Err.String(), "hostd is ready.") },
			testkit.Patience, time.Millisecond)
		for _, want := range append(row.want, "  join   hostd --nats ", " --token-file token\n") {
			require.Contains(t, d.Err.String(), want, name)
		}
		require.NotContains(t, d.Err.String(), "canary")
		require.NotContains(t, d.Err.String(), s.readLocal(t).Token)
		d.Stop(t)
	}
}

func TestHostd_keepsItsFingerprintWithItsState_HOSTD15(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := filepath.Join(t.TempDir(), "state")
	first := s.start(t, "--tls", "--state-dir", dir, "--label", "a", "--listen", own)
	info, err := os.Stat(serverStateFile(dir))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm(), "it has the key")
	first.Stop(t)
	s.start(t, "--state-dir", dir, "--label", "a", "--listen", own).Stop(t) // without TLS
	again := s.start(t, "--tls", "--state-dir", dir, "--label", "a", "--listen", own)
	require.Equal(t, first.ready.Fingerprint, again.ready.Fingerprint)
	again.Stop(t)
	other := s.start(t, "--tls", "--label", "a")
	require.NotEqual(t, first.ready.Fingerprint, other.ready.Fingerprint)
	other.Stop(t)
}

// writeCertificate writes a certificate of the key for server and client, and the key.
func writeCertificate(t *testing.T, key *ecdsa.PrivateKey, dir string) (cert, keyFile string) {
	t.Helper()
	template := &x509.Certificate{NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"node.example"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return cert, keyFile
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func TestHostd_usesACertificateOfItsUserAndWantsThoseOfClients_HOSTD15(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cert, key := writeCertificate(t, newKey(t), t.TempDir())
	clientCert, clientKey := writeCertificate(t, newKey(t), t.TempDir())
	d := s.start(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", clientCert, "--tlscert", clientCert,
		"--tlskey", clientKey, "--label", "a")
	add40(t, s, bus.Options{}, 1)
	l := s.readLocal(t)
	_, err := bus.Open(testkit.Soon(t), bus.Options{URL: l.URL, Token: l.Token, Fingerprint: l.Fingerprint})
	require.Error(t, err, "the server wants a certificate of the client")
	_, err = bus.Open(testkit.Soon(t), bus.Options{URL: l.URL, Token: l.Token, Fingerprint: l.Fingerprint,
		CertFile: cert, KeyFile: key})
	require.Error(t, err, "from that authority")
	d.Stop(t)
	s.requireClean(t)
}

func TestCertificateFile_isReadAgainWithTheSameKey_HOSTD15(t *testing.T) {
	dir, key := t.TempDir(), newKey(t)
	cert, keyFile := writeCertificate(t, key, dir)
	var log strings.Builder
	s, err := filesTLS(cert, keyFile, zerolog.New(&log))
	require.NoError(t, err)
	shown := func() *x509.Certificate {
		c, err := s.settings.GetCertificate(nil)
		require.NoError(t, err)
		return c.Leaf
	}
	touch := func(hours time.Duration) {
		at := time.Now().Add(hours * time.Hour)
		require.NoError(t, os.Chtimes(cert, at, at))
	}
	first := shown()
	writeCertificate(t, key, dir)
	touch(1)
	renewed := shown()
	require.NotEqual(t, first.SerialNumber, renewed.SerialNumber)
	writeCertificate(t, newKey(t), dir)
	touch(2)
	require.Equal(t, renewed, shown())
	require.Contains(t, log.String(), "it has a new key")
	require.NoError(t, os.Remove(cert))
	require.Equal(t, renewed, shown())
}

func TestAuthority_renewsTheCertificateOfTheServer_HOSTD15(t *testing.T) {
	text, err := newAuthorityKey()
	require.NoError(t, err)
	a, err := newAuthority(text, "0.0.0.0")
	require.NoError(t, err)
	later, err := newAuthority(text, "0.0.0.0")
	require.NoError(t, err)
	require.Equal(t, a.fingerprint(), later.fingerprint())
	start := time.Now()
	roots := x509.NewCertPool()
	roots.AddCert(later.cert) // that of the next start
	at := func(after time.Duration) *tls.Certificate {
		c, err := a.certificateAt(start.Add(after))
		require.NoError(t, err)
		for _, name := range []string{"127.0.0.1", "::1", "localhost"} {
			_, err = c.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start.Add(after), DNSName: name})
			require.NoError(t, err)
		}
		return c
	}
	const day = 24 * time.Hour
	first := at(0)
	require.Same(t, first, at(14*day))
	last := first
	for years := 1; years < 9; years++ {
		next := at(time.Duration(years) * 365 * day)
		require.NotSame(t, last, next)
		last = next
	}
	_, err = first.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start.Add(-23 * time.Hour)})
	require.NoError(t, err, "the clock of a client may be behind")
}

func TestHostd_refusesContradictingTLS(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cert, key := writeCertificate(t, newKey(t), t.TempDir())
	for _, row := range []struct {
		code int
		why  string
		args []string
	}{
		{2, "want --tls, or --tls-cert with --tls-key, got both",
			[]string{"--tls", "--tls-cert", cert, "--tls-key", key}},
		{2, "--tls-cert and --tls-key go together", []string{"--tls-cert", cert}},
		{2, "want --tls or --tls-cert with it", []string{"--tls-client-ca", cert}},
		{2, "want a client certificate for hostd and its procs", []string{"--tls", "--tls-client-ca", cert}},
		{2, "want --tls-cert and --tls-key for its own server", []string{"--tlscert", cert, "--tlskey", key}},
		{2, "want TLS in ", []string{"--tls", "--nats-config", cert}},
		{2, "want them without --nats", []string{"--tls", "--nats", "nats://127.0.0.1:1"}},
		{2, "--tls and --tls-cert encrypt its own server", []string{"--tlsca", cert}},
		{1, "no such file", []string{"--tls-cert", "/nowhere", "--tls-key", key}},
		{1, "want a certificate in PEM",
			[]string{"--tls", "--tls-client-ca", key, "--tlscert", cert, "--tlskey", key}},
	} {
		code, why := s.requireFailedStart(t, row.args...)
		require.Contains(t, why, row.why)
		require.Equal(t, row.code, code, why)
	}
	s.requireClean(t)
}
