package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast/gateway"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
)

// node is what hostd runs. close ends what there is of it, so it serves a half-started one, too.
type node struct {
	config
	server  *embed.Server // nil when it joined
	options bus.Options
	bus     *bus.Bus
	admin   *bus.Bus // in the system account; nil without --system-creds
	host    *host.Host
	gateway *upkeep // nil when it is turned off
	system  *upkeep // nil when it is turned off
	member  *membership
	health  *health                // nil when nobody wants it
	pending atomic.Pointer[string] // what the start waits for; nil: the node has started
	found   chan struct{}          // closed when the host has started
	runDir  string
	scratch bool   // the run directory is ours to remove
	local   string // the file for other programs of this user; "" = none written
}

// startNode starts everything, or nothing (HOSTD-1).
func startNode(ctx context.Context, c config, getenv func(string) string, log zerolog.Logger) (*node, error) {
	n := &node{config: c, found: make(chan struct{})}
	if err := n.start(ctx, getenv, log); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *node) start(ctx context.Context, getenv func(string) string, log zerolog.Logger) error {
	local, err := n.serve(ctx, getenv, log)
	if err != nil {
		return err
	}
	n.options = agent.Reach(n.options, n.keys)
	o := n.options
	o.Name, o.Log = "hostd/"+n.label, log
	if n.bus, err = bus.Open(ctx, o); err != nil {
		return err
	}
	if err := n.makeRunDir(); err != nil {
		return err
	}
	n.pending.Store(new("starting"))
	if n.http != "" {
		if n.health, err = serveHealth(ctx, n.http, n); err != nil {
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
	close(n.found)
	if local != "" {
		err = bus.WriteLocal(local, bus.Local{URL: n.options.URL, Token: n.options.Token, PID: os.Getpid()})
		if err != nil {
			return err
		}
		n.local = local
	}
	n.pending.Store(nil)
	return n.joinWorld(ctx, log)
}

// startHost starts the host, with everything else running: from here on others find the node and spawn on it.
func (n *node) startHost(ctx context.Context, o bus.Options) (err error) {
	n.host, err = host.Start(ctx, host.Options{
		Label: n.label, Bus: n.bus, Settings: agent.SettingsOf(n.options), Space: n.space, Dir: n.runDir,
		Allow: n.allow, AllowUser: n.anyOfUser(), Builtin: []string{"proc"}, Config: n.keys,
		Version: cli.Version(), Level: n.procs, Labels: n.labels, Log: o.Log, StateDir: n.stateDir, Subreaper: true,
	})
	if err != nil {
		return err
	}
	if err := n.relay(ctx, o); err != nil {
		return err
	}
	if n.server != nil && n.recalls() {
		return n.config.server.remember(n.stateDir, n.server.URL())
	}
	return nil
}

// serve starts the server, unless the host joins one, and says which file is to name it for other programs.
func (n *node) serve(ctx context.Context, getenv func(string) string, log zerolog.Logger) (local string, err error) {
	if n.join != nil {
		n.options = *n.join
		return "", nil
	}
	if local, err = localPath(getenv, n.apart()); err != nil {
		return "", err
	}
	if n.recalls() {
		if err := n.config.server.recall(n.stateDir); err != nil {
			return "", err
		}
	}
	n.server, n.options, err = startServer(ctx, n.config, getenv, log)
	return local, err
}

func (n *node) startGateway(ctx context.Context, log zerolog.Logger) (err error) {
	if !n.flags.gateway {
		return nil
	}
	o := gateway.Options{
		Label: n.label, Bus: &n.options, Root: n.space.Root(), Namespace: n.space.Namespace(), Version: cli.Version(), Config: n.keys, Log: log,
	}
	start := func(ctx context.Context) (service, error) {
		g, err := gateway.Start(ctx, o)
		if err != nil {
			return nil, err // and no pointer to nothing
		}
		return g, nil
	}
	n.gateway, err = keepUp(ctx, "gateway", start, keys.HostdDrain.Get(n.keys), log)
	return err
}

// recalls reports whether the server is to be found again where it was: a file says where it is itself.
func (c config) recalls() bool { return c.stateDir != "" && c.natsConfig == "" }

// anyOfUser is the policy where nobody else could ask, and nothing narrower was said.
func (c config) anyOfUser() bool { return c.private() && len(c.allow) == 0 }

// makeRunDir makes the directory for the output of procs.
func (n *node) makeRunDir() (err error) {
	if n.logDir == "" && n.stateDir != "" {
		n.logDir = filepath.Join(n.stateDir, "logs")
	}
	if n.logDir == "" {
		n.runDir, err = os.MkdirTemp("", "castnet-"+n.label+"-")
		n.scratch = err == nil
	} else if n.runDir, err = filepath.Abs(n.logDir); err == nil {
		err = os.MkdirAll(n.runDir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("directory for the output of procs: %w", err)
	}
	return nil
}

// apart reports whether its user knows how to reach the server without being told.
func (c config) apart() bool { return c.natsConfig != "" || c.listen != "" && !c.server.drawn }

// localPath is where to leave word of the server for other programs of this user. There is one
// place: a second server leaves none, which only one that is apart can do without (HOSTD-2).
func localPath(getenv func(string) string, apart bool) (string, error) {
	path, err := bus.LocalFile(getenv)
	if err != nil {
		return "", err
	}
	other, err := bus.ReadLocal(path)
	switch {
	case err != nil: // none, or none that can be trusted: writing it will tell
		return path, nil
	case apart:
		return "", nil
	}
	return "", fmt.Errorf("a hostd of this user runs here already (pid %d, %s): join it with --nats %s --label NAME, or start one apart with --listen and NATS_TOKEN",
		other.PID, other.URL, other.URL)
}

// close ends everything in the order in which others stop relying on it: they no longer find the
// server, then the procs end, then the connections, then the server.
func (n *node) close() error {
	var errs []error
	if n.local != "" {
		errs = append(errs, bus.RemoveLocal(n.local, os.Getpid()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), keys.HostdDrain.Get(n.keys))
	defer cancel()
	if n.member != nil {
		n.member.leave()
	}
	if n.gateway != nil {
		errs = append(errs, n.gateway.close(ctx))
	}
	if n.system != nil {
		errs = append(errs, n.system.close(ctx))
	}
	if n.host != nil {
		errs = append(errs, n.host.Close(ctx))
	}
	if n.health != nil { // until now it has told that the node is going
		errs = append(errs, n.health.close())
	}
	if n.admin != nil {
		errs = append(errs, n.admin.Close(ctx))
	}
	if n.bus != nil {
		errs = append(errs, n.bus.Close(ctx))
	}
	if n.server != nil {
		n.server.Shutdown()
	}
	if n.scratch {
		errs = append(errs, os.RemoveAll(n.runDir))
	}
	return errors.Join(errs...)
}
