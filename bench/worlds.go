package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bench/local/lines"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

const (
	worldCount  = 1000
	detachedToo = 1000 // meshes
	worldProcs  = 10
	worldHosts  = 20 // imagined; each has its share of the worlds
	worldsIdle  = 10 * time.Second
	// imagined hosts have no heartbeats, and are there all the same
	hostsAreMute = "CASTNET_SUPERVISION_DEAD_AFTER=1h"
)

// worldFamilies are those whose rows are about what outlives its maker.
func worldFamilies() []family {
	return []family{
		{[]row{{fmt.Sprintf("worlds-reconcile-%d-ms", worldCount), "ms", false}}, worldsContest(0)},
		{[]row{{fmt.Sprintf("detached-reconcile-%d-ms", detachedToo), "ms", false}}, worldsContest(detachedToo)},
	}
}

// continent is a server with a store, imagined hosts, worlds on them, and a system controller in a
// process of its own.
type continent struct {
	*ground
	url, token string
	client     *actor.Proc
	hosts      []*imagined
	system     *child
	live       chan string // worlds reported as live
	worlds     int
	detached   int
	epoch      uint64 // of the owner of the detached meshes
}

// worldsContest measures the takeover of a system controller whose predecessor was just killed. It
// ends when each world is reported live and the hosts of the detached meshes know the controller;
// against a millisecond.
func worldsContest(detached int) func(context.Context, *ground) (contest, error) {
	return func(ctx context.Context, g *ground) (contest, error) {
		c := &continent{
			ground: g, token: rand.Text(), live: make(chan string, 1<<16),
			worlds: max(worldCount/g.shrink, worldHosts), detached: detached / g.shrink,
		}
		if err := c.found(ctx); err != nil {
			return nil, err
		}
		return c.contest(), nil
	}
}

func (c *continent) contest() contest {
	ours := func(ctx context.Context) ([]float64, error) {
		c.system.end()
		for len(c.live) > 0 {
			<-c.live
		}
		start := time.Now()
		if err := c.govern(); err != nil {
			return nil, err
		}
		if err := c.await(ctx, c.worlds); err != nil {
			return nil, err
		}
		c.epoch++
		if err := c.owned(ctx); err != nil {
			return nil, err
		}
		took := since(start, time.Millisecond)
		return []float64{took}, c.note(ctx, took)
	}
	return against("one-millisecond", ours, constant(1))
}

// found makes everything there is, and waits until all worlds are live.
func (c *continent) found(ctx context.Context) error {
	srv, err := startRole(serverRole, tokenEnv+"="+c.token, storeEnv+"=yes")
	if err != nil {
		return err
	}
	c.later(func(context.Context) error { return endChildren(srv) })
	c.url, err = srv.line(ctx)
	if err != nil {
		return err
	}
	c.later(func(context.Context) error { c.system.end(); return nil })
	if err := c.govern(); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	ref, err := c.controller(ctx)
	if err != nil {
		return err
	}
	failed := make([]error, len(c.hosts))
	var all sync.WaitGroup
	for i, h := range c.hosts {
		all.Go(func() {
			for n := i; n < c.worlds && failed[i] == nil; n += len(c.hosts) {
				failed[i] = declare(ctx, ref, h, fmt.Sprintf("w%d", n))
			}
		})
	}
	all.Wait()
	if errors.Join(failed...) != nil {
		return errors.Join(failed...)
	}
	if err := c.await(ctx, c.worlds); err != nil {
		return err
	}
	return c.detach(ctx, ref)
}

// settle starts the hosts, and who listens.
func (c *continent) settle(ctx context.Context) error {
	for i := range worldHosts {
		h, err := c.imagine(ctx, fmt.Sprintf("h%d", i))
		if err != nil {
			return err
		}
		c.hosts = append(c.hosts, h)
	}
	id, err := subjects.NewHostID("bench")
	if err != nil {
		return err
	}
	c.client, err = c.proc(ctx, id, subjects.Program.Principal("bench"), actor.Registry{})
	if err != nil {
		return err
	}
	_, err = c.client.Bus().Control().Subscribe(subjects.Space{}.Events(actor.KindMesh, subjects.MeshID{}),
		func(m bus.Msg) {
			if e, err := actor.DecodeEvent(m.Data); err == nil && e.Step == "world.live" {
				c.live <- e.Mesh
			}
		})
	return err
}

// proc is a proc with a bus of its own, until the ground is closed.
func (c *continent) proc(ctx context.Context, id subjects.HostID, as subjects.Principal,
	registry actor.Registry) (*actor.Proc, error) {
	b, err := bus.Open(ctx, bus.Options{URL: c.url, Token: c.token, Name: id.Label(), Log: server.Log()})
	if err != nil {
		return nil, err
	}
	c.later(b.Close)
	p, err := actor.NewProc(ctx, actor.Options{
		ID: id.Proc(), Principal: as, Bus: b, Registry: registry, Log: server.Log(),
	})
	if err == nil {
		c.later(p.Close)
	}
	return p, err
}

// govern starts a system controller.
func (c *continent) govern() (err error) {
	c.system, err = startRole(systemRole, urlEnv+"="+c.url, tokenEnv+"="+c.token, hostsAreMute)
	return err
}

// controller is the system controller, once one answers.
func (c *continent) controller(ctx context.Context) (ref actor.Ref[*system.Controller], err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ref, err = system.Find(ctx, c.client)
		if !errors.Is(err, system.ErrNoController) || ctx.Err() != nil {
			return ref, err
		}
	}
}

// declare has a host run all of a new world.
func declare(ctx context.Context, ref actor.Ref[*system.Controller], h *imagined, name string) error {
	spec := system.Spec{Name: name, Shape: shape.Of("x", worldProcs), PerHost: worldProcs,
		Command: agent.Command{Path: agent.Builtin}}
	if _, err := system.Upsert.Call(ctx, ref, system.UpsertRequest{Spec: spec}); err != nil {
		return err
	}
	_, err := system.Join.Call(ctx, ref,
		system.JoinRequest{World: name, Host: &system.HostJoin{ID: h.id, Incarnation: h.info().Incarnation()}})
	return err
}

// await waits until n worlds are live.
func (c *continent) await(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	live := map[string]bool{}
	for len(live) < n {
		select {
		case mesh := <-c.live:
			live[mesh] = true
		case <-ctx.Done():
			return fmt.Errorf("%d of %d worlds are live: %w", len(live), n, ctx.Err())
		}
	}
	return nil
}

// note says how large the controller is, and what it takes when nothing happens.
func (c *continent) note(ctx context.Context, took float64) error {
	if _, err := c.system.line(ctx); err != nil {
		return err
	}
	before, err := c.system.used(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	select {
	case <-time.After(worldsIdle / time.Duration(c.shrink)):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := c.system.used(ctx)
	const percent = 100
	fmt.Fprintf(c.notes, "worlds: %d worlds and %d detached meshes with %d procs each: live after %.0f ms; "+
		"the controller has %d MiB, and takes %.2f %% of a CPU when nothing happens\n",
		c.worlds, c.detached, worldProcs, took, c.system.resident(),
		percent*float64(after-before)/float64(time.Since(start)))
	return err
}

// resident is how many MiB of a child are in memory; 0 where the system does not say.
func (c *child) resident() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kib, _ := strconv.Atoi(string(bytes.Fields(rest)[0])) // not a number: no report
			return kib >> 10
		}
	}
	return 0
}

// playSystem is a system controller.
func playSystem(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var limits config.Config
	if err := limits.LoadEnv(os.Getenv); err != nil {
		return err
	}
	b, err := bus.Open(ctx, busOptions("bench-system"))
	if err != nil {
		return err
	}
	s, err := system.Start(ctx, system.Options{Bus: b, Label: "bench", Config: &limits, Log: server.Log()})
	if err != nil {
		return errors.Join(err, b.Close(ctx))
	}
	_, err = fmt.Fprintln(out, "ready")
	if err == nil {
		err = lines.Serve(in, out, answerCPU)
	}
	ctx, cancel = context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(err, s.Close(ctx), b.Close(ctx))
}
