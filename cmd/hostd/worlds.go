package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/castnet-io/castnet/bus"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
)

// worldFlags is what was said of worlds.
type worldFlags struct {
	system     bool
	systemSaid bool
	world      string
	rank       int
	rankSaid   bool
}

func (f *worldFlags) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&f.system, "system", true, "run the system controller, which owns worlds; of several one acts (default only with a server of its own)")
	fs.StringVar(&f.world, "world", "", "run this host's share of the procs of the world `NAME`, declared now or later")
	fs.IntVar(&f.rank, "host-rank", 0, "which share of --world that is: `N` counts from 0")
	fs.Lookup("system").DefValue = "false" // cobra leaves that out: the text has it
}

// said takes note of what was typed.
func (f *worldFlags) said(fs *pflag.FlagSet) {
	f.systemSaid, f.rankSaid = fs.Changed("system"), fs.Changed("host-rank")
}

// check refuses what does not go together, and settles whether there is to be a system controller.
func (f *worldFlags) check(joins bool) error {
	if !f.systemSaid {
		f.system = !joins
	}
	switch {
	case f.world == "" && f.rankSaid:
		return cli.Usagef("--host-rank is the place of this host in a world: want --world NAME with it")
	case f.world == "":
		return nil
	case !f.rankSaid || f.rank < 0:
		return cli.Usagef("--world %s: want --host-rank N with it, from 0: it says which share is this host's", f.world)
	}
	if err := subjects.CheckLabel("world name", f.world); err != nil {
		return cli.Usagef("--world: %w", err)
	}
	return nil
}

// system is a service of the system controller with the bus of its own that it needs.
type system struct {
	*worlds.Service
	bus *bus.Bus
}

// Done is closed when the bus is lost for good. A system that was stopped is to stay stopped.
func (s system) Done() <-chan struct{} { return s.bus.Done() }

func (s system) Err() error { return s.bus.Err() }

// Close ends the service: another one takes over.
func (s system) Close(ctx context.Context) error {
	return errors.Join(s.Service.Close(ctx), s.bus.Close(ctx))
}

// startSystem starts the system controller, and keeps it up. It waits for a JetStream that does not answer (HOSTD-12).
func (n *node) startSystem(ctx context.Context, log zerolog.Logger) (err error) {
	if !n.worldFlags.system {
		return nil
	}
	start := func(ctx context.Context) (service, error) {
		o := n.options
		o.Name, o.Log = "system/"+n.label, log
		b, err := bus.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		s, err := worlds.Start(ctx, worlds.Options{Bus: b, Space: n.space, Label: n.label, Config: n.keys, Version: cli.Version(), Log: log, Hold: n.found})
		if err != nil {
			return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
		}
		return system{s, b}, nil
	}
	for {
		n.system, err = keepUp(ctx, "system controller", start, keys.HostdDrain.Get(n.keys), log)
		if !errors.Is(err, bus.ErrJetStreamAway) {
			return err
		}
		n.pending.Store(new("waiting for JetStream: " + err.Error()))
		log.Warn().Err(err).Msg("waiting for JetStream: the host starts when JetStream answers")
		select {
		case <-time.After(restartAfter):
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
	gone   chan struct{}
}

// joinWorld joins the world and stays there until leave.
func (n *node) joinWorld(ctx context.Context, log zerolog.Logger) error {
	if n.world == "" {
		return nil
	}
	info, err := n.host.Info(ctx)
	if err != nil {
		return err
	}
	j := worlds.Joining{
		World: n.world, Labels: n.labels, Host: &worlds.JoiningHost{ID: n.host.ID(), Rank: n.rank, Life: info.Life()},
	}
	m := &membership{gone: make(chan struct{})}
	n.member = m
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(m.gone)
		worlds.Stay(ctx, n.host.Proc(), j, func(joined worlds.Joined, err error) {
			if err != nil {
				log.Warn().Err(err).Str("world", n.world).Int("host_rank", n.rank).Msg("not in the world: it goes on asking")
				return
			}
			log.Info().Str("world", n.world).Int("host_rank", n.rank).Str("system", joined.Execution).Msg("joined the world")
		})
	}()
	return nil
}

func (m *membership) leave() {
	m.cancel()
	<-m.gone
}
