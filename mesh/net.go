package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/logger"
	"github.com/castnet-io/castnet/subjects"
)

// maxConcurrentAsks is how many hosts, or owners, are asked at a time.
const maxConcurrentAsks = 32

// Options configure a connection. The zero value reads NATS_URL and related variables from the
// environment, and falls back to the hostd of this machine.
type Options struct {
	Bus       *bus.Options   // how to reach the bus; nil: bus.FromEnv
	Server    bus.InProcess  // an embedded server in this process: Bus, if any, has no more to say than who comes
	Root      string         // first token of every subject; "" = castnet
	Namespace string         // "" = default
	Label     string         // names this client; "" = client
	Name      string         // of its connections, for the server to show, before the ID of its proc; "" = client
	Actors    []actor.Def    // actor types this process itself can run
	Log       zerolog.Logger // the zero Logger: warnings and errors go to stderr; zerolog.Nop() is silent

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
}

// Net is a connection to a castnet, and the owner of the meshes made through it.
type Net struct {
	bus           *bus.Bus
	settings      agent.BusSettings // the same bus for others
	proc          *actor.Proc
	router        *cast.Router
	quiet         time.Duration
	config        *config.Config
	shared        bool // in a proc that somebody else has: Close leaves that alone
	feeds         feeds
	placements    *placementCache // of the proc
	watchedMeshes *watchedMeshes  // the same

	onFailure  func(actor.Event)
	ctx        context.Context
	cancel     context.CancelCauseFunc
	contextEnd sync.WaitGroup // until ctx has ended

	mu       sync.Mutex
	owned    []ownedController // what was made, in order
	presence *presence.Watcher // of hosts; nil: no mesh was made yet
	closed   bool
}

// ownedController is the controller of a mesh, ended by the Net.
type ownedController struct {
	controller  string       // its name
	released    *atomic.Bool // its mesh is another's
	hosts       *agent.Mesh  // a mesh of hosts, once it has them
	preexisting bool         // they were there before
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
	registry, err := actor.NewRegistry(append([]actor.Def{controller.Def()}, o.Actors...)...)
	if err != nil {
		return nil, err
	}
	settings := o.busOptions()
	settings.Name = cmp.Or(o.Name, "client") + "/" + id.String()
	n := &Net{
		settings: agent.BusSettingsOf(settings), quiet: cmp.Or(o.HostsQuiet, config.DiscoveryQuietPeriod.Get(o.Config)),
		config: o.Config, onFailure: o.OnFailure,
	}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	if n.bus, err = bus.Open(ctx, agent.WithBusDefaults(settings, o.Config)); err != nil {
		return nil, err
	}
	opts := actor.Options{
		ID: subjects.ProcID{Mesh: id}, Bus: n.bus, Space: space, Registry: registry, Log: o.Log,
		Coordinator: o.OnFailure,
	}
	agent.ConfigureProc(&opts, o.Config)
	n.proc, err = actor.NewProc(ctx, opts)
	if err == nil {
		agent.SetConfig(n.proc, o.Config)
		n.placements, n.watchedMeshes = placementCacheOf(n.proc), watchedMeshesOf(n.proc)
		n.contextEnd.Go(n.endWithProc)
		n.router, err = cast.Start(n.proc, nil)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	return n, nil
}

// NetOf is a Net in the proc of an actor, for actors that make meshes. A mesh spawned with the
// Context of an actor belongs to it, and ends with it (MESH-13). The proc's program must have Def
// among its actors. The caller closes the Net, in its Cleanup at the latest.
func NetOf(ctx *actor.Context) *Net {
	p := ctx.Proc()
	c := agent.ConfigOf(p)
	n := &Net{
		bus: p.Bus(), proc: p, quiet: config.DiscoveryQuietPeriod.Get(c), config: c, placements: placementCacheOf(p), watchedMeshes: watchedMeshesOf(p),
		shared: true,
	}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	return n
}

// Def is the definition needed by a program whose actors make meshes.
func Def() actor.Def { return controller.Def() }

// busOptions say how to reach the bus. The environment is about another one than a server in this process.
func (o Options) busOptions() (b bus.Options) {
	switch {
	case o.Bus != nil:
		b = *o.Bus
	case o.Server == nil:
		b = bus.FromEnv(os.Getenv)
	}
	if b.Log = o.Log; o.Server != nil {
		b.Server, b.URL = o.Server, ""
		b.Token = agent.BusSettingsOf(b).Token
	}
	return b
}

// Proc is the client's own proc: it speaks for the program, and runs its controllers.
func (n *Net) Proc() *actor.Proc { return n.proc }

// Config is the configuration of the program. Changes apply to later spawns.
func (n *Net) Config() *config.Config { return n.config }

// Bus is the client's connections.
func (n *Net) Bus() *bus.Bus { return n.bus }

// Close stops the meshes made through this Net and disconnects (MESH-2). Without a deadline it
// takes at most 30 s. A second call does nothing.
func (n *Net) Close(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx, actor.DefaultDeadline)
	defer cancel()
	var errs []error
	if n.proc != nil {
		errs = append(errs, n.stopOwned(ctx))
	}
	n.mu.Lock()
	watcher := n.presence
	n.presence, n.closed = nil, true
	n.mu.Unlock()
	if watcher != nil {
		watcher.Close()
	}
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

const programDone = "its program is done"

// stopOwned ends the resources of this Net, newest first: actors before their procs, and procs
// before their hosts.
func (n *Net) stopOwned(ctx context.Context) error {
	n.mu.Lock()
	all := n.owned
	n.owned = nil
	n.mu.Unlock()
	var errs []error
	for _, o := range slices.Backward(all) {
		n.watchedMeshes.remove(o.controller)
		if o.hosts != nil {
			errs = append(errs, n.stopHosts(ctx, o, programDone))
		}
		n.stopController(ctx, o.controller, programDone)
	}
	return errors.Join(errs...)
}

// stopController stops a controller, and with it its mesh, and waits for it.
func (n *Net) stopController(ctx context.Context, name, reason string) {
	if done := n.proc.StopActor(name, reason); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

var errNoHostAnswers = errors.New("no host answers")

// Hosts finds the live hosts that take procs, in the order of their labels. It skips cordoned,
// draining and leaving hosts; AllHosts returns them. The absence of such a host is an error.
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

// AllHosts finds every live host, in the order of their labels, whether it takes procs or not. No host is an error.
func (n *Net) AllHosts(ctx context.Context) (HostMesh, error) {
	infos, err := n.liveHosts(ctx)
	if err != nil {
		return HostMesh{}, err
	}
	if len(infos) == 0 {
		return HostMesh{}, n.noHostsError()
	}
	return n.hostMesh(infos), nil
}

// noHostsError is the error of an empty search for hosts.
func (n *Net) noHostsError() error {
	return fmt.Errorf("%w on %s in %s: start a hostd there", errNoHostAnswers, n.bus.Control().URL(), n.proc.Space())
}

// liveHosts returns the infos of the answering hosts.
func (n *Net) liveHosts(ctx context.Context) ([]agent.HostInfo, error) {
	if err := n.endCause(); err != nil {
		return nil, err
	}
	return agent.DiscoverListedHosts(ctx, n.bus, n.proc.Space(), n.quiet)
}

// AwaitHosts is Hosts once at least this many exist and take procs; it searches again until ctx
// ends.
func (n *Net) AwaitHosts(ctx context.Context, atLeast int) (HostMesh, error) {
	ctx, cancel := withTimeout(ctx, actor.DefaultDeadline)
	defer cancel()
	seen, found := 0, 0 // hosts of the fullest look, and those of them that take procs
	var last error      // why there are no more
	for {
		infos, err := n.liveHosts(ctx)
		open, closed := n.hostMesh(infos).Schedulable()
		switch {
		case n.endCause() != nil:
			return HostMesh{}, n.endCause()
		case err == nil && len(open.hosts) >= atLeast:
			return open, nil
		case len(infos) >= seen && (err == nil || len(infos) > 0): // ctx may end in the middle of a look
			seen, found, last = len(infos), len(open.hosts), nil
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
	return n.MeshesOn(ctx, ids)
}

// MeshesOn is Meshes of some hosts. A silent host is an error.
func (n *Net) MeshesOn(ctx context.Context, hosts []subjects.HostID) ([]MeshState, error) {
	found := meshAssembly{net: n, byID: map[string]*assembledMesh{}}
	asked, errs := n.askStates(ctx, hosts)
	for i, h := range hosts {
		if errs[i] != nil {
			return nil, fmt.Errorf("ask host %s for its procs: %w", h.Label(), errs[i])
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
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentAsks)
	for i, h := range hosts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := withTimeout(ctx, config.ProcStateIdle.Get(n.config))
			defer cancel()
			asked[i], errs[i] = agent.Get.Call(ctx, agent.Of(h.Proc()).Via(n.proc), agent.GetRequest{})
		})
	}
	wg.Wait()
	return asked, errs
}
