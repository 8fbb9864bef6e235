package testmesh

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// HostsQuiet is the clients' wait for further hosts, longer than a busy machine delays a host.
const HostsQuiet = 500 * time.Millisecond

// Cluster is a server with hosts and a client.
type Cluster struct {
	*mesh.Net // a client
	Server    *embed.Server

	hosts []subjects.HostID // started by Start
}

// Option configures Start.
type Option func(*starting)

type starting struct {
	server []func(*embed.Options)
	labels []string
	host   []func(*host.Options)
	client []func(*mesh.Options) // of the first client
}

// Hosts starts a host for each label.
func Hosts(labels ...string) Option { return func(s *starting) { s.labels = labels } }

// Server changes the options of the server.
func Server(change func(*embed.Options)) Option {
	return func(s *starting) { s.server = append(s.server, change) }
}

// JetStream gives the server a store.
func JetStream() Option { return Server(func(o *embed.Options) { o.JetStream = true }) }

// InMemory lets nothing listen, so that the cluster works in a bubble of testing/synctest. Its
// hosts run their procs themselves.
func InMemory() Option { return Server(func(o *embed.Options) { o.DontListen = true }) }

// ByOperator makes the first client one of an operator.
func ByOperator() Option { return func(s *starting) { s.client = append(s.client, Operator) } }

// HostOptions changes the options of every host that Start starts.
func HostOptions(change func(*host.Options)) Option {
	return func(s *starting) { s.host = append(s.host, change) }
}

// Start starts a cluster that ends with the test. The server requires a token.
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	s := starting{server: []func(*embed.Options){func(o *embed.Options) {
		o.DontListen,
			o.Token = false, "secret"
	}}}
	for _, o := range options {
		o(&s)
	}
	c := &Cluster{Server: bustest.Server(t, s.server...)}
	for _, label := range s.labels {
		h, _ := c.Host(t, label, s.host...)
		c.hosts = append(c.hosts, h.ID())
	}
	c.Net = c.Connect(t, s.client...)
	return c
}

// BusOptions returns the options of a connection to the server.
func (c *Cluster) BusOptions(t testing.TB) bus.Options { return busOptions(t, c.Server) }

func busOptions(t testing.TB, srv *embed.Server) bus.Options {
	o := bus.Options{
		URL: srv.URL(), Token: srv.Token(), Log: testkit.Log(t), ConnectTimeout: testkit.Patience,
	}
	if o.URL == "" {
		o.Server = srv
	}
	return o
}

// Settings returns the bus settings for procs.
func (c *Cluster) Settings() agent.BusSettings {
	return agent.BusSettings{URL: c.Server.URL(), Token: c.Server.Token()}
}

// Open opens a new connection.
func (c *Cluster) Open(t testing.TB) *bus.Bus {
	t.Helper()
	return bustest.Open(t, c.Server, func(o *bus.Options) { *o = c.BusOptions(t) })
}

func (c *Cluster) open(t testing.TB, name string) *bus.Bus {
	t.Helper()
	o := c.BusOptions(t)
	o.Name = name
	b, err := bus.Open(t.Context(), o)
	require.NoError(t, err)
	return b
}

// Host starts one more host with its own connection. It permits programs of this user.
func (c *Cluster) Host(t testing.TB, label string,
	change ...func(*host.Options)) (h *host.Host, stop func()) {
	t.Helper()
	b := c.open(t, "host/"+label)
	o := host.Options{Label: label, Bus: b, Settings: c.Settings(), Log: testkit.Log(t), AllowUser: true}
	for _, f := range change {
		f(&o)
	}
	h, err := host.Start(t.Context(), o)
	require.NoError(t, err)
	return h, testkit.Close(t, h.Close, b.Close)
}

// Connect connects one more client.
func (c *Cluster) Connect(t testing.TB, change ...func(*mesh.Options)) *mesh.Net {
	t.Helper()
	conn, _ := c.Client(t, change...)
	return conn
}

// Client connects a client and returns a function that closes it early.
func (c *Cluster) Client(t testing.TB, change ...func(*mesh.Options)) (conn *mesh.Net, leave func()) {
	t.Helper()
	return connect(t, c.Server, change)
}

// Connect connects a client to a server without Cluster.
func Connect(t testing.TB, srv *embed.Server, change ...func(*mesh.Options)) *mesh.Net {
	t.Helper()
	conn, _ := connect(t, srv, change)
	return conn
}

func connect(t testing.TB, srv *embed.Server, change []func(*mesh.Options)) (conn *mesh.Net, leave func()) {
	t.Helper()
	b := busOptions(t, srv)
	o := mesh.Options{
		Bus: &b, Log: testkit.Log(t), HostsQuiet: HostsQuiet,
		OnFailure: func(actor.Event) {}, // tests end ranks on purpose; the log shows them
	}
	for _, f := range change {
		f(&o)
	}
	conn, err := mesh.Connect(t.Context(), o)
	require.NoError(t, err)
	return conn, testkit.Close(t, conn.Close)
}

// Operator makes a client one of a person, who also acts on hosts and on the meshes of others.
func Operator(o *mesh.Options) { o.Principal = mesh.UserPrincipal(subjects.Operator) }

// As returns the cluster from the view of another client.
func (c *Cluster) As(conn *mesh.Net) *Cluster { return &Cluster{conn, c.Server, c.hosts} }

// System starts a system controller and waits until clients find it.
func (c *Cluster) System(t testing.TB, label string, change ...func(*system.Options)) *system.Service {
	t.Helper()
	b := c.open(t, "system/"+label)
	o := system.Options{Bus: b, Label: label, Log: testkit.Log(t)}
	for _, f := range change {
		f(&o)
	}
	s, err := system.Start(t.Context(), o)
	require.NoError(t, err)
	testkit.Close(t, s.Close, b.Close)
	require.Eventually(t, func() bool {
		_, err := system.Find(t.Context(), c.Proc())
		return err == nil
	}, testkit.Patience, 20*time.Millisecond)
	return s
}

// HostInWorld starts a host that joins a world under a rank. leave removes it from the world and
// stops it.
func (c *Cluster) HostInWorld(t testing.TB, label, world string, rank int) (leave func()) {
	t.Helper()
	h, stop := c.Host(t, label)
	info, err := h.Info(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan struct{})
	go func() {
		defer close(left)
		joining := system.JoinRequest{
			World: world, Host: &system.HostJoin{ID: h.ID(), Rank: rank, Incarnation: info.Incarnation()},
		}
		system.KeepJoined(ctx, h.Proc(), joining, func(system.JoinResponse, error) {})
	}()
	return testkit.Close(t, func(context.Context) error {
		cancel()
		<-left
		stop()
		return nil
	})
}

// AllHosts returns the mesh of all hosts that Start started. It searches for no others, which would
// take HostsQuiet.
func (c *Cluster) AllHosts(t testing.TB, conn *mesh.Net) mesh.HostMesh {
	t.Helper()
	hosts, err := conn.Attach(t.Context(), "hosts", c.hosts...)
	require.NoError(t, err)
	return hosts
}

// PIDs returns the live processes of a mesh by rank, as reported by its hosts.
func PIDs(t testing.TB, conn *mesh.Net, mesh string) map[int]int {
	t.Helper()
	all, err := conn.Meshes(t.Context())
	require.NoError(t, err)
	pids := map[int]int{}
	for _, m := range all {
		for _, s := range m.States {
			if s.ID == mesh && s.Proc != nil && !s.Status.Phase.Terminal() {
				pids[s.Rank] = s.Proc.PID
			}
		}
	}
	return pids
}
