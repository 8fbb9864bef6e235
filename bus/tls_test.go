package bus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

// certificate writes a self-signed certificate and its key, good for server,
// client and authority alike.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "castnet test"},
		NotAfter:              time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	write := func(name, kind string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
}

func TestTLS_filesApplyOnBothSides(t *testing.T) {
	cert, key := certificate(t)
	srv := listen(t, embed.Options{ConfigFile: config(t, fmt.Sprintf(
		"tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }", cert, key, cert))})
	b := open(t, bus.Options{URL: srv.URL(), CAFile: cert, CertFile: cert, KeyFile: key})
	require.NoError(t, b.Control().Flush(testkit.Soon(t)))

	_, err := bus.Open(testkit.Soon(t), bus.Options{URL: srv.URL(), CAFile: cert})
	var failed *bus.ConnectError
	require.ErrorAs(t, err, &failed, "the server wants a certificate")
	_, err = bus.Open(testkit.Soon(t), bus.Options{URL: srv.URL(), CertFile: cert, KeyFile: key})
	require.ErrorContains(t, err, "certificate signed by unknown authority")
}

// issuer signs certificates of servers.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "issuer"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &issuer{cert, key}
}

// settings returns those of a server with a certificate for another name, until a time. The server
// shows the certificates of the issuers besides.
func (i *issuer) settings(t testing.TB, until time.Time, shown ...*issuer) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{NotAfter: until, DNSNames: []string{"elsewhere.example"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, &key.PublicKey, i.key)
	require.NoError(t, err)
	chain := [][]byte{der}
	for _, s := range shown {
		chain = append(chain, s.cert.Raw)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: chain, PrivateKey: key}}}
}

func TestFingerprint_onlyAChainFromThatKeyIsTrusted_BUS4(t *testing.T) {
	mine, other := newIssuer(t), newIssuer(t)
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	fingerprint := bus.FingerprintOf(mine.cert)
	for name, row := range map[string]struct {
		settings *tls.Config
		refusal  string
	}{
		"right":                               {mine.settings(t, soon, mine), ""},
		"right, after others":                 {mine.settings(t, soon, other, mine), ""},
		"expired":                             {mine.settings(t, past, mine), "certificate has expired"},
		"of another":                          {other.settings(t, soon, other), "want the fingerprint " + fingerprint},
		"of another that shows the right one": {other.settings(t, soon, other, mine), "unknown authority"},
		"without its authority":               {mine.settings(t, soon), "want the fingerprint " + fingerprint},
		"without TLS":                         {nil, "it offers no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := listen(t, embed.Options{TLS: row.settings, Token: "t"})
			o := bus.Options{URL: srv.URL(), Token: "t", Fingerprint: fingerprint}
			if row.refusal == "" {
				require.NoError(t, open(t, o).Data().Flush(testkit.Soon(t)))
				return
			}
			_, err := bus.Open(testkit.Soon(t), o)
			var failed *bus.ConnectError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, bus.WrongServer, failed.Reason, err)
			require.ErrorContains(t, err, row.refusal)
		})
	}
}

func TestFingerprint_impostorIsRefusedOnReconnect_BUS4(t *testing.T) {
	mine, other := newIssuer(t), newIssuer(t)
	soon := time.Now().Add(time.Hour)
	at := bustest.NewAddress(t)
	first := listenAt(t, at, embed.Options{TLS: mine.settings(t, soon, mine)})
	onState, heard := states()
	b := open(t, bus.Options{URL: at.URL(), Fingerprint: bus.FingerprintOf(mine.cert), OnState: onState})
	at.Stop(first)
	awaitState(t, heard, bus.DataConn, bus.Disconnected)
	impostor := listenAt(t, at, embed.Options{TLS: other.settings(t, soon, other)})
	require.Never(t, func() bool { return impostor.NumClients() > 0 && b.Data().Flush(t.Context()) == nil },
		500*time.Millisecond, 10*time.Millisecond)
	listenAt(t, at, embed.Options{TLS: mine.settings(t, soon, mine)})
	awaitState(t, heard, bus.DataConn, bus.Reconnected)
	require.NoError(t, b.Data().Flush(testkit.Soon(t)))
}

func TestFingerprint_goesWithACertificateOfTheClient(t *testing.T) {
	mine := newIssuer(t)
	cert, key := certificate(t)
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(text))
	settings := mine.settings(t, time.Now().Add(time.Hour), mine)
	settings.ClientCAs = pool
	srv := listen(t, embed.Options{TLS: settings})
	o := bus.Options{URL: srv.URL(), Fingerprint: bus.FingerprintOf(mine.cert)}
	_, err = bus.Open(testkit.Soon(t), o)
	require.Error(t, err, "the server wants a certificate")
	o.CertFile, o.KeyFile = cert, key
	require.NoError(t, open(t, o).Control().Flush(testkit.Soon(t)))
}

func TestFingerprint_mustBeOne(t *testing.T) {
	good := bus.FingerprintOf(newIssuer(t).cert)
	require.NoError(t, bus.CheckFingerprint(good))
	for _, text := range []string{"x", "sha256:", good[7:], good + "00", strings.ToUpper(good), "sha1:" + good[7:],
		"sha256:" + strings.Repeat("zz", 32), " " + good} {
		require.ErrorContains(t, bus.CheckFingerprint(text), "want sha256:", text)
		_, err := bus.Open(t.Context(), bus.Options{Fingerprint: text})
		require.ErrorContains(t, err, "bad options", text)
	}
}
