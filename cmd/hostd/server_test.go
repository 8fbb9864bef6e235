package main

import (
	"net"
	"os"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// Several hostds start at the same time, each with a server: one on the default port, the others on
// free ones.
func TestServer_concurrentStartsOnOnePortAllSucceed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c := config{server: serverConfig{host: "127.0.0.1", port: l.Addr().(*net.TCPAddr).Port, token: "t"}}
	urls, errs := make([]string, 8), make([]error, 8)
	var all sync.WaitGroup
	for i := range urls {
		all.Go(func() {
			srv, o, err := startServer(t.Context(), c, os.Getenv, zerolog.Nop())
			if errs[i] = err; err == nil {
				t.Cleanup(srv.Shutdown)
				urls[i] = o.URL
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for i, url := range urls {
		require.NoError(t, errs[i])
		require.False(t, seen[url], url)
		seen[url] = true
	}
}
