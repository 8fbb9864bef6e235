package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/examples/status"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// within bounds the dinner.
const within = 10 * time.Minute

func main() {
	proc.Main(definitions()...) // the process of a philosopher or a fork never returns
	meals := flag.Int("meals", 20, "meals for each philosopher")
	choke := flag.String("choke", "Laozi", "who dies at the table; empty: nobody")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, *meals, *choke, os.Stdout)
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "philosophers: interrupted")
		os.Exit(130)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "philosophers: %v\n", err)
		os.Exit(1)
	}
}

// run starts two hosts, runs a dinner on them, and stops them.
func run(ctx context.Context, meals int, choke string, out io.Writer) (err error) {
	victim := slices.Index(names[:], choke)
	if meals < 1 || victim < 0 && choke != "" {
		return fmt.Errorf("%d meals, %q chokes: want 1 meal or more, and one of %s, or nobody", meals, choke,
			strings.Join(names[:], ", "))
	}
	server, err := embed.Start(ctx, embed.Options{Token: rand.Text()})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	conn, err := mesh.Connect(ctx, mesh.Options{Server: server})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }() // stops all the rest
	hosts, err := conn.Allocate(ctx, host.LocalHosts{Label: "here"}, "local", shape.Of("host", 2))
	if err != nil {
		return err
	}
	drawer, err := hosts.Slice("host", 1, 2).Spawn(ctx, "forks", shape.Of("fork", len(names)))
	if err != nil {
		return err
	}
	cutlery, err := mesh.Spawn(ctx, drawer, fork, "fork", actor.None{})
	if err != nil {
		return err
	}
	seats, err := hosts.Slice("host", 0, 1).Spawn(ctx, "seats", shape.Of("seat", len(names)))
	if err != nil {
		return err
	}
	guests, err := mesh.Spawn(ctx, seats, philosopher, "philosopher", actor.None{})
	if err != nil {
		return err
	}
	dinner := Dinner{Meals: meals, Choke: victim}
	for i := range names {
		dinner.Forks = append(dinner.Forks, cutlery.At("fork", i))
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return serve(ctx, conn, guests, dinner, out)
}

// serve runs the dinner and reports it.
func serve(ctx context.Context, conn *mesh.Net, guests mesh.ActorMesh[*Philosopher], dinner Dinner,
	out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var t table
	line := status.Start(out, t.String)
	defer line.Stop()
	moments := actor.OpenPort[Moment](conn.Proc())
	defer moments.Close()
	dinner.Report = moments.Ref()
	var work sync.WaitGroup
	defer func() { cancel(nil); work.Wait() }()
	work.Go(func() { // hosts report the dead
		for e, err := range guests.Procs().Watch(ctx) {
			if err == nil {
				line.Print(fmt.Sprintf("%s is dead: %s", names[e.Rank], e))
				err = moments.Ref().Via(conn.Proc()).Send(ctx, Moment{e.Rank, Dies, e.At})
			}
			if err != nil {
				cancel(err)
			}
		}
	})
	var answer error
	work.Go(func() {
		_, answer = cast.Gather(ctx, guests, dine, dinner)
		if missing := missing(answer); !slices.Equal(missing, dinner.dies()) {
			cancel(fmt.Errorf("no answer from ranks %v, and %v was to die: %w", missing, dinner.dies(), answer))
		}
	})
	began := time.Now()
	for !t.over(dinner.Meals) {
		m, err := moments.Recv(ctx)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		t.add(m)
	}
	took := time.Since(began)
	line.Stop()
	if err := t.check(dinner.Meals); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\ndinner is over after %.1f s: no fork was ever in two hands, and all who live have "+
		"had %d meals\n", &t, took.Seconds(), dinner.Meals)
	return nil
}

// missing returns the ranks without a reply to a cast.
func missing(err error) (ranks []int) {
	if partial, ok := errors.AsType[*cast.CoverageError](err); ok {
		for _, f := range partial.Coverage.Failed {
			ranks = append(ranks, f.Rank)
		}
	}
	return ranks
}
