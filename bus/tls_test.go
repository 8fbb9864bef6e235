package bus_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
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
