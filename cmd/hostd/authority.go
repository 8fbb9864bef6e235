package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bus"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 30 * 24 * time.Hour
	// clockTolerance is how far the clock of a client may be behind.
	clockTolerance = 24 * time.Hour
)

// authority signs the certificates of hostd's own server (HOSTD-15). Its key is what clients know:
// each start makes its certificate again.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	host string // listen address of the server

	mu      sync.Mutex
	current *tls.Certificate
}

// newAuthorityKey returns a key in PEM, as the state file has it.
func newAuthorityKey() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

// newAuthority returns the authority with a key, for a server that listens on host.
func newAuthority(keyPEM, host string) (*authority, error) {
	block, _ := pem.Decode([]byte(keyPEM))
	if block == nil {
		return nil, errors.New("want a key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("want an ECDSA key")
	}
	a := &authority{key: key, host: host}
	template := certificateTemplate("castnet authority", time.Now(), authorityLifetime)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	return a, err
}

func certificateTemplate(name string, now time.Time, lifetime time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-clockTolerance),
		NotAfter:  now.Add(lifetime),
	}
}

// settings are those of the server. A handshake renews the certificate in the second half of its
// life, so the server can run for years.
func (a *authority) settings() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return a.certificateAt(time.Now())
		},
	}
}

// certificateAt returns the server's certificate at a time.
func (a *authority) certificateAt(now time.Time) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current != nil && now.Add(certificateLifetime/2).Before(a.current.Leaf.NotAfter) {
		return a.current, nil
	}
	next, err := a.sign(now)
	if err != nil {
		return nil, fmt.Errorf("cannot make the certificate of the server: %w", err)
	}
	a.current = next
	return next, nil
}

// sign makes a certificate with a new key for the names of this machine.
func (a *authority) sign(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificateTemplate("castnet hostd", now, certificateLifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames, template.IPAddresses = serverNames(a.host)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}, err
}

// serverNames returns the names by which clients reach a server: those of loopback and of the
// machine, and its listen address.
func serverNames(listen string) (names []string, addresses []net.IP) {
	names = []string{"localhost"}
	addresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if name, err := os.Hostname(); err == nil && name != "localhost" {
		names = append(names, name)
	}
	ip := net.ParseIP(listen)
	switch {
	case ip == nil && listen != "" && listen != "localhost":
		names = append(names, listen)
	case ip.IsUnspecified():
		addresses = append(addresses, machineAddresses()...)
	case ip != nil && !ip.IsLoopback():
		addresses = append(addresses, ip)
	}
	return names, addresses
}

// machineAddresses returns the addresses of this machine that others can reach.
func machineAddresses() (all []net.IP) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, addr := range found {
		if n, ok := addr.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			all = append(all, n.IP)
		}
	}
	return all
}

// pem returns the certificate for programs that know no fingerprints.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// fingerprint is what clients know of the authority.
func (a *authority) fingerprint() string { return bus.FingerprintOf(a.cert) }
