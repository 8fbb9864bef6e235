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
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Processes allocates hosts as OS processes of this program: its main calls Main first. They end with it.
// Each is described by the options, but for its label, which is Label and a number; Bus is for looking
// whether they are there.
type Processes Options

// Joining fills in the bus of whoever asks for the hosts, where another is not named.
func (o Processes) Joining(bus agent.BusSettings, space subjects.Space) agent.Allocator {
	return Processes(Options(o).joining(bus, space))
}

// hostWithin is how long a host process may take until it answers.
const hostWithin = 20 * time.Second

// Allocate launches a host process for each rank, and returns once each answers.
func (o Processes) Allocate(ctx context.Context, e shape.Extent) (agent.Allocation, error) {
	if o.Bus == nil {
		return nil, errors.New("start host processes: no bus to look for them")
	}
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return nil, fmt.Errorf("start host processes: find own binary: %w", err)
	}
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	launcher := launch.New(launch.Options{Log: o.Log})
	got, err := allocate(ctx, Options(o), e, func(ctx context.Context, o Options) (started, error) {
		return hostProcess(ctx, launcher, exe, o)
	})
	if err != nil {
		return nil, errors.Join(err, launcher.Close())
	}
	return newGroup(got.Hosts(), func(ctx context.Context) error { return errors.Join(got.Close(ctx), launcher.Close()) }), nil
}

// hostProcess launches one host and waits until it answers.
func hostProcess(ctx context.Context, l *launch.Launcher, exe string, o Options) (started, error) {
	id, err := subjects.NewHostID(o.Label)
	if err != nil {
		return started{}, err
	}
	payload, err := wire.Marshal(agent.Launch{Host: &agent.AsHost{
		ID: id, Dir: filepath.Join(o.Dir, id.String()), Allow: o.Allow, AllowUser: o.AllowUser, Labels: o.Labels,
		Bus: o.Settings, Root: o.Space.Root(), Namespace: o.Space.Namespace(), Level: o.Level, Ready: o.Ready,
	}})
	if err != nil {
		return started{}, err
	}
	child, err := l.Launch(launch.Spec{Name: id.String(), Path: exe, Env: baseEnv(os.Getenv), Payload: payload, LogDir: o.Dir})
	if err != nil {
		return started{}, err
	}
	h := started{id, func(ctx context.Context) error {
		child.Terminate(closeGrace + agent.DefaultGrace)
		select {
		case <-child.Done():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("stop host %s: %w", id, errors.Join(ctx.Err(), child.Kill()))
		}
	}}
	deadline := time.NewTimer(hostWithin)
	defer deadline.Stop()
	for {
		if err = answers(ctx, o, id); err == nil {
			return h, nil
		}
		select {
		case <-child.Done():
			e := child.Exit()
			return started{}, fmt.Errorf("host %s: %s", id, withStderr(e.String()+" before it answered: does its main call host.Main first?", e.StderrTail))
		case <-deadline.C:
			return started{}, errors.Join(fmt.Errorf("host %s does not answer within %s: %w", id, hostWithin, err), h.close(context.WithoutCancel(ctx)))
		case <-ctx.Done():
			return started{}, errors.Join(ctx.Err(), h.close(context.WithoutCancel(ctx)))
		case <-time.After(lookEvery):
		}
	}
}

// answers asks a host whether it is there.
func answers(ctx context.Context, o Options, id subjects.HostID) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request := bus.Msg{Subject: o.Space.Host(id.String(), agent.Info.Name(), subjects.Anon)}
	_, err := o.Bus.Control().Request(ctx, request, actor.IsAnswer)
	return err
}

// lookEvery is the time between two looks at a host that does not answer yet.
const lookEvery = 20 * time.Millisecond

// Main makes the process a host, or a worker, when it was launched as one, and never returns then. In any
// other process it returns at once. It takes the place of proc.Main in programs that use Processes.
func Main(defs ...actor.Def) { proc.MainOr(life, defs...) }

// life is that of a host process: until it is told to stop, or who launched it is gone.
func life(as agent.AsHost, lifeline <-chan struct{}) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	level, err := zerolog.ParseLevel(as.Level)
	if err != nil || as.Level == "" {
		level = zerolog.WarnLevel
	}
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	space, err := subjects.NewSpace(as.Root, as.Namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hostWithin)
	defer cancel()
	b, err := bus.Open(ctx, proc.BusOptions(as.Bus, "host/"+as.ID.String(), log))
	if err != nil {
		return err
	}
	h, err := Start(ctx, Options{
		Label: as.ID.Label(), ID: as.ID, Bus: b, Settings: as.Bus, Space: space, Dir: as.Dir, Allow: as.Allow,
		AllowUser: as.AllowUser, Labels: as.Labels, Ready: as.Ready, Level: as.Level, Log: log,
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
