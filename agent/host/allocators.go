package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/signin"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// LocalHosts allocates hosts in this process, each with its own connections. The options apply to
// all. Each label is Label with a number. Bus is not used.
type LocalHosts Options

// ForClient adds the caller's configuration, and its bus unless another one is set.
func (o LocalHosts) ForClient(c agent.AllocatorClient) (agent.Allocator, error) {
	own, err := Options(o).forClient(c)
	return LocalHosts(own), err
}

// Allocate starts a host for each rank, all at once.
func (o LocalHosts) Allocate(ctx context.Context, e shape.Extent) (agent.Allocation, error) {
	return startHosts(ctx, Options(o), e, startLocalHost, func() error { return nil })
}

// ProcessHosts allocates hosts as OS processes of this program, or of Options.Command. The main of
// either calls Main first. They end with the program. The options apply to all. Each label is Label
// with a number. Bus is used to ping the hosts.
type ProcessHosts Options

// ForClient adds the caller's configuration, and its bus unless another one is set.
func (o ProcessHosts) ForClient(c agent.AllocatorClient) (agent.Allocator, error) {
	own, err := Options(o).forClient(c)
	return ProcessHosts(own), err
}

// Allocate launches a host process for each rank and waits until all answer.
func (o ProcessHosts) Allocate(ctx context.Context, e shape.Extent) (agent.Allocation, error) {
	if o.Bus == nil {
		return nil, errors.New("start host processes: want a bus")
	}
	program := o.Command
	if program.Path == "" {
		exe, err := os.Executable()
		if err == nil {
			exe, err = filepath.EvalSymlinks(exe)
		}
		if err != nil {
			return nil, fmt.Errorf("start host processes: cannot find its own binary: %w", err)
		}
		program.Path = exe
	}
	if o.RunDir == "" {
		o.RunDir = os.TempDir()
	}
	launcher := launch.New(launch.Options{Log: o.Log})
	return startHosts(ctx, Options(o), e, func(ctx context.Context, o Options) (startedHost, error) {
		return startHostProcess(ctx, launcher, program, o)
	}, launcher.Close)
}

func (o Options) forClient(c agent.AllocatorClient) (Options, error) {
	if o.Settings == (agent.BusSettings{}) {
		o.Settings, o.Space = c.Bus, c.Space
	}
	o.Maker = c.Sender
	var err error
	o.Config, _, err = o.Config.WithClient(c.Config)
	return o, err
}

// maxHosts bounds the hosts that one program starts.
const maxHosts = 1024

// startHosts starts a host for each rank of an extent. Function shared closes what they share.
func startHosts(ctx context.Context, o Options, e shape.Extent,
	start func(context.Context, Options) (startedHost, error), shared func() error) (agent.Allocation, error) {
	if err := e.Err(); err != nil {
		return nil, errors.Join(err, shared())
	}
	n := e.NumRanks()
	if n < 1 || n > maxHosts {
		return nil, errors.Join(fmt.Errorf("start %d hosts for %s: want 1 to %d", n, e, maxHosts), shared())
	}
	a := &allocation{hosts: make([]startedHost, n), shared: shared}
	errs := make([]error, n)
	fanout.Each(n, a.hosts, func(k int, _ startedHost) {
		o := o
		o.Label = fmt.Sprintf("%s%d", o.Label, k)
		a.hosts[k], errs[k] = start(ctx, o)
	})
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, a.Close(context.WithoutCancel(ctx)))
	}
	return a, nil
}

// startedHost is the ID of a host with the function that stops it.
type startedHost struct {
	id    subjects.HostID
	close func(context.Context) error // nil: it did not start
}

// allocation holds hosts started by this program.
type allocation struct {
	hosts  []startedHost
	shared func() error

	mu     sync.Mutex // held by Close
	closed bool
}

func (a *allocation) Hosts() (ids []subjects.HostID) {
	for _, h := range a.hosts {
		ids = append(ids, h.id)
	}
	return ids
}

// Close stops the hosts with their procs. A second call retries after a failure.
func (a *allocation) Close(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	errs := make([]error, len(a.hosts))
	fanout.Each(maxHosts, a.hosts, func(k int, h startedHost) {
		if h.close != nil {
			errs[k] = h.close(ctx)
		}
	})
	err := errors.Join(append(errs, a.shared())...)
	a.closed = err == nil
	return err
}

// startLocalHost starts one host with its own bus.
func startLocalHost(ctx context.Context, o Options) (startedHost, error) {
	var err error
	o.Bus, err = o.openBus(ctx, "host/"+o.Label, subjects.User{Principal: subjects.Host.Principal(o.Label)})
	if err != nil {
		return startedHost{}, fmt.Errorf("start host %s: %w", o.Label, err)
	}
	if o.RunDir != "" {
		o.RunDir = filepath.Join(o.RunDir, o.Label)
	}
	h, err := Start(ctx, o)
	if err != nil {
		return startedHost{}, errors.Join(err, o.Bus.Close(context.WithoutCancel(ctx)))
	}
	return startedHost{h.ID(), func(ctx context.Context) error {
		return errors.Join(h.Close(ctx), o.Bus.Close(ctx))
	}}, nil
}

// hostStartTimeout bounds the start of a host process, up to its first answer.
const hostStartTimeout = 20 * time.Second

// startHostProcess launches one host and waits until it answers.
func startHostProcess(
	ctx context.Context, l *launch.Launcher, program agent.Command, o Options,
) (startedHost, error) {
	id, err := subjects.NewHostID(o.Label)
	if err != nil {
		return startedHost{}, err
	}
	payload, err := wire.Marshal(agent.LaunchPayload{Host: &agent.HostBootstrap{
		ID: id, Dir: filepath.Join(o.RunDir, id.String()), Allow: o.Allow, AllowUser: o.AllowUser, Labels: o.Labels,
		Bus: o.Settings, Root: o.Space.Root(), Namespace: o.Space.Namespace(), LogLevel: o.ProcLogLevel,
		ReadyTimeout: o.ReadyTimeout, Config: o.Config.Snapshot(), Command: o.Command,
		Maker: o.Maker,
	}})
	if err != nil {
		return startedHost{}, err
	}
	child, err := l.Launch(launch.Spec{
		Name: id.String(), Path: program.Path, Arg0: program.Arg0, Args: program.Args, Dir: program.Dir,
		Env: slices.Concat(baseEnv(os.Getenv), program.Env), Payload: payload, LogDir: o.RunDir,
	})
	if err != nil {
		return startedHost{}, err
	}
	h := startedHost{id, func(ctx context.Context) error {
		child.Terminate(keys.TerminateGrace.Get(o.Config) + agent.DefaultGrace)
		select {
		case <-child.Done():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("stop host %s: %w", id, errors.Join(ctx.Err(), child.Kill()))
		}
	}}
	deadline := time.NewTimer(hostStartTimeout)
	defer deadline.Stop()
	for {
		err = pingHost(ctx, o, id)
		if err == nil {
			return h, nil
		}
		select {
		case <-child.Done():
			e := child.Exit()
			return startedHost{}, fmt.Errorf("host %s: %s", id,
				withStderr(e.String()+" before it answered: does its main call host.Main first?", e.StderrTail))
		case <-deadline.C:
			err = fmt.Errorf("host %s does not answer within %s: %w", id, hostStartTimeout, err)
			return startedHost{}, errors.Join(err, h.close(context.WithoutCancel(ctx)))
		case <-ctx.Done():
			return startedHost{}, errors.Join(ctx.Err(), h.close(context.WithoutCancel(ctx)))
		case <-time.After(hostPollInterval):
		}
	}
}

// pingHost pings a host.
func pingHost(ctx context.Context, o Options, id subjects.HostID) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request := bus.Msg{Subject: o.Space.HostRead(id.String(), agent.Info.Name(), subjects.Anon())}
	_, err := o.Bus.Control().Request(ctx, request, actor.IsAnswer)
	return err
}

// hostPollInterval is the pause between two pings of a starting host.
const hostPollInterval = 20 * time.Millisecond

// Main runs the host or worker if the process was launched as one, and then never returns. In any
// other process it returns at once. Programs with ProcessHosts call it instead of proc.Main.
func Main(defs ...actor.Def) { proc.MainOr(runHost, defs...) }

// runHost is the main function of a host process. It runs until a stop or the end of its parent.
func runHost(as agent.HostBootstrap, lifeline <-chan struct{}) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	level, err := zerolog.ParseLevel(as.LogLevel)
	if err != nil || as.LogLevel == "" {
		level = zerolog.WarnLevel
	}
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	space, err := subjects.NewSpace(as.Root, as.Namespace)
	if err != nil {
		return err
	}
	own := &keys.Config{}
	if _, err := own.Push(as.Config); err != nil {
		return err
	}
	if err := own.LoadEnv(os.Getenv); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hostStartTimeout)
	defer cancel()
	settings, err := signin.As(proc.BusOptions(as.Bus, "host/"+as.ID.String(), log), space,
		subjects.User{Principal: subjects.Host.Principal(as.ID.Label())})
	if err != nil {
		return err
	}
	b, err := bus.Open(ctx, agent.WithBusDefaults(settings, own))
	if err != nil {
		return err
	}
	h, err := Start(ctx, Options{
		Label: as.ID.Label(), ID: as.ID, Bus: b, Settings: as.Bus, Space: space, RunDir: as.Dir, Allow: as.Allow,
		AllowUser: as.AllowUser, Labels: as.Labels, ReadyTimeout: as.ReadyTimeout, ProcLogLevel: as.LogLevel,
		Config: own, Command: as.Command, Maker: as.Maker, Log: log,
	})
	if err != nil {
		return err
	}
	select {
	case <-term:
	case <-lifeline:
	case <-h.StopAllDone():
	case <-h.Done():
	case <-b.Done():
	}
	closing, done := context.WithTimeout(context.Background(), keys.TerminateGrace.Get(own)+agent.DefaultGrace)
	defer done()
	return errors.Join(h.Close(closing), b.Close(closing))
}

// HostActorParams are the parameters of a HostActorType actor.
type HostActorParams struct {
	Label string   `cbor:"1,keyasint"` // prefix; the rank follows
	Allow []string `cbor:"2,keyasint,omitempty"`
	// AllowUser permits any program owned by the host's user.
	AllowUser bool `cbor:"3,keyasint,omitempty"`
}

// An actor of HostActorType is a host in the process and on the connections of its proc. It ends
// with the actor. HostActorID returns its ID. With mesh.OnProcs, procs of one mesh become hosts of
// others. A proc with a ticket can be no host (HOST-19).
var (
	HostActorType = actor.NewType[*hostActor, HostActorParams]("host-in-proc")
	HostActorID   = actor.NewEndpoint[*hostActor, actor.None, subjects.HostID]("host-id")
)

// HostActorDef defines HostActorType for programs whose procs may become hosts. Options o apply,
// except for HostActorParams and the label, bus and settings of the proc.
func HostActorDef(o Options) actor.Def {
	return HostActorType.Define(func(ctx *actor.Context, p HostActorParams) (*hostActor, error) {
		o := o
		o.Label = fmt.Sprintf("%s%d", p.Label, ctx.Point().Rank())
		o.Bus = ctx.Proc().Bus()
		o.Space = ctx.Proc().Space()
		o.Settings = proc.BusSettingsOf(ctx.Proc())
		o.Allow = append(slices.Clone(o.Allow), p.Allow...)
		o.AllowUser = o.AllowUser || p.AllowUser
		o.Log = *ctx.Proc().Log()
		if o.Config == nil {
			o.Config = agent.ConfigOf(ctx.Proc())
		}
		h, err := Start(ctx, o)
		if err != nil {
			return nil, err
		}
		return &hostActor{h}, nil
	}, HostActorID.Handle((*hostActor).id))
}

type hostActor struct{ host *Host }

// id returns the host's ID. The first process that asks is the one for which it was allocated.
func (h *hostActor) id(ctx *actor.Context, _ actor.None) (subjects.HostID, error) {
	by := ctx.SentBy()
	h.host.maker.CompareAndSwap(nil, &by)
	return h.host.ID(), nil
}

// Cleanup stops the host with its procs.
func (h *hostActor) Cleanup(ctx *actor.Context, _ error) error { return h.host.Close(ctx) }
