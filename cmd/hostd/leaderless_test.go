package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
)

// cluster is three servers with JetStream. A test starts any number of them.
type cluster struct {
	at      [3]string // an address of its own on loopback for each
	servers [3]*embed.Server
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{}
	for i := range c.at {
		c.at[i] = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			if s != nil {
				s.Shutdown()
			}
		}
	})
	return c
}

// serve starts a server of the cluster.
func (c *cluster) serve(t *testing.T, i int) *embed.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	text := fmt.Sprintf("server_name: s%d\nlisten: \"%s:4222\"\njetstream { store_dir: %q }\nauthorization { "+
		"token: t }\n"+
		"cluster { name: c, listen: \"%[2]s:6222\", routes: [\"nats://%[4]s:6222\", \"nats://%[5]s:6222\", "+
		"\"nats://%[6]s:6222\"] }\n",
		i, c.at[i], t.TempDir(), c.at[0], c.at[1], c.at[2])
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	s, err := embed.Start(testkit.Soon(t), embed.Options{ConfigFile: file})
	require.NoError(t, err)
	c.servers[i] = s
	return s
}

// One of three servers runs, as after a power cut: JetStream has no leader.
func TestHostd_awaitsJetStreamBeforeItIsDiscoverable_HOSTD1(t *testing.T) {
	t.Parallel()
	s, c := newSite(t, "NATS_TOKEN=t"), newCluster(t)
	srv := c.serve(t, 0)
	probes := c.at[0] + ":8222"
	d := s.spawn(t, "--nats", srv.URL(), "--system", "--label", "a", "--http", probes)
	d.await(t, "waiting for JetStream")
	d.ready.HTTP = "http://" + probes
	status, now := probeHTTP(t, d, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, now.Reason, "waiting for JetStream")
	status, _ = probeHTTP(t, d, "/healthz")
	require.Equal(t, http.StatusOK, status)
	b, err := bus.Open(testkit.Soon(t), bus.Options{URL: srv.URL(), Token: "t", ConnectTimeout: testkit.Patience})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(testkit.Soon(t))) }()
	found := bus.Msg{Subject: "$SRV.PING.castnet-host"}
	_, err = b.Control().Request(testkit.Soon(t), found)
	require.ErrorIs(t, err, bus.ErrNoResponders, "a host that has not started is found")

	c.serve(t, 1)
	c.serve(t, 2)
	d.await(t, "hostd is ready")
	_, err = b.Control().Request(testkit.Soon(t), found)
	require.NoError(t, err)
	status, _ = probeHTTP(t, d, "/readyz")
	require.Equal(t, http.StatusOK, status)
	d.Stop(t)
	s.requireClean(t)
}

func TestHostd_stopsAtOnceWhileItAwaitsJetStream_HOSTD1(t *testing.T) {
	t.Parallel()
	srv := newCluster(t).serve(t, 0)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "NATS_TOKEN=t")
			d := s.spawn(t, "--nats", srv.URL(), "--system", "--label", "a")
			d.await(t, "waiting for JetStream")
			asked := time.Now()
			d.Send(t, sig)
			require.Equal(t, cli.ExitInterrupted, d.Exit(t), d.Err.String())
			require.Less(t, time.Since(asked), 4*time.Second, "less than one try takes")
			s.requireClean(t)
		})
	}
}
