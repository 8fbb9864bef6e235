package remote

import "net"

// FreePort is a port of this machine's loopback that nobody listens on, for libraries that have to
// be told one. Somebody else may take it before they do; then the measurement fails.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
