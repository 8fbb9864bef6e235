package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

const (
	noticeWithin = 10 * time.Second
	closeWithin  = 20 * time.Second
)

// story is one run of the program.
type story struct {
	settings
	out      io.Writer
	cluster  *cluster // nil with running hosts
	net      *mesh.Net
	procs    mesh.ProcMesh
	counters mesh.ActorMesh[*counting.Counter]
}

// run runs all steps and cleans up in any case (DEMO-1).
func run(ctx context.Context, s settings, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	st := &story{settings: s, out: out}
	err := st.tell(ctx, cancel)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // the death of a host is the cause of later errors
	}
	began := time.Now()
	err = errors.Join(err, st.close())
	if err == nil {
		fmt.Fprintf(out, "\ncleaned up in %s\n", brief(time.Since(began)))
	}
	return err
}

func (s *story) tell(ctx context.Context, died func(error)) error {
	if err := s.join(ctx, died); err != nil {
		return err
	}
	if err := s.spawn(ctx); err != nil {
		return err
	}
	if err := s.count(ctx); err != nil {
		return err
	}
	return s.kill(ctx)
}

// join connects to running hosts, or starts a cluster.
func (s *story) join(ctx context.Context, died func(error)) (err error) {
	options := mesh.Options{Label: "wordcount"}
	if s.binary != "" {
		if _, err := os.ReadDir(s.folder); err != nil { // own hosts share this disk
			return err
		}
		s.cluster, err = startCluster(ctx, s.settings, died)
		if err != nil {
			return err
		}
		options.Bus = s.cluster.options()
	}
	s.net, err = mesh.Connect(ctx, options)
	return err
}

// spawn starts the procs, which run this program, with a counter in each.
func (s *story) spawn(ctx context.Context) error {
	await, cancel := context.WithTimeout(ctx, s.await)
	defer cancel()
	hosts, err := s.net.AwaitHosts(await, max(s.hosts, 1))
	if err != nil {
		return err
	}
	began := time.Now()
	s.procs, err = hosts.Spawn(ctx, "words", shape.Of("proc", s.perHost))
	if err != nil {
		return err
	}
	s.counters, err = mesh.Spawn(ctx, s.procs, counting.Type, "counters", actor.None{})
	if err != nil {
		return err
	}
	s.introduce(hosts.Infos(), time.Since(began))
	return nil
}

// count runs the count on all ranks.
func (s *story) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	began := time.Now()
	bar := startBar(ctx, os.Stderr,
		func(ctx context.Context) (counting.Done, error) { return counting.Look(ctx, s.counters) })
	shares, err := counting.Count(ctx, s.counters, counting.Job{Folder: s.folder, Suffix: s.suffix})
	bar.stop()
	if err != nil {
		return fmt.Errorf("count the words in %s: %w", s.folder, err)
	}
	counted := time.Now()
	limit := counting.Limit(s.net.Bus().Data().MaxPayload())
	total, err := counting.Fold(ctx, s.counters, counting.Shards(shares, limit), limit)
	if err != nil {
		return err
	}
	s.ranks(shares)
	s.top(total.Counts)
	s.summary(shares, total, counted.Sub(began), time.Since(counted))
	return nil
}

// kill ends one proc with SIGKILL and shows the report at its owner, this program.
func (s *story) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, noticeWithin)
	defer cancel()
	victim := s.counters.Extent().NumRanks() * 5 / 8
	host, err := s.procs.Host(victim)
	if err != nil {
		return err
	}
	pid, err := s.pid(ctx, victim)
	if err != nil {
		return err
	}
	heard := s.listen(ctx, victim)
	defer func() { // the report has no reader after the return
		cancel()
		for range heard {
		}
	}()
	if _, err := cast.Gather(ctx, s.counters, counting.Progress, actor.None{}); err != nil {
		return fmt.Errorf("before the kill: %w", err)
	}
	fmt.Fprintf(s.out, "\nkill -9 %d: rank %d (%s) on host %s\n", pid, victim, s.where(victim), host.Label())
	began := time.Now()
	if err := s.sigkill(ctx, victim, pid); err != nil {
		return err
	}
	select {
	case n, ok := <-heard:
		if !ok || n.err != nil {
			return errors.Join(n.err, ctx.Err())
		}
		fmt.Fprintf(s.out, "  its owner knows after %s: %s\n", brief(n.at.Sub(began)), n.event)
	case <-ctx.Done():
		return fmt.Errorf("the end of rank %d was not heard of: %w", victim, ctx.Err())
	}
	return s.others(ctx, victim)
}

// sigkill ends a proc: by its pid on own hosts, by a message to the rank on others.
func (s *story) sigkill(ctx context.Context, rank, pid int) error {
	if s.cluster != nil {
		return syscall.Kill(pid, syscall.SIGKILL)
	}
	return counting.Crash.Send(ctx, s.counters.Ref(rank), actor.None{})
}

// others shows that a cast still reaches the live ranks and names the dead one.
func (s *story) others(ctx context.Context, victim int) error {
	began := time.Now()
	_, err := cast.Gather(ctx, s.counters, counting.Progress, actor.None{})
	partial, ok := errors.AsType[*cast.CoverageError](err)
	if !ok {
		return fmt.Errorf("a cast to a dead rank: want an error that names it, got %v", err) //nolint:errorlint // it may be nil
	}
	c := partial.Coverage
	if c.Answered != c.Asked-1 || len(c.Failed) != 1 || c.Failed[0].Rank != victim {
		return fmt.Errorf("after the kill: %w", err)
	}
	fmt.Fprintf(s.out, "  the others still answer, in %s: %s\n", brief(time.Since(began)), c)
	fmt.Fprintf(s.out, "  rank %d does not: %v\n", victim, c.Failed[0].Err)
	return nil
}

// pid asks the hosts for the process ID of a rank.
func (s *story) pid(ctx context.Context, rank int) (int, error) {
	all, err := s.net.Meshes(ctx)
	if err != nil {
		return 0, err
	}
	for _, m := range all {
		for _, st := range m.States {
			if st.ID == s.procs.ID().String() && st.Rank == rank && st.Proc != nil {
				return st.Proc.PID, nil
			}
		}
	}
	return 0, fmt.Errorf("no host knows a process for rank %d of %s", rank, s.procs.ID())
}

// notice is a reported end with its time.
type notice struct {
	event actor.Event
	at    time.Time
	err   error
}

// listen waits for the end of a rank.
func (s *story) listen(ctx context.Context, rank int) <-chan notice {
	heard := make(chan notice, 1)
	go func() {
		defer close(heard)
		for e, err := range s.procs.Watch(ctx) {
			if err != nil || e.Rank == rank {
				heard <- notice{e, time.Now(), err}
				return
			}
		}
	}()
	return heard
}

// close stops everything that was started (DEMO-1).
func (s *story) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	var errs []error
	if s.net != nil {
		errs = append(errs, s.net.Close(ctx))
	}
	if s.cluster != nil {
		errs = append(errs, s.cluster.stop())
	}
	return errors.Join(errs...)
}

// entry is a word with its count.
type entry struct {
	word string
	n    int64
}

// most returns the most frequent words, equal ones in alphabetical order.
func most(counts map[string]int64, n int) []entry {
	all := make([]entry, 0, len(counts))
	for word, n := range counts {
		all = append(all, entry{word, n})
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.word, b.word))
	})
	return all[:min(n, len(all))]
}
