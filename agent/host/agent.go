package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/subjects"
)

// config is what a host agent is made from; it never leaves the process.
type config struct {
	id       subjects.HostID
	opts     Options
	launcher *launch.Launcher
	build    string
	started  time.Time
}

var agentType = actor.NewType[agent.Agent, config](agent.HostType)

func methods() []actor.Method[agent.Agent] {
	return append(agent.Methods(),
		agent.Info.By(func(a agent.Agent, ctx *actor.Context, n actor.None) (agent.HostInfo, error) {
			return a.(*hostAgent).info(ctx, n)
		}),
		agent.Ready.By(func(a agent.Agent, ctx *actor.Context, r agent.Readiness) (actor.None, error) {
			return actor.None{}, a.(*hostAgent).ready(ctx, r)
		}))
}

// hostAgent is the actor. Its fields belong to its turn.
type hostAgent struct {
	config
	self     string // path of the host's own binary
	table    *agent.Table
	children map[subjects.ProcID]*child
	ended    []subjects.MeshID // meshes with no live proc here, oldest first
	streams  agent.Streams
}

func newAgent(ctx *actor.Context, c config) (agent.Agent, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	a := &hostAgent{config: c, self: self, table: agent.NewTable(), children: map[subjects.ProcID]*child{}}
	a.sweep(ctx)
	return a, nil
}

// Create launches this host's share of a proc mesh. It answers at once; Wait tells when the procs
// are ready. Everything that can be refused is refused before anything starts.
func (a *hostAgent) Create(ctx *actor.Context, c agent.Creation) (agent.Overlay, error) {
	if c.Procs == nil {
		return nil, errors.New("a host agent creates procs: want the field procs")
	}
	m := *c.Procs
	id := m.ID.String()
	ranks, err := a.share(m)
	if err != nil {
		return nil, err
	}
	path, args, err := a.opts.resolve(m.Command, a.self)
	if err == nil {
		err = checkEnv(m.Command.Env)
	}
	if err != nil {
		return nil, err
	}
	hash, err := agent.Fingerprint(m)
	if err != nil {
		return nil, err
	}
	created, err := a.table.Create(id, hash, ranks, &m)
	if err != nil || !created {
		return a.table.Overlay(id), err
	}
	if c.Lease > 0 {
		a.table.Keep(id, time.Now().Add(c.Lease))
	}
	for _, rank := range ranks {
		a.launch(ctx, m, rank, path, args)
	}
	return a.table.Overlay(id), nil
}

// share is this host's ranks of a mesh, or why it has none.
func (a *hostAgent) share(m agent.Mesh) ([]int, error) {
	at := slices.Index(m.Hosts, a.id)
	switch err := m.Check(); {
	case at < 0:
		return nil, fmt.Errorf("mesh %s has no share on host %s", m.ID, a.id)
	case slices.Contains(m.Hosts[at+1:], a.id):
		return nil, fmt.Errorf("mesh %s lists host %s twice", m.ID, a.id)
	case err != nil:
		return nil, err
	}
	ranks := make([]int, m.PerHost)
	for k := range ranks {
		ranks[k] = at*m.PerHost + k
	}
	return ranks, nil
}
