package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/signin"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/internal/logger"
	"github.com/castnet-io/castnet/subjects"
)

// maxConcurrentAsks bounds the concurrent requests to hosts or owners.
const maxConcurrentAsks = 512

// Options configure a connection. The zero value reads NATS_URL and related variables from the
// environment, and falls back to the hostd of this machine.
type Options struct {
	Bus       *bus.Options  // address and credentials of the bus; nil: bus.FromEnv
	Server    bus.InProcess // an embedded server in this process; Bus then gives the credentials only
	Root      string        // first token of every subject; "": castnet
	Namespace string        // "": default
	Label     string        // of this client's proc; "": client
	Name      string        // of the connections, before the ID of the proc; "": client
	// Principal is the first part of the sender of all messages, and names its role; zero: that of
	// the credentials, or u- and the name of the user that runs this process. Credentials for one
	// principal have precedence. A program that acts on hosts, or on meshes of others, is an
	// operator: UserPrincipal(subjects.Operator).
	Principal subjects.Principal
	Actors    []actor.Def // actor types that this process can run
	// The zero Logger: warnings and errors go to stderr. zerolog.Nop() is silent. Package slogger
	// makes one of a *slog.Logger.
	Log zerolog.Logger

	// OnFailure gets otherwise unhandled failures: of a parentless actor of the program, and of a
	// rank of a mesh that the program made and does not watch. It must not block; it may end the
	// process. nil: such a failure ends the Net (MESH-21).
	OnFailure func(actor.Event)

	// HostsQuiet ends a search for hosts after this long without a new answer; 0:
	// discovery.quiet-period. The search misses slower hosts.
	HostsQuiet time.Duration

	// Config is the configuration of this program, also pushed to the procs it spawns; nil: from
	// the environment.
	Config *config.Config

	// Tracer makes spans of the program's messages, casts and spawns; nil: none.
	Tracer actor.Tracer

	// Env is the environment of the procs that run this program, as KEY=value: see Env. The Env of
	// a mesh's Command has precedence.
	Env []string
}

// Net is a connection to a castnet, and the owner of the meshes made through it.
type Net struct {
	bus         *bus.Bus
	settings    agent.BusSettings // of the bus, for started hosts
	proc        *actor.Proc
	router      *cast.Router
	quiet       time.Duration
	config      *config.Config
	shared      bool // the proc belongs to an actor's program: Close does not close it
	feeds       feeds
	placements  *placementCache // shared by the Nets of the proc
	controllers *controllers
	logStreams  logStreams
	ctx         context.Context
	cancel      context.CancelCauseFunc
	contextEnd  sync.WaitGroup // of endWithProc
}

// UserPrincipal is the principal of the user that runs this process, in a role.
func UserPrincipal(role subjects.Role) subjects.Principal {
	who, err := user.Current()
	if err != nil {
		return subjects.UserPrincipal(role, "")
	}
	return subjects.UserPrincipal(role, who.Username)
}

// Connect joins a castnet as a client.
func Connect(ctx context.Context, o Options) (*Net, error) {
	space, err := subjects.NewSpace(o.Root, o.Namespace)
	if err != nil {
		return nil, err
	}
	o.Log = logger.OrStderr(o.Log)
	if o.Label == "" {
		o.Label = "client"
	}
	id, err := subjects.NewMeshID(o.Label)
	if err != nil {
		return nil, err
	}
	if o.Config == nil {
		o.Config = &config.Config{}
		if err := o.Config.LoadEnv(os.Getenv); err != nil {
			return nil, err
		}
	}
	own := Def()
	others := slices.DeleteFunc(slices.Clone(o.Actors), func(d actor.Def) bool { return d.Name() == own.Name() })
	registry, err := actor.NewRegistry(append(others, own)...)
	if err != nil {
		return nil, err
	}
	settings := o.busOptions()
	principal := signin.Speaker(settings, cmp.Or(o.Principal, UserPrincipal(subjects.Program)))
	signed, err := signin.As(settings, space,
		subjects.User{Principal: principal, Process: subjects.ProcID{Mesh: id}.Process()})
	if err != nil {
		return nil, err
	}
	signed.Name = cmp.Or(o.Name, "client") + "/" + id.String()
	n := &Net{
		settings: agent.BusSettingsOf(settings),
		quiet:    cmp.Or(o.HostsQuiet, config.DiscoveryQuietPeriod.Get(o.Config)),
		config:   o.Config,
	}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	n.bus, err = bus.Open(ctx, agent.WithBusDefaults(signed, o.Config))
	if err != nil {
		return nil, err
	}
	opts := actor.Options{
		ID: subjects.ProcID{Mesh: id}, Principal: principal, Bus: n.bus,
		Space: space, Registry: registry, Log: o.Log,
		Coordinator: o.OnFailure, Tracer: o.Tracer,
	}
	agent.ConfigureProc(&opts, o.Config)
	n.proc, err = actor.NewProc(ctx, opts)
	if err == nil {
		agent.SetConfig(n.proc, o.Config)
		agent.SetCommandEnv(n.proc, o.Env)
		n.placements = placementCacheOf(n.proc)
		n.controllers = newControllers(n.proc, o.OnFailure)
		n.contextEnd.Go(n.endWithProc)
		n.router, err = cast.Start(n.proc, nil)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	return n, nil
}

// NetOf returns a Net in the proc of an actor, for actors that make meshes. A mesh spawned with
// the Context of an actor belongs to the actor, and ends with it (MESH-2). The proc's program
// must have Def among its actors. The caller closes the Net, in its Cleanup at the latest.
func NetOf(ctx *actor.Context) *Net {
	p := ctx.Proc()
	c := agent.ConfigOf(p)
	n := &Net{
		bus:         p.Bus(),
		proc:        p,
		quiet:       config.DiscoveryQuietPeriod.Get(c),
		config:      c,
		placements:  placementCacheOf(p),
		controllers: newControllers(p, nil),
		shared:      true,
	}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	return n
}

// Def returns the actor definition that a program needs if its actors make meshes.
func Def() actor.Def { return controller.Def() }

// busOptions returns the options of the bus. It ignores the environment if the server is embedded.
func (o Options) busOptions() (b bus.Options) {
	if o.Bus != nil {
		b = *o.Bus
	} else if o.Server == nil {
		b = bus.FromEnv(os.Getenv)
	}
	b.Log = o.Log
	if o.Server != nil {
		b.Server = o.Server
		b.URL = ""
		b.Token = agent.BusSettingsOf(b).Token
	}
	return b
}

// Proc returns the client's own proc. It sends the program's messages, and runs its controllers.
func (n *Net) Proc() *actor.Proc { return n.proc }

// Config returns the configuration of the program. Changes apply to later spawns.
func (n *Net) Config() *config.Config { return n.config }

// Bus returns the client's connections.
func (n *Net) Bus() *bus.Bus { return n.bus }

// Close stops the meshes made through this Net and disconnects (MESH-2). Without a deadline it
// takes at most 30 s. A second call does nothing.
func (n *Net) Close(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx, actor.DefaultDeadline)
	defer cancel()
	var errs []error
	if n.controllers != nil {
		errs = append(errs, n.controllers.close(ctx))
	}
	n.logStreams.close(ctx)
	n.cancel(errNetClosed)
	n.contextEnd.Wait()
	if n.shared {
		return errors.Join(errs...)
	}
	if n.proc != nil {
		errs = append(errs, n.proc.Close(ctx))
	}
	if n.router != nil {
		n.router.Close()
	}
	return errors.Join(append(errs, n.bus.Close(ctx))...)
}

var errNoHostAnswers = errors.New("no host answers")

// Hosts finds the live hosts that accept procs, in the order of their labels. It skips cordoned,
// draining and leaving hosts; AllHosts returns them. If no host accepts procs, it returns an error.
func (n *Net) Hosts(ctx context.Context) (HostMesh, error) {
	all, err := n.AllHosts(ctx)
	if err != nil {
		return HostMesh{}, err
	}
	open, closed := all.Schedulable()
	if len(open.hosts) == 0 {
		return HostMesh{}, &UnschedulableError{Hosts: closed}
	}
	return open, nil
}

// AllHosts finds every live host, in the order of their labels, whether it accepts procs or not. If
// there is none, it returns an error.
func (n *Net) AllHosts(ctx context.Context) (HostMesh, error) {
	h, err := n.findHosts(ctx)
	if err == nil && len(h.hosts) == 0 {
		err = noHostsError(n)
		if len(h.unconfirmed) > 0 {
			err = &UnschedulableError{Hosts: h.unconfirmed}
		}
	}
	if err != nil {
		return HostMesh{}, err
	}
	return h, nil
}

// findHosts is AllHosts, and returns an empty mesh if there is no host.
func (n *Net) findHosts(ctx context.Context) (HostMesh, error) {
	infos, silent, err := n.searchHosts(ctx)
	var failed map[subjects.HostID]error
	if err == nil && ctx.Err() == nil {
		infos, failed = agent.ConfirmHosts(ctx, n.proc, infos)
	}
	h := n.hostMesh(infos)
	leaveOut := func(id subjects.HostID, reason string) {
		h.unconfirmed = append(h.unconfirmed, agent.HostInfo{
			ID: id, Label: id.Label(), Mode: agent.ModeUnconfirmed, ModeReason: reason,
		})
	}
	for id, err := range failed {
		leaveOut(id, err.Error())
	}
	for _, id := range silent {
		leaveOut(id, "a gateway knows it, and it does not answer")
	}
	return h, err
}

// noHostsError is the error of an empty search for hosts.
func noHostsError(n *Net) error {
	return fmt.Errorf("%w on %s in %s: start a hostd there",
		errNoHostAnswers, n.bus.Control().URL(), n.proc.Space())
}

// searchHosts returns the answers to a search for hosts, in whatever names, and the known hosts
// that did not answer.
func (n *Net) searchHosts(
	ctx context.Context,
) (found []agent.HostInfo, silent []subjects.HostID, err error) {
	if err := n.endCause(); err != nil {
		return nil, nil, err
	}
	return agent.DiscoverListedHosts(ctx, n.bus, n.proc.Space(), n.quiet)
}

// AwaitHosts is Hosts once at least this many exist and accept procs. It searches again until ctx
// ends.
func (n *Net) AwaitHosts(ctx context.Context, atLeast int) (HostMesh, error) {
	ctx, cancel := withTimeout(ctx, actor.DefaultDeadline)
	defer cancel()
	seen := 0      // the most hosts in one search
	found := 0     // the hosts of that search that accept procs
	var last error // why there are no more
	for {
		all, err := n.findHosts(ctx)
		open, closed := all.Schedulable()
		switch {
		case n.endCause() != nil:
			return HostMesh{}, n.endCause()
		case err == nil && len(open.hosts) >= atLeast:
			return open, nil
		case len(all.hosts) >= seen && (err == nil || len(all.hosts) > 0): // ctx may end during a search
			seen = len(all.hosts)
			found = len(open.hosts)
			last = nil
			if len(closed) > 0 {
				last = &UnschedulableError{Hosts: closed}
			}
		case err != nil && ctx.Err() == nil:
			last = err
		}
		select {
		case <-time.After(n.quiet):
		case <-n.ctx.Done():
		case <-ctx.Done():
			err := fmt.Errorf("%d of %d hosts answer on %s: %w", found, atLeast, n.bus.Control().URL(), ctx.Err())
			return HostMesh{}, errors.Join(err, last)
		}
	}
}

// Meshes lists the proc meshes known to live hosts, worlds included, with the state of every rank.
// Their owners may be other programs.
func (n *Net) Meshes(ctx context.Context) ([]MeshState, error) {
	hosts, err := n.AllHosts(ctx)
	if err != nil {
		return nil, err
	}
	var ids []subjects.HostID
	for _, h := range hosts.Infos() {
		ids = append(ids, h.ID)
	}
	return n.meshesOnPresent(ctx, ids)
}

// meshesOnPresent is MeshesOn, and passes over hosts that have left.
func (n *Net) meshesOnPresent(ctx context.Context, hosts []subjects.HostID) ([]MeshState, error) {
	asked, errs := n.askStates(ctx, hosts)
	if err := n.ignoreLeft(errs); err != nil {
		return nil, err
	}
	return n.assembleMeshes(hosts, asked, errs)
}

// ignoreLeft clears the errors of hosts that have left, or stop, since a search found them. If the
// Net has ended, the errors are its own, and ignoreLeft returns its end.
func (n *Net) ignoreLeft(errs []error) error {
	for i, err := range errs {
		if isUnreachable(err) {
			errs[i] = nil
		}
	}
	return n.endCause()
}

// MeshesOn is Meshes of some hosts. One that does not answer is an error.
func (n *Net) MeshesOn(ctx context.Context, hosts []subjects.HostID) ([]MeshState, error) {
	asked, errs := n.askStates(ctx, hosts)
	return n.assembleMeshes(hosts, asked, errs)
}

// assembleMeshes makes meshes of the states that hosts reported.
func (n *Net) assembleMeshes(hosts []subjects.HostID, asked [][]agent.State,
	errs []error) ([]MeshState, error) {
	found := meshAssembly{net: n, byID: map[string]*assembledMesh{}}
	for i, h := range hosts {
		if errs[i] != nil {
			return nil, fmt.Errorf("cannot list the procs of host %s: %w", h.Label(), errs[i])
		}
		if err := found.addHost(h, asked[i]); err != nil {
			return nil, err
		}
	}
	return found.all(), nil
}

// askStates asks hosts for all their procs. Results are by host.
func (n *Net) askStates(ctx context.Context, hosts []subjects.HostID) ([][]agent.State, []error) {
	asked := make([][]agent.State, len(hosts))
	errs := make([]error, len(hosts))
	fanout.Each(maxConcurrentAsks, hosts, func(i int, h subjects.HostID) {
		ctx, cancel := withTimeout(ctx, config.ProcQueryTimeout.Get(n.config))
		defer cancel()
		asked[i], errs[i] = repeatBroken(ctx, func(ctx context.Context) ([]agent.State, error) {
			return agent.Get.Call(ctx, agent.Of(h.Proc()).Via(n.proc), agent.GetRequest{})
		})
	})
	return asked, errs
}
