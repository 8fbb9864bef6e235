package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/signin"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// worldFlags are the flags for worlds.
type worldFlags struct {
	system    bool
	systemSet bool
	world     string
	rank      int
	rankSet   bool
}

func (f *worldFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.system, "system", true,
		"run the system controller, which owns worlds (default only with its own server)")
	fs.StringVar(&f.world, "world", "",
		"run this host's share of the procs of the world `NAME`, declared now or later")
	fs.IntVar(&f.rank, "host-rank", 0, "index `N` of this host's share of --world, from 0")
	fs.Lookup("system").DefValue = "false" // cobra hides this value: the text has it
}

// recordSet records which flags were typed.
func (f *worldFlags) recordSet(fs *pflag.FlagSet) {
	f.systemSet, f.rankSet = fs.Changed("system"), fs.Changed("host-rank")
}

// validate refuses contradicting flags and decides whether to run a system controller.
func (f *worldFlags) validate(joins bool) error {
	if !f.systemSet {
		f.system = !joins
	}
	switch {
	case f.world == "" && f.rankSet:
		return cli.Usagef("--host-rank is a share of a world: want --world NAME with it")
	case f.world == "":
		return nil
	case !f.rankSet || f.rank < 0:
		return cli.Usagef("--world %s: want --host-rank N, the index of this host's share from 0", f.world)
	}
	if err := subjects.CheckLabel("world name", f.world); err != nil {
		return cli.Usagef("--world: %w", err)
	}
	return nil
}

// systemService is a system controller with its own bus.
type systemService struct {
	*system.Service
	bus *bus.Bus
}

// Done is closed when the bus is lost for good. A deliberately stopped system stays stopped.
func (s systemService) Done() <-chan struct{} { return s.bus.Done() }

func (s systemService) Err() error { return s.bus.Err() }

// Close ends the service, and another system controller takes over.
func (s systemService) Close(ctx context.Context) error {
	return errors.Join(s.Service.Close(ctx), s.bus.Close(ctx))
}

// startSystem starts and supervises the system controller. It waits for an unresponsive JetStream
// (HOSTD-1).
func (n *node) startSystem(ctx context.Context, log zerolog.Logger) (err error) {
	if !n.worldFlags.system {
		return nil
	}
	start := func(ctx context.Context) (service, error) {
		o, err := signin.As(n.options, n.space, subjects.User{Principal: subjects.System.Principal(n.label)})
		if err != nil {
			return nil, err
		}
		o.Name, o.Log = "system/"+n.label, log
		b, err := bus.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		s, err := system.Start(ctx, system.Options{
			Bus: b, Space: n.space, Label: n.label, Config: n.keys, Version: cli.Version(), Log: log,
			StartWhen: n.hostStarted,
		})
		if err != nil {
			return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
		}
		n.systemServing.Store(s)
		return systemService{s, b}, nil
	}
	for {
		n.system, err = supervise(ctx, "system controller", start, keys.HostdDrainTimeout.Get(n.keys), log)
		if !errors.Is(err, bus.ErrJetStreamUnavailable) {
			return err
		}
		n.pendingReason.Store(new("waiting for JetStream: " + err.Error()))
		log.Warn().Err(err).Msg("waiting for JetStream: the host starts when JetStream answers")
		select {
		case <-time.After(restartDelay):
		case <-ctx.Done():
			return ctx.Err()
		case <-n.bus.Done():
			return cli.WithCode(cli.ExitConnection, fmt.Errorf("the bus is lost for good: %w", n.bus.Err()))
		}
	}
}

// membership keeps the host in its world.
type membership struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// joinWorld joins the world. The host stays a member until leave.
func (n *node) joinWorld(ctx context.Context, log zerolog.Logger) error {
	if n.world == "" {
		return nil
	}
	info, err := n.host.Info(ctx)
	if err != nil {
		return err
	}
	j := system.JoinRequest{
		World: n.world, Labels: n.labels,
		Host: &system.HostJoin{ID: n.host.ID(), Rank: n.rank, Incarnation: info.Incarnation()},
	}
	m := &membership{done: make(chan struct{})}
	n.membership = m
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(m.done)
		system.KeepJoined(ctx, n.host.Proc(), j, func(joined system.JoinResponse, err error) {
			if err != nil {
				log.Warn().Err(err).Str("world", n.world).Int("host_rank", n.rank).Msg("cannot join the world: retrying")
				return
			}
			log.Info().Str("world", n.world).Int("host_rank", n.rank).Str("system", joined.Execution).
				Msg("joined the world")
		})
	}()
	return nil
}

func (m *membership) leave() {
	m.cancel()
	<-m.done
}
