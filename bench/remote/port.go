package remote

import "net"

// FreePort returns a free loopback port, for libraries that need one in advance. Another process
// may take it before them; then the measurement fails.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
