package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Main makes the process a worker when a host launched it as one, and never returns then. In any
// other process it returns at once, after checking the definitions: a program whose actor types
// are malformed ends here, whoever started it.
func Main(defs ...actor.Def) { MainOr(nil, defs...) }

// MainOr is Main for programs that may be launched as a host, too: asHost is one's life, until lifeline is
// closed or the process is told to stop.
func MainOr(asHost func(as agent.AsHost, lifeline <-chan struct{}) error, defs ...actor.Def) {
	registry, err := actor.NewRegistry(defs...)
	if err != nil {
		die(err)
	}
	inherited, launched, err := launch.FromEnv(os.Getenv)
	if err != nil {
		die(err)
	}
	if !launched {
		return
	}
	if err := run(inherited, registry, asHost); err != nil {
		die(err)
	}
	os.Exit(0)
}

func die(err error) {
	fmt.Fprintf(os.Stderr, "castnet proc: %v\n", err)
	os.Exit(1)
}

// run is the life of a worker: read what to be, be it, until told to stop.
func run(in *launch.Inherited, registry actor.Registry, asHost func(agent.AsHost, <-chan struct{}) error) error {
	payload, err := in.Payload()
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	var to agent.Launch
	if err := wire.Unmarshal(payload, &to); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	switch {
	case to.Host != nil && asHost == nil:
		return errors.New("launched as a host: want a program whose main calls host.Main")
	case to.Host != nil:
		return asHost(*to.Host, in.Lifeline())
	case to.Proc == nil:
		return errors.New("bootstrap: neither a proc nor a host to be")
	}
	boot := *to.Proc
	cfg, err := configuration(boot, os.Getenv)
	if err != nil {
		return err
	}
	leaving, leave := context.WithCancelCause(context.Background())
	defer leave(nil)
	term := make(chan os.Signal, 2)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	orphanGrace := config.ProcOrphanGrace.Get(cfg)
	go watchExits(term, orphaned(in, cmp.Or(boot.Orphan, config.ProcAdoption.Get(cfg))), orphanGrace, leave)
	w, err := start(leaving, boot, cfg, registry, func(failed bool) {
		if failed {
			leave(errUnwell)
		}
		leave(errTold) // the first one counts
	})
	switch {
	case leaving.Err() != nil && err != nil:
		return nil // told to stop before there was anything to stop
	case err != nil:
		return err
	}
	select {
	case <-leaving.Done():
	case <-w.bus.Done():
		return fmt.Errorf("the bus broke: %w", w.bus.Err())
	}
	grace := config.ProcDrain.Get(cfg)
	if errors.Is(context.Cause(leaving), errOrphaned) {
		grace = orphanGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err = w.close(ctx)
	if err == nil && errors.Is(context.Cause(leaving), errUnwell) {
		return errUnwell
	}
	return err
}

// configuration is what the client has pushed, and what the environment of this proc says.
func configuration(boot agent.Bootstrap, getenv func(string) string) (*config.Config, error) {
	c := &config.Config{}
	if _, err := c.Push(boot.Config); err != nil {
		return nil, err
	}
	return c, c.From(getenv)
}

// Why a worker leaves.
var (
	errTold     = errors.New("told to stop")
	errOrphaned = errors.New("the host is gone")
	errUnwell   = errors.New("told to stop, and not all actors ended well")
)

// orphaned is closed when the host is gone; for a proc that is kept, when no other has adopted it in time
// (PROC-2). It lives as long as the process.
func orphaned(in *launch.Inherited, patience time.Duration) <-chan struct{} {
	if !in.Kept() {
		return in.Lifeline()
	}
	gone := make(chan struct{})
	go func() {
		late := time.NewTimer(patience)
		late.Stop()
		for {
			select {
			case held := <-in.Held():
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

// watchExits calls leave at the first reason to go, and ends the process at the second: the way out
// is bounded, whatever the actors do (PROC-2, PROC-3). It lives as long as the process.
func watchExits(term <-chan os.Signal, lifeline <-chan struct{}, orphanGrace time.Duration, leave func(error)) {
	select {
	case <-term:
		leave(errTold)
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

// connect opens the bus. A server that does not answer in time is asked again, as long as the proc has: its host is
// connected, so there is one, and the machine may have much to do.
func connect(ctx context.Context, o bus.Options) (*bus.Bus, error) {
	for {
		b, err := bus.Open(ctx, o)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
			return b, err
		}
	}
}

// start connects, starts the proc with its router and agent, and says Ready (PROC-1).
func start(ctx context.Context, boot agent.Bootstrap, cfg *config.Config, registry actor.Registry, leave func(failed bool)) (*worker, error) {
	ctx, cancel := context.WithTimeout(ctx, max(boot.Within, config.ProcReadyAnswer.Get(cfg)))
	defer cancel()
	id := boot.ProcID()
	level, err := zerolog.ParseLevel(boot.Level)
	if err != nil || boot.Level == "" {
		level = zerolog.WarnLevel
	}
	log := zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	space, err := subjects.NewSpace(boot.Root, boot.Namespace)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	w := &worker{}
	if w.bus, err = connect(ctx, agent.Reach(BusOptions(boot.Bus, "proc/"+id.Process().String(), log), cfg)); err != nil {
		return nil, err
	}
	w.proc, w.router, err = Join(ctx, Options{
		Bus: w.bus, Settings: boot.Bus, Space: space, Registry: registry, Mesh: boot.Mesh, Rank: boot.Rank, Gen: boot.Gen, Log: log, Leave: leave, Config: cfg,
		Nonce: boot.Nonce, FirstPacket: boot.First,
	})
	if err == nil {
		err = announce(ctx, w.proc, boot, registry)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.ProcOrphanGrace.Get(cfg))
		defer cancel()
		return nil, errors.Join(err, w.close(ctx))
	}
	return w, nil
}

// announce tells the host that the proc can be reached.
func announce(ctx context.Context, p *actor.Proc, boot agent.Bootstrap, registry actor.Registry) error {
	id, err := build.ID()
	if err != nil {
		return fmt.Errorf("own build id: %w", err)
	}
	host := actor.RefOf[agent.Agent](boot.Host).Via(p)
	ready := agent.Readiness{Proc: p.ID(), Nonce: boot.Nonce, Build: id, Types: registry.Types()}
	_, err = agent.Ready.Call(ctx, host, ready)
	for boot.Mesh.Keep && unheard(err) && ctx.Err() == nil { // the next host has the same address
		select {
		case <-ctx.Done():
		case <-time.After(againAfter):
			_, err = agent.Ready.Call(ctx, host, ready)
		}
	}
	if err != nil {
		return fmt.Errorf("say ready to host %s: %w", boot.Host.Proc.Mesh, err)
	}
	return nil
}

// againAfter is between two attempts to reach a host that may come back.
const againAfter = 200 * time.Millisecond

// unheard reports whether no host has answered: what a host answers is its word.
func unheard(err error) bool {
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

// BusOptions are how a proc reaches the bus, given what its host says.
func BusOptions(s agent.BusSettings, name string, log zerolog.Logger) bus.Options {
	return bus.Options{
		URL: s.URL, Name: name, Token: s.Token, User: s.User, Password: s.Password, Creds: s.Creds,
		NKey: s.NKey, JWT: s.JWT, Seed: s.Seed, CertFile: s.CertFile, KeyFile: s.KeyFile, CAFile: s.CAFile,
		TLSFirst: s.TLSFirst, InboxPrefix: s.InboxPrefix, Insecure: s.Insecure, Log: log,
	}
}
