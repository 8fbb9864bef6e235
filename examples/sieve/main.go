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
	"sync/atomic"
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

const (
	batch  = 8 << 10    // numbers in one message
	window = 16         // batches in the chain at a time
	most   = 50_000_000 // maximum limit: the first batch makes all filters
)

func main() {
	proc.Main(definitions()...) // a station's process never returns
	below := flag.Int("below", 1_000_000, "find the primes below this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	_, err := run(ctx, *below, os.Stdout)
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "sieve: interrupted")
		os.Exit(130)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sieve: %v\n", err)
		os.Exit(1)
	}
}

// run starts two hosts, runs the sieve on them, and stops them. It returns the primes in order.
func run(ctx context.Context, below int, out io.Writer) (primes []int, err error) {
	if below < 3 || below > most {
		return nil, fmt.Errorf("primes below %d: want a limit of 3 to %d", below, most)
	}
	server, err := embed.Start(ctx, embed.Options{Token: rand.Text()})
	if err != nil {
		return nil, err
	}
	defer server.Shutdown()
	conn, err := mesh.Connect(ctx, mesh.Options{Server: server})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }() // stops all the rest
	hosts, err := conn.Allocate(ctx, host.LocalHosts{Label: "here"}, "local", shape.Of("host", 2))
	if err != nil {
		return nil, err
	}
	procs, err := hosts.Spawn(ctx, "sieve", shape.Of("proc", 4))
	if err != nil {
		return nil, err
	}
	stations, err := mesh.Spawn(ctx, procs, station, "station", actor.None{})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	primes, err = find(ctx, conn, stations, below, out)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	filters, err := cast.Gather(ctx, stations, opened, actor.None{})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%s primes below %s in %.1f s, the last is %s\n",
		status.Count(len(primes)), status.Count(below), took.Seconds(), status.Count(primes[len(primes)-1]))
	fmt.Fprint(out, "filters in each process:")
	for _, n := range filters.Values() {
		fmt.Fprintf(out, " %d", n)
	}
	fmt.Fprintln(out)
	return primes, nil
}

// find feeds the chain and collects the primes.
func find(ctx context.Context, conn *mesh.Net, stations mesh.ActorMesh[*Station], below int,
	out io.Writer) ([]int, error) {
	found := actor.OpenPort[Finding](conn.Proc())
	defer found.Close()
	o := Opening{Below: below, Found: found.Ref()}
	for rank := range stations.Extent().NumRanks() {
		o.Stations = append(o.Stations, stations.Ref(rank))
	}
	first, err := open.Call(ctx, o.Stations[0], o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	entered := make(chan struct{}, window) // one slot per batch in the chain
	fed, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(fed)
		if err := feed(ctx, first.Via(conn.Proc()), below, entered); err != nil {
			cancel(err)
		}
	}()
	go func() {
		defer close(watched)
		for e, err := range stations.Watch(ctx) {
			cancel(cmp.Or(err, fmt.Errorf("a station is gone: %s", e.Report())))
		}
	}()
	defer func() { cancel(nil); <-fed; <-watched }()
	primes, err := collect(ctx, found, below, entered, out)
	return primes, cmp.Or(context.Cause(ctx), err) // the end of a station is the cause of later errors
}

// feed sends the numbers from 2 up into the chain, as fast as batches leave.
func feed(ctx context.Context, first actor.Ref[*Filter], below int, entered chan<- struct{}) error {
	for from := 2; from < below; from += batch {
		b := Batch{Last: from+batch >= below}
		for n := from; n < min(from+batch, below); n++ {
			b.Numbers = append(b.Numbers, n)
		}
		select {
		case entered <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := sift.Send(ctx, first, b); err != nil {
			return err
		}
	}
	return nil
}

// collect receives primes until every filter has reported its own and the last one is done.
func collect(ctx context.Context, found *actor.Port[Finding], below int, entered <-chan struct{},
	out io.Writer) ([]int, error) {
	var primes []int
	var count, at, filters atomic.Int64 // for the status line
	line := status.Start(out, func() string {
		n := int(at.Load())
		return fmt.Sprintf("sieve %s %s primes up to %s, %d filters", status.Bar(n, below, 24),
			status.Count(int(count.Load())), status.Count(n), filters.Load())
	})
	defer line.Stop()
	for all := -1; all != int(filters.Load()); {
		f, err := found.Recv(ctx)
		if err != nil {
			return nil, err
		}
		if f.Own != 0 {
			primes = append(primes, f.Own)
			filters.Add(1)
		} else {
			<-entered // the last filter reports each batch once
		}
		if f.Filters != 0 {
			all = f.Filters
		}
		primes = append(primes, f.Rest...)
		count.Store(int64(len(primes)))
		if n := len(primes); n > 0 {
			at.Store(max(at.Load(), int64(primes[n-1])))
		}
	}
	slices.Sort(primes)
	return primes, nil
}
