package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

const (
	killedHosts  = 20 // in one repeat
	bounded      = 4  // hosts that starve, or lose their server
	busyLoops    = 8
	starvedTime  = 60 * time.Second
	starvedQuota = 5000 // of 100,000 µs
	betweenKills = 37 * time.Millisecond
)

// presenceFamilies are those whose rows are about who is there, as another process sees it.
func presenceFamilies() []family {
	const ms = "ms"
	return []family{
		{[]row{{"detect-host-p99-ms", ms, false}}, detectContest(false)},
		{[]row{{"detect-host-close-p99-ms", ms, false}}, detectContest(true)},
		{[]row{{"false-deaths-starved", "hosts", false}}, starvedContest},
		{[]row{{"bus-restart-recovery-ms", ms, false}}, restartContest},
	}
}

// flock is hosts, each a process of its own, and who watches them in this one.
type flock struct {
	*ground
	url, token string
	server     *child
	children   map[subjects.HostID]*child
	watcher    *presence.Watcher
	changes    chan heard
	dead       int
}

// heard is a change, and the time of the watcher's report.
type heard struct {
	presence.Change
	at time.Time
}

// newFlock starts a server, which hands on hints or does not, and begins to watch.
func newFlock(ctx context.Context, g *ground, hints bool) (*flock, error) {
	f := &flock{ground: g, token: rand.Text(), children: map[subjects.HostID]*child{},
		changes: make(chan heard, 1<<16)}
	var env []string
	if hints {
		env = append(env, hintsEnv+"=yes")
	}
	g.later(func(context.Context) error { return f.endServer() })
	if err := f.startServer(ctx, env...); err != nil {
		return nil, err
	}
	b, err := bus.Open(ctx, bus.Options{URL: f.url, Token: f.token, Name: "bench", Log: server.Log()})
	if err != nil {
		return nil, err
	}
	g.later(b.Close)
	id, err := subjects.NewHostID("bench")
	if err != nil {
		return nil, err
	}
	p, err := actor.NewProc(ctx, actor.Options{ID: id.Proc(), Bus: b, Log: server.Log()})
	if err != nil {
		return nil, err
	}
	g.later(p.Close)
	f.watcher, err = presence.New(p)
	if err != nil {
		return nil, err
	}
	g.later(func(context.Context) error { f.watcher.Close(); return nil })
	return f, nil
}

func (f *flock) startServer(ctx context.Context, env ...string) (err error) {
	f.server, err = startRole(serverRole, append(env, tokenEnv+"="+f.token)...)
	if err != nil {
		return err
	}
	f.url, err = f.server.line(ctx)
	return err
}

func (f *flock) endServer() error {
	if f.server == nil {
		return nil
	}
	defer func() { f.server = nil }()
	return endChildren(f.server)
}

// add starts n hosts, and waits until all are alive.
func (f *flock) add(ctx context.Context, n int) ([]subjects.HostID, error) {
	var started []*child
	for i := range n {
		c, err := startRole(hostRole, urlEnv+"="+f.url, tokenEnv+"="+f.token, labelEnv+"="+fmt.Sprint("h", i))
		if err != nil {
			return nil, err
		}
		f.later(func(context.Context) error { c.end(); return nil }) // a second time does nothing
		started = append(started, c)
	}
	var ids []subjects.HostID
	for _, c := range started {
		line, err := c.line(ctx)
		if err != nil {
			return nil, err
		}
		id, err := subjects.ParseHostID(line)
		if err != nil {
			return nil, err
		}
		f.children[id] = c
		ids = append(ids, id)
	}
	cancel := f.watcher.Watch(ids, func(c presence.Change) { f.changes <- heard{c, time.Now()} })
	f.later(func(context.Context) error { cancel(); return nil })
	return ids, f.await(ctx, presence.Alive, ids, nil)
}

// end ends a child that may have been killed.
func (c *child) end() {
	c.in.Close()
	c.kill()
	_ = c.cmd.Wait() // it was killed
}

func (f *flock) kill(id subjects.HostID) {
	if c := f.children[id]; c != nil {
		delete(f.children, id)
		c.end()
	}
}

// await waits until the last word of each host is that state, and says when that came.
func (f *flock) await(ctx context.Context, s presence.State, hosts []subjects.HostID,
	at map[subjects.HostID]time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	left := map[subjects.HostID]bool{}
	for _, h := range hosts {
		left[h] = true
	}
	for len(left) > 0 {
		select {
		case c := <-f.changes:
			if c.State == presence.Dead {
				f.dead++
			}
			delete(left, c.Host)
			if c.State != s {
				left[c.Host] = true
			} else if at != nil {
				at[c.Host] = c.at
			}
		case <-ctx.Done():
			return fmt.Errorf("%d hosts are not told to be %s: %w", len(left), s, ctx.Err())
		}
	}
	return nil
}

// detectContest kills hosts one after the other, and takes how long it is until the watcher says
// that they are dead; against a millisecond.
func detectContest(hints bool) setup {
	return func(ctx context.Context, g *ground) (contest, error) {
		f, err := newFlock(ctx, g, hints)
		if err != nil {
			return nil, err
		}
		ours := func(ctx context.Context) ([]float64, error) {
			ids, err := f.add(ctx, max(killedHosts/f.shrink, 2))
			if err != nil {
				return nil, err
			}
			time.Sleep(time.Second) // each has sent a heartbeat
			killed, told := map[subjects.HostID]time.Time{}, map[subjects.HostID]time.Time{}
			for _, id := range ids {
				killed[id] = time.Now()
				f.kill(id)
				time.Sleep(betweenKills)
			}
			if err := f.await(ctx, presence.Dead, ids, told); err != nil {
				return nil, err
			}
			var took []float64
			for _, id := range ids {
				took = append(took, float64(told[id].Sub(killed[id]))/float64(time.Millisecond))
			}
			return []float64{quantile(took, 0.99)}, nil
		}
		return against("one-ms", ours, constant(1)), nil
	}
}

// restartContest restarts the server, and takes how long it is from when it is back until all hosts
// are alive; against a millisecond. None may be dead.
func restartContest(ctx context.Context, g *ground) (contest, error) {
	f, err := newFlock(ctx, g, false)
	if err != nil {
		return nil, err
	}
	ids, err := f.add(ctx, bounded)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(f.url)
	if err != nil {
		return nil, err
	}
	ours := func(ctx context.Context) ([]float64, error) {
		if err := f.endServer(); err != nil {
			return nil, err
		}
		if err := f.startServer(ctx, portEnv+"="+at.Port()); err != nil {
			return nil, err
		}
		start := time.Now()
		err := f.await(ctx, presence.Alive, ids, nil)
		took := since(start, time.Millisecond)
		if f.dead > 0 {
			err = errors.Join(err, fmt.Errorf("%d hosts were taken for dead", f.dead))
		}
		return []float64{took}, err
	}
	return against("one-ms", ours, constant(1)), nil
}

// starvedContest gives hosts 5 % of a processor, beside busy loops, and counts those that are taken
// for dead; against one.
func starvedContest(ctx context.Context, g *ground) (contest, error) {
	group := filepath.Join("/sys/fs/cgroup/cpu", fmt.Sprintf("bench-of-castnet-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		return nil, fmt.Errorf("set a quota: %w", err)
	}
	g.later(func(context.Context) error { return removeGroup(group) })
	if err := os.WriteFile(filepath.Join(group, "cpu.cfs_quota_us"), []byte(strconv.Itoa(starvedQuota)),
		0o600); err != nil {
		return nil, err
	}
	f, err := newFlock(ctx, g, true)
	if err != nil {
		return nil, err
	}
	if _, err := f.add(ctx, bounded); err != nil {
		return nil, err
	}
	var starved []*child
	for range busyLoops {
		c, err := startChild("busy loop", exec.Command("/bin/sh", "-c", "while :; do :; done"))
		if err != nil {
			return nil, err
		}
		g.later(func(context.Context) error { c.end(); return nil })
		starved = append(starved, c)
	}
	for _, c := range f.children {
		starved = append(starved, c)
	}
	for _, c := range starved {
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(c.cmd.Process.Pid)),
			0o600); err != nil {
			return nil, err
		}
	}
	ours := func(ctx context.Context) ([]float64, error) {
		before := f.dead
		for over := time.After(starvedTime / time.Duration(f.shrink)); ; {
			select {
			case c := <-f.changes:
				if c.State == presence.Dead {
					f.dead++
				}
			case <-over:
				return []float64{float64(f.dead - before)}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return against("one", ours, constant(1)), nil
}

// removeGroup removes a cgroup whose processes have ended, or are about to.
func removeGroup(dir string) error {
	for range 100 {
		if err := os.Remove(dir); !errors.Is(err, syscall.EBUSY) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s: %w", dir, syscall.EBUSY)
}
