package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/build"
	"github.com/castnet-io/castnet/internal/heapfloor"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Main runs the worker if a host launched the process, and then never returns. In any other process
// it checks the definitions and returns. Malformed actor types end the program in both cases.
func Main(defs ...actor.Def) { MainOr(nil, defs...) }

// MainOr is Main for programs that can also be launched as a host. Function asHost runs the host
// until lifeline closes or the process gets a stop signal.
func MainOr(asHost func(as agent.HostBootstrap, lifeline <-chan struct{}) error, defs ...actor.Def) {
	MainWith(MainOptions{AsHost: asHost}, defs...)
}

// MainOptions extend Main.
type MainOptions struct {
	// AsHost runs a process launched as a host, until lifeline closes or the process gets a stop
	// signal; nil: it cannot be one.
	AsHost func(as agent.HostBootstrap, lifeline <-chan struct{}) error
	// StartTracer returns the tracer of a launched proc; nil: none. stop runs once the proc has
	// ended, and sends the last spans.
	StartTracer func(ctx context.Context) (t actor.Tracer, stop func(context.Context) error, err error)
}

// MainWith is Main with options.
func MainWith(o MainOptions, defs ...actor.Def) {
	registry, err := actor.NewRegistry(defs...)
	if err != nil {
		exitWithError(err)
	}
	inherited, launched, err := launch.FromEnv(os.Getenv)
	if err != nil {
		exitWithError(err)
	}
	if !launched {
		return
	}
	heapfloor.Start(os.Getenv)
	if err := runProcess(inherited, registry, o); err != nil {
		exitWithError(err)
	}
	os.Exit(0)
}

func exitWithError(err error) {
	fmt.Fprintf(os.Stderr, "castnet proc: %v\n", err)
	os.Exit(1)
}

// runProcess runs a launched process: it reads the bootstrap and runs its role until stopped.
func runProcess(in *launch.Inherited, registry actor.Registry, o MainOptions) error {
	payload, err := in.Payload()
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	var to agent.LaunchPayload
	if err := wire.Unmarshal(payload, &to); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	switch {
	case to.Host != nil && o.AsHost == nil:
		return errors.New("launched as a host: want a program whose main calls host.Main")
	case to.Host != nil:
		return o.AsHost(*to.Host, in.Lifeline())
	case to.Proc == nil:
		return errors.New("bootstrap: want a proc or a host")
	}
	boot := *to.Proc
	cfg, err := newConfig(boot, os.Getenv)
	if err != nil {
		return err
	}
	leaving, leave := context.WithCancelCause(context.Background())
	defer leave(nil)
	term := make(chan os.Signal, 2)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	orphanGrace := config.ProcOrphanGrace.Get(cfg)
	go awaitExitReason(term,
		hostGone(in, cmp.Or(boot.AdoptionTimeout, config.ProcAdoptionTimeout.Get(cfg))), orphanGrace, leave)
	tracer, stopTracer, err := o.startTracer(leaving)
	if err != nil {
		return err
	}
	w, err := startWorker(leaving, boot, cfg, registry, tracer, func(failed bool) {
		if failed {
			leave(errActorFailed)
		}
		leave(errStopRequested) // the first reason stands
	})
	if leaving.Err() != nil && err != nil {
		return nil // stopped before the start
	}
	if err != nil {
		return err
	}
	select {
	case <-leaving.Done():
	case <-w.bus.Done():
		return fmt.Errorf("the bus broke: %w", w.bus.Err())
	}
	grace := config.ProcDrainTimeout.Get(cfg)
	if errors.Is(context.Cause(leaving), errOrphaned) {
		grace = orphanGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err = w.close(ctx)
	if stopping := stopTracer(ctx); stopping != nil {
		fmt.Fprintf(os.Stderr, "castnet proc: cannot send the last spans: %v\n", stopping)
	}
	if err == nil && errors.Is(context.Cause(leaving), errActorFailed) {
		return errActorFailed
	}
	return err
}

// startTracer returns the tracer of the process, or nil, and the end of it.
func (o MainOptions) startTracer(ctx context.Context) (actor.Tracer, func(context.Context) error, error) {
	if o.StartTracer == nil {
		return nil, func(context.Context) error { return nil }, nil
	}
	return o.StartTracer(ctx)
}

// newConfig merges the client's configuration with the environment of this proc.
func newConfig(boot agent.Bootstrap, getenv func(string) string) (*config.Config, error) {
	c := &config.Config{}
	if _, err := c.Push(boot.Config); err != nil {
		return nil, err
	}
	return c, c.LoadEnv(getenv)
}

// Reasons of a worker's end.
var (
	errStopRequested = errors.New("stop requested")
	errOrphaned      = errors.New("the host is gone")
	errActorFailed   = errors.New("stop requested; some actors failed")
)

// hostGone is closed when the host is gone. For a kept proc that is when no host has adopted it in
// time (PROC-2). Its goroutine lives as long as the process.
func hostGone(in *launch.Inherited, patience time.Duration) <-chan struct{} {
	if !in.Kept() {
		return in.Lifeline()
	}
	gone := make(chan struct{})
	go func() {
		late := time.NewTimer(patience)
		late.Stop()
		for {
			select {
			case held := <-in.LauncherPresent():
				if held {
					late.Stop()
				} else {
					late.Reset(patience)
				}
			case <-late.C:
				close(gone)
				return
			}
		}
	}()
	return gone
}

// awaitExitReason calls leave at the first reason to end, and exits at the second. The cleanup is
// bounded, whatever the actors do (PROC-2). Its goroutine lives as long as the process.
func awaitExitReason(term <-chan os.Signal, lifeline <-chan struct{}, orphanGrace time.Duration,
	leave func(error)) {
	select {
	case <-term:
		leave(errStopRequested)
	case <-lifeline:
		leave(errOrphaned)
	}
	select {
	case <-term:
	case <-lifeline:
		time.Sleep(orphanGrace)
	}
	os.Exit(1)
}

// worker is a running proc.
type worker struct {
	bus    *bus.Bus
	proc   *actor.Proc
	router *cast.Router
}

// connect opens the bus. It retries a silent server until the proc's ready timeout: the host is
// connected, so the server exists, and the machine may be busy.
func connect(ctx context.Context, o bus.Options) (*bus.Bus, error) {
	for {
		b, err := bus.Open(ctx, o)
		if !isTimeout(err) || ctx.Err() != nil {
			return b, err
		}
	}
}

// isTimeout reports whether a connection took too long.
func isTimeout(err error) bool {
	if failed, ok := errors.AsType[*bus.ConnectError](err); ok && failed.Reason == bus.SilentServer {
		return true
	}
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout()
}

// startWorker connects, starts the proc with router and agent, and reports ready (PROC-1).
func startWorker(ctx context.Context, boot agent.Bootstrap, cfg *config.Config, registry actor.Registry,
	tracer actor.Tracer, leave func(failed bool)) (*worker, error) {
	ctx, cancel := context.WithTimeout(ctx, max(boot.ReadyTimeout, config.ProcReadyAckTimeout.Get(cfg)))
	defer cancel()
	id := boot.ProcID()
	level, err := zerolog.ParseLevel(boot.LogLevel)
	if err != nil || boot.LogLevel == "" {
		level = zerolog.WarnLevel
	}
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	space, err := subjects.NewSpace(boot.Root, boot.Namespace)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	w := &worker{}
	w.bus, err = connect(ctx,
		agent.WithBusDefaults(BusOptions(boot.Bus, "proc/"+id.Process().String(), log), cfg))
	if err != nil {
		return nil, err
	}
	w.proc, w.router, err = Join(ctx, Options{
		Bus: w.bus, Principal: subjects.Proc.Principal(boot.Host.Proc.Mesh.Label()), Settings: boot.Bus,
		Space: space, Registry: registry, Mesh: boot.Mesh, Rank: boot.Rank,
		Gen: boot.Gen, Log: log, OnLeave: leave, Config: cfg, Tracer: tracer,
		Nonce: boot.Nonce, FirstPacket: boot.FirstPacket,
	})
	if err == nil {
		err = reportReady(ctx, w.proc, boot, registry)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.ProcOrphanGrace.Get(cfg))
		defer cancel()
		return nil, errors.Join(err, w.close(ctx))
	}
	return w, nil
}

// reportReady reports to the host that the proc is reachable.
func reportReady(ctx context.Context, p *actor.Proc, boot agent.Bootstrap, registry actor.Registry) error {
	id, err := build.ID()
	if err != nil {
		return fmt.Errorf("cannot read its own build ID: %w", err)
	}
	host := actor.RefOf[agent.Agent](boot.Host).Via(p)
	ready := agent.ReadyReport{Proc: p.ID(),
		Proof: agent.Proof(boot.Nonce, agent.ProofReady, p.ID(), boot.Host, ""), Build: id, Types: registry.Types()}
	_, err = agent.Ready.Call(ctx, host, ready)
	for boot.Mesh.Keep && isUnanswered(err) && ctx.Err() == nil { // the next host has the same address
		select {
		case <-ctx.Done():
		case <-time.After(readyRetryInterval):
			_, err = agent.Ready.Call(ctx, host, ready)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot report ready to host %s: %w", boot.Host.Proc.Mesh, err)
	}
	return nil
}

// readyRetryInterval is the pause between attempts to reach a host that may come back.
const readyRetryInterval = 200 * time.Millisecond

// isUnanswered reports whether no host replied. A host's refusal counts as a reply.
func isUnanswered(err error) bool {
	e, ok := errors.AsType[*actor.Error](err)
	return ok && e.Code != actor.CodeHandler
}

func (w *worker) close(ctx context.Context) error {
	var errs []error
	if w.proc != nil {
		errs = append(errs, w.proc.Close(ctx))
	}
	if w.router != nil {
		w.router.Close()
	}
	return errors.Join(append(errs, w.bus.Close(ctx))...)
}

// BusOptions returns the bus options of a proc from its host's settings.
func BusOptions(s agent.BusSettings, name string, log zerolog.Logger) bus.Options {
	return bus.Options{
		URL: s.URL, Name: name, Token: s.Token, User: s.User, Password: s.Password, Creds: s.Creds,
		NKey: s.NKey, JWT: s.JWT, Seed: s.Seed, CertFile: s.CertFile, KeyFile: s.KeyFile, CAFile: s.CAFile,
		TLSFirst: s.TLSFirst, Fingerprint: s.Fingerprint, InboxPrefix: s.InboxPrefix, Insecure: s.Insecure,
		Log: log,
	}
}
