package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// ProcessHosts allocates hosts as OS processes of this program, whose main calls Main first. They
// end with the program. The options apply to all. Each label is Label with a number. Bus is used to
// ping the hosts.
type ProcessHosts Options

// OnBus fills in the caller's bus, unless another one is set.
func (o ProcessHosts) OnBus(bus agent.BusSettings, space subjects.Space) agent.Allocator {
	return ProcessHosts(Options(o).onBus(bus, space))
}

// hostStartTimeout bounds the start of a host process, up to its first answer.
const hostStartTimeout = 20 * time.Second

// Allocate launches a host process for each rank and waits until all answer.
func (o ProcessHosts) Allocate(ctx context.Context, e shape.Extent) (agent.Allocation, error) {
	if o.Bus == nil {
		return nil, errors.New("start host processes: want a bus")
	}
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return nil, fmt.Errorf("start host processes: cannot find its own binary: %w", err)
	}
	if o.RunDir == "" {
		o.RunDir = os.TempDir()
	}
	launcher := launch.New(launch.Options{Log: o.Log})
	got, err := startHosts(ctx, Options(o), e, func(ctx context.Context, o Options) (startedHost, error) {
		return startHostProcess(ctx, launcher, exe, o)
	})
	if err != nil {
		return nil, errors.Join(err, launcher.Close())
	}
	return newAllocation(got.Hosts(), func(ctx context.Context) error { return errors.Join(got.Close(ctx), launcher.Close()) }), nil
}

// startHostProcess launches one host and waits until it answers.
func startHostProcess(ctx context.Context, l *launch.Launcher, exe string, o Options) (startedHost, error) {
	id, err := subjects.NewHostID(o.Label)
	if err != nil {
		return startedHost{}, err
	}
	payload, err := wire.Marshal(agent.LaunchPayload{Host: &agent.HostBootstrap{
		ID: id, Dir: filepath.Join(o.RunDir, id.String()), Allow: o.Allow, AllowUser: o.AllowUser, Labels: o.Labels,
		Bus: o.Settings, Root: o.Space.Root(), Namespace: o.Space.Namespace(), LogLevel: o.ProcLogLevel,
		ReadyTimeout: o.ReadyTimeout,
	}})
	if err != nil {
		return startedHost{}, err
	}
	child, err := l.Launch(launch.Spec{Name: id.String(), Path: exe, Env: baseEnv(os.Getenv), Payload: payload, LogDir: o.RunDir})
	if err != nil {
		return startedHost{}, err
	}
	h := startedHost{id, func(ctx context.Context) error {
		child.Terminate(closeGrace + agent.DefaultGrace)
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
			return startedHost{}, errors.Join(fmt.Errorf("host %s does not answer within %s: %w", id, hostStartTimeout, err),
				h.close(context.WithoutCancel(ctx)))
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
	request := bus.Msg{Subject: o.Space.Host(id.String(), agent.Info.Name(), subjects.Anon)}
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
	ctx, cancel := context.WithTimeout(context.Background(), hostStartTimeout)
	defer cancel()
	b, err := bus.Open(ctx, proc.BusOptions(as.Bus, "host/"+as.ID.String(), log))
	if err != nil {
		return err
	}
	h, err := Start(ctx, Options{
		Label: as.ID.Label(), ID: as.ID, Bus: b, Settings: as.Bus, Space: space, RunDir: as.Dir, Allow: as.Allow,
		AllowUser: as.AllowUser, Labels: as.Labels, ReadyTimeout: as.ReadyTimeout, ProcLogLevel: as.LogLevel,
		Log: log,
	})
	if err != nil {
		return err
	}
	select {
	case <-term:
	case <-lifeline:
	case <-h.Left():
	case <-h.Done():
	case <-b.Done():
	}
	closing, done := context.WithTimeout(context.Background(), closeGrace+agent.DefaultGrace)
	defer done()
	return errors.Join(h.Close(closing), b.Close(closing))
}
