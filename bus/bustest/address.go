package bustest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/embed"
)

// Address is one address for servers that come and go. A port that a server has left may be taken
// by another process; an Address keeps its own.
type Address struct {
	listener net.Listener
	conns    sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	server string     // host:port; "": connections are closed at once
	open   map[net.Conn]bool
	closed bool
}

// NewAddress returns an address without a server. It closes with the test.
func NewAddress(t testing.TB) *Address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a := &Address{listener: l, open: map[net.Conn]bool{}}
	a.conns.Go(a.accept)
	t.Cleanup(a.close)
	return a
}

// URL returns the URL of the address.
func (a *Address) URL() string { return "nats://" + a.listener.Addr().String() }

// Serve forwards later connections to srv, which listens.
func (a *Address) Serve(srv *embed.Server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, a.server, _ = strings.Cut(srv.URL(), "://")
}

// Leave ends every connection, and closes later ones at once, until Serve.
func (a *Address) Leave() {
	a.mu.Lock()
	a.server = ""
	a.mu.Unlock()
	a.Cut()
}

// Stop ends the server of the address. A process that takes its port gets no connections.
func (a *Address) Stop(srv *embed.Server) {
	a.Leave()
	srv.Shutdown()
}

// accept forwards connections until the listener closes.
func (a *Address) accept() {
	for {
		c, err := a.listener.Accept()
		if err != nil {
			return
		}
		a.conns.Go(func() { a.forward(c) })
	}
}

// forward copies both ways until one side closes.
func (a *Address) forward(client net.Conn) {
	defer client.Close()
	a.mu.Lock()
	to := a.server
	a.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	if !a.track(client, server) {
		return
	}
	defer a.untrack(client, server)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		client.Close()
	})
	_, _ = io.Copy(server, client)
	server.Close()
	back.Wait()
}

func (a *Address) track(conns ...net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range conns {
		a.open[c] = true
	}
	return !a.closed
}

func (a *Address) untrack(conns ...net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range conns {
		delete(a.open, c)
	}
}

// Cut ends every connection. Clients can connect again.
func (a *Address) Cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.open {
		c.Close()
	}
}

// close ends every connection, and waits.
func (a *Address) close() {
	a.listener.Close()
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.Cut()
	a.conns.Wait()
}
