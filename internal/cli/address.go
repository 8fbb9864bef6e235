package cli

import (
	"errors"
	"net"
)

// LoopbackAddress reads the address of a listener: HOST:PORT, or :PORT on loopback.
func LoopbackAddress(said string) (string, error) {
	host, port, err := net.SplitHostPort(said)
	if err != nil {
		return "", errors.New("want HOST:PORT or :PORT, such as :8222")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// ListenerAddress returns the address by which people reach a listener: the host as said, and the
// port that it got.
func ListenerAddress(said string, l net.Listener) string {
	host, _, err := net.SplitHostPort(said)
	_, port, got := net.SplitHostPort(l.Addr().String())
	if err != nil || got != nil {
		return l.Addr().String()
	}
	return net.JoinHostPort(host, port)
}
