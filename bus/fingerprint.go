package bus

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// fingerprintHash begins a fingerprint with the name of its hash.
const fingerprintHash = "sha256:"

var (
	errForeignServer = errors.New("its certificates have other keys")
	errNoTLS         = errors.New("it offers no TLS")
)

// FingerprintOf returns the fingerprint of a certificate's public key, for Options.Fingerprint. It
// outlives the certificate, because the next one of an authority has the same key.
func FingerprintOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return fingerprintHash + hex.EncodeToString(sum[:])
}

// CheckFingerprint refuses a text that FingerprintOf cannot return.
func CheckFingerprint(text string) error {
	digits, ok := strings.CutPrefix(text, fingerprintHash)
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size || digits != strings.ToLower(digits) {
		return fmt.Errorf("fingerprint %q: want %s and %d hexadecimal digits in lower case", text, fingerprintHash,
			hex.EncodedLen(sha256.Size))
	}
	return nil
}

// pinTo returns the settings of a client that trusts one key. The client does not compare the
// server's name: only holders of the key can make the chain.
func pinTo(fingerprint string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // in favor of VerifyConnection
		VerifyConnection: func(s tls.ConnectionState) error {
			return verifyChain(s.PeerCertificates, fingerprint)
		},
	}
}

// isUntrusted reports whether the client refused the certificate of the server.
func isUntrusted(err error) bool {
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	return invalid || unknown || errors.Is(err, errForeignServer)
}

// verifyChain checks that the server's certificate is valid now, is for servers, and comes from the
// key with the fingerprint.
func verifyChain(chain []*x509.Certificate, fingerprint string) error {
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	found := false
	for _, cert := range chain {
		if FingerprintOf(cert) == fingerprint {
			roots.AddCert(cert)
			found = true
		} else {
			others.AddCert(cert)
		}
	}
	if !found {
		return fmt.Errorf("%w: want the fingerprint %s", errForeignServer, fingerprint)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: others})
	return err
}
