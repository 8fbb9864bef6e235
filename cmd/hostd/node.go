package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/bus/signin"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/gateway"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// node holds the parts of a running hostd. close also works after a failed start.
type node struct {
	config
	server        *embed.Server // nil after a join
	options       bus.Options
	bus           *bus.Bus
	systemBus     *bus.Bus // in the system account; nil without --system-creds
	host          *host.Host
	gateway       *supervisor // nil if disabled
	serving       atomic.Pointer[gateway.Gateway]
	system        *supervisor // nil if disabled
	systemServing atomic.Pointer[system.Service]
	membership    *membership
	health        *healthServer          // nil without --http
	pendingReason atomic.Pointer[string] // why the start waits; nil: started
	hostStarted   chan struct{}          // closed at the start of the host
	stateMu       sync.Mutex             // guards the state file of the server, and revoked
	localFile     string                 // the file for other programs of this user; "" = none
}

// startNode starts all parts, or none (HOSTD-1).
func startNode(ctx context.Context, c config, getenv func(string) string, log zerolog.Logger) (*node, error) {
	n := &node{config: c, hostStarted: make(chan struct{})}
	if err := n.start(ctx, getenv, log); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *node) start(ctx context.Context, getenv func(string) string, log zerolog.Logger) error {
	local, err := n.startServer(ctx, getenv, log)
	if err != nil {
		return err
	}
	n.options = agent.WithBusDefaults(n.options, n.keys)
	o := n.options
	o.Name, o.Log = "hostd/"+n.label, log
	if n.server == nil { // on its own server it is the operator
		o, err = signin.As(o, n.space, subjects.User{Principal: subjects.Host.Principal(n.label)})
		if err != nil {
			return err
		}
	}
	n.bus, err = bus.Open(ctx, o)
	if err != nil {
		return err
	}
	if err := n.serveCredentials(); err != nil {
		return err
	}
	n.pendingReason.Store(new("starting"))
	if n.http != "" {
		n.health, err = serveHealth(ctx, n.http, n, log)
		if err != nil {
			return err
		}
	}
	if err := n.startSystem(ctx, log); err != nil {
		return err
	}
	if err := n.startGateway(ctx, log); err != nil {
		return err
	}
	if err := n.startHost(ctx, o); err != nil {
		return err
	}
	close(n.hostStarted)
	if err := n.writeAuthorityFile(); err != nil {
		return err
	}
	if local != "" {
		err = bus.WriteLocal(local, n.localServer())
		if err != nil {
			return err
		}
		n.localFile = local
	}
	if err := n.writePageFile(); err != nil {
		return err
	}
	if err := n.joinInvited(ctx, log); err != nil {
		return err
	}
	n.pendingReason.Store(nil)
	return n.joinWorld(ctx, log)
}

// startHost starts the host as the last part. From then on clients find the node and spawn on it.
func (n *node) startHost(ctx context.Context, o bus.Options) (err error) {
	n.host, err = host.Start(ctx, n.authenticateProcs(host.Options{
		Label: n.label, Bus: n.bus, Settings: agent.BusSettingsOf(n.options), Space: n.space, RunDir: n.runDir(),
		Allow: n.allow, AllowCommands: n.allowCommands, AllowUser: n.allowsUserPrograms(), ProcUser: n.procUser,
		ProcLimits: n.rlimits, Builtin: []string{"proc"}, Config: n.keys,
		Version: cli.Version(), ProcLogLevel: n.procLogLevel, Labels: n.labels, Log: o.Log,
		StateDir: n.stateDir, Subreaper: true, Tracer: n.tracer, Metrics: n.partMetrics,
	}))
	if err != nil {
		return err
	}
	n.host.SetGateway(func() (id subjects.ProcessID) {
		if g := n.serving.Load(); g != nil {
			id = g.Announced()
		}
		return id
	})
	if err := n.relayDisconnects(ctx, o); err != nil {
		return err
	}
	if n.server != nil && n.persistsServer() {
		n.stateMu.Lock()
		defer n.stateMu.Unlock()
		return n.config.server.saveState(n.stateDir, n.server.URL())
	}
	return nil
}

// startServer starts the server, unless the host joins one. It returns the path of the local file
// to write.
func (n *node) startServer(ctx context.Context, getenv func(string) string,
	log zerolog.Logger) (local string, err error) {
	if n.external != nil {
		n.options = *n.external
		return "", nil
	}
	local, err = localFilePath(getenv, n.isSeparate())
	if err != nil {
		return "", err
	}
	if n.persistsServer() {
		if err := n.config.server.loadState(n.stateDir); err != nil {
			return "", err
		}
	}
	n.config.server.tls, err = n.loadTLS(log)
	if err != nil {
		return "", err
	}
	n.server, n.options, err = startServer(ctx, n.config, getenv, log)
	return local, err
}

// localServer returns the record for other programs of this user.
func (n *node) localServer() bus.LocalServer {
	s := agent.BusSettingsOf(n.options) // with absolute paths
	return bus.LocalServer{
		URL: s.URL, Token: s.Token, PID: os.Getpid(),
		Fingerprint: s.Fingerprint, CAFile: n.authorityFile(), CertFile: s.CertFile, KeyFile: s.KeyFile,
	}
}

func (n *node) startGateway(ctx context.Context, log zerolog.Logger) (err error) {
	if !n.flags.gateway {
		return nil
	}
	o := gateway.Options{
		Label: n.label, Bus: &n.options, Root: n.space.Root(), Namespace: n.space.Namespace(),
		Version: cli.Version(), Config: n.keys, Tracer: n.tracer, Log: log,
	}
	start := func(ctx context.Context) (service, error) {
		g, err := gateway.Start(ctx, o)
		if err != nil {
			return nil, err // an untyped nil
		}
		n.serving.Store(g)
		return g, nil
	}
	n.gateway, err = supervise(ctx, "gateway", start, keys.HostdDrainTimeout.Get(n.keys), log)
	return err
}

// persistsServer reports whether to restore port and token of the server. A configuration file sets
// them itself.
func (c config) persistsServer() bool { return c.stateDir != "" && c.natsConfig == "" }

// allowsUserPrograms reports whether to permit all programs of the user: on a private server,
// without a narrower policy.
func (c config) allowsUserPrograms() bool {
	return c.isPrivate() && len(c.allow)+len(c.allowCommands) == 0
}

// runDir returns the directory for the output of procs; "": a temporary one.
func (c config) runDir() string {
	if c.logDir == "" && c.stateDir != "" {
		return filepath.Join(c.stateDir, "logs")
	}
	return c.logDir
}

// isSeparate reports whether the user can reach the server without the local file.
func (c config) isSeparate() bool {
	return c.natsConfig != "" || c.listen != "" && !c.server.tokenGenerated
}

// localFilePath returns where to write the local file. There is one path per user: a second server
// writes none, and must be separate (HOSTD-2).
func localFilePath(getenv func(string) string, apart bool) (string, error) {
	path, err := bus.LocalFile(getenv)
	if err != nil {
		return "", err
	}
	other, err := bus.ReadLocal(path)
	if err != nil { // absent or untrusted: the write will report that
		return path, nil
	}
	if apart {
		return "", nil
	}
	return "", fmt.Errorf("a hostd of this user is running (pid %d, %s): join it with --nats %s --label NAME, "+
		"or start a separate one with --listen and NATS_TOKEN",
		other.PID, other.URL, other.URL)
}

// leave ends all parts but the host and its connections, which end with the process: the procs of
// kept meshes stay for the next hostd, as after a kill. It ends the others first, within their
// grace.
func (n *node) leave(ctx context.Context, log zerolog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, keys.HostdDrainTimeout.Get(n.keys))
	defer cancel()
	if err := n.host.StopUnkept(ctx, "its host leaves"); err != nil {
		log.Warn().Err(err).Msg("procs that are not kept end with hostd")
	}
	if err := errors.Join(n.closeServices(ctx)...); err != nil {
		log.Warn().Err(err).Msg("cannot stop all parts cleanly")
	}
}

// closeServices ends what serves other programs: the local file, the gateway, the system
// controller.
func (n *node) closeServices(ctx context.Context) (errs []error) {
	if n.localFile != "" {
		errs = append(errs, bus.RemoveLocal(n.localFile, os.Getpid()))
	}
	if n.gateway != nil {
		errs = append(errs, n.gateway.close(ctx))
	}
	if n.system != nil {
		errs = append(errs, n.system.close(ctx))
	}
	return errs
}

// close ends all parts in order: local file, procs, connections, server.
func (n *node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), keys.HostdDrainTimeout.Get(n.keys))
	defer cancel()
	if n.membership != nil {
		n.membership.leave()
	}
	errs := n.closeServices(ctx)
	if n.host != nil {
		errs = append(errs, n.host.Close(ctx))
	}
	if n.health != nil { // until now it reports that the node is closing
		errs = append(errs, n.health.close(ctx))
	}
	if n.systemBus != nil {
		errs = append(errs, n.systemBus.Close(ctx))
	}
	if n.bus != nil {
		errs = append(errs, n.bus.Close(ctx))
	}
	if n.server != nil {
		n.server.Shutdown()
	}
	return errors.Join(errs...)
}
