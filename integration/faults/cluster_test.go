package faults

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
)

// newCluster is a world with two servers, each on an address of its own. Each limit bounds one
// message at its server; 0 is the default.
func newCluster(t *testing.T, seed uint64, limit, otherLimit int) (w *world, other string) {
	t.Helper()
	dir, port := t.TempDir(), reservePort(t)
	w = newWorld(t, seed, serverConfig{MaxPayload: limit, ConfigFile: clusterFile(t, dir, "first", port, 0)})
	second, r := start(t, "server", "second", w.dir,
		serverConfig{MaxPayload: otherLimit, ConfigFile: clusterFile(t, dir, "second", 0, port)})
	w.others = append(w.others, second)
	u, err := url.Parse(r.URL)
	require.NoError(t, err)
	w.joined(u.Host)
	return w, u.Host
}

// joined waits until a message to the first server reaches those at another address.
func (w *world) joined(other string) {
	w.Helper()
	one := w.newWitness().Bus()
	w.addr, other = other, w.addr
	two := w.newWitness().Bus()
	w.addr = other
	const subject = "faults.joined"
	came := make(chan struct{}, 1)
	_, err := two.Data().Subscribe(subject, func(bus.Msg) {
		select {
		case came <- struct{}{}:
		default:
		}
	})
	require.NoError(w, err)
	require.Eventually(w, func() bool {
		require.NoError(w, one.Data().Publish(subject, nil))
		select {
		case <-came:
			return true
		case <-time.After(10 * time.Millisecond):
			return false
		}
	}, patience, time.Millisecond)
}

// reservePort returns a port of the loopback for servers of the test. It stays bound by a socket that
// does not listen, so the kernel gives it to no process that asks for any port.
func reservePort(t *testing.T) int {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(socket)) })
	require.NoError(t, syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	require.NoError(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := syscall.Getsockname(socket)
	require.NoError(t, err)
	return at.(*syscall.SockaddrInet4).Port
}

// clusterFile writes a server's configuration. The server accepts others on a port (0: any) and
// connects to another port (0: none). It does not advertise the other server to clients.
func clusterFile(t *testing.T, dir, name string, port, other int) string {
	t.Helper()
	routes, listen := "", fmt.Sprint(port)
	if port == 0 {
		listen = "-1"
	}
	if other != 0 {
		routes = fmt.Sprintf("routes: [nats-route://127.0.0.1:%d]", other)
	}
	text := fmt.Sprintf("server_name: %s\ncluster {\n name: faults\n listen: \"127.0.0.1:%s\"\n "+
		"no_advertise: true\n %s\n}\n", name, listen, routes)
	file := filepath.Join(dir, name+".conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
