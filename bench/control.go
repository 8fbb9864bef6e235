package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

const (
	controlHosts   = 100
	controlPerHost = 10
	fewestHosts    = 4 // however much the row is shrunk

	// controlQuiet is the pause that ends an operation: longer than the delays of acknowledgements
	// and repeats.
	controlQuiet = 500 * time.Millisecond
)

// controlFamilies are those whose rows count the messages of operations on meshes.
func controlFamilies() []family {
	name := fmt.Sprintf("control-messages-%dx%d", controlHosts, controlPerHost)
	return []family{{[]row{{name, "messages", false}}, onServer(false, controlContest)}}
}

// controlContest counts what spawning, looking at and stopping a mesh puts on the bus, and takes
// what is the most; against the number of hosts.
func controlContest(ctx context.Context, r *rig) (contest, error) {
	n := max(controlHosts/r.shrink, fewestHosts)
	if err := r.addSimulated(ctx, n); err != nil {
		return nil, err
	}
	ours := func(ctx context.Context) ([]float64, error) {
		most := 0
		ops, err := r.countControl(ctx, controlPerHost)
		for _, op := range ops {
			fmt.Fprintln(r.notes, op)
			most = max(most, op.total())
		}
		return []float64{float64(most)}, err
	}
	base := func(context.Context) ([]float64, error) { return []float64{float64(n)}, nil }
	return against("hosts", ours, base), nil
}

// addSimulated starts n hosts with their procs in one process, and joins them.
func (r *rig) addSimulated(ctx context.Context, hosts int) error {
	if _, err := r.launch(ctx, launch{simulatedRole,
		[]string{hostsEnv + "=" + strconv.Itoa(hosts)}}); err != nil {
		return err
	}
	return r.connect(ctx, hosts)
}

// traffic is what one operation put on the bus.
type traffic struct {
	op    string
	kinds map[string]int // by the kind of subject, events by their kind, too
}

func (t traffic) total() (n int) {
	for _, each := range t.kinds {
		n += each
	}
	return n
}

// exchanged is how many requests and replies there were: what is on the subjects of ports, casts
// and links, but for what keeps a link whole.
func (t traffic) exchanged() int { return t.kinds["p"] + t.kinds["k"] + t.kinds["f"] }

// String is a line of the table.
func (t traffic) String() string {
	line := fmt.Sprintf("control-messages: %s: %d in all, %d requests and replies:", t.op, t.total(),
		t.exchanged())
	for _, kind := range slices.Sorted(maps.Keys(t.kinds)) {
		line += fmt.Sprintf(" %s=%d", kind, t.kinds[kind])
	}
	return line
}

// countControl spawns a mesh on all hosts, asks each how its ranks are, and stops it.
func (r *rig) countControl(ctx context.Context, perHost int) (_ []traffic, err error) {
	heard := make(chan *nats.Msg, 1<<16)
	sub, err := r.raw.ChanSubscribe("castnet.>", heard)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.Unsubscribe()) }()
	if err := r.raw.FlushTimeout(patience); err != nil {
		return nil, err
	}
	drained(heard) // what is left of earlier ones
	var procs mesh.ProcMesh
	var all []traffic
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"spawn", func() (err error) {
			procs, err = r.hosts.Spawn(ctx, "counted", shape.Of("proc", perHost))
			return err
		}},
		{"status", func() error { return r.statuses(ctx, procs) }},
		{"stop", func() error { return procs.Stop(ctx) }},
	} {
		if err := op.do(); err != nil {
			return all, fmt.Errorf("%s: %w", op.name, err)
		}
		all = append(all, traffic{op.name, drained(heard)})
	}
	if n, err := sub.Dropped(); err != nil || n > 0 {
		return all, errors.Join(err, fmt.Errorf("%d messages were not counted", n))
	}
	return all, nil
}

// statuses asks each host how its ranks of a mesh are, as their controller does.
func (r *rig) statuses(ctx context.Context, procs mesh.ProcMesh) error {
	hosts := procs.Describe().Hosts
	errs := make(chan error, len(hosts))
	for _, h := range hosts {
		go func() {
			o, err := agent.Keepalive.Call(ctx, agent.Of(h.Proc()).Via(r.net.Proc()),
				agent.Lease{ID: procs.ID().String()})
			if err == nil && len(o) == 0 {
				err = fmt.Errorf("host %s knows no rank", h)
			}
			errs <- err
		}()
	}
	var all error
	for range hosts {
		all = errors.Join(all, <-errs)
	}
	return all
}

// heartbeats are of no operation.
const heartbeats = "hb"

// drained counts what comes until it is quiet.
func drained(heard <-chan *nats.Msg) map[string]int {
	kinds := map[string]int{}
	quiet := time.NewTimer(controlQuiet)
	defer quiet.Stop()
	for {
		select {
		case m := <-heard:
			kind := kindOf(m)
			if kind == heartbeats {
				continue
			}
			kinds[kind]++
			quiet.Reset(controlQuiet)
		case <-quiet.C:
			return kinds
		}
	}
}

// kindOf is the kind of a message: that of its subject, which is the token after root, version and
// namespace; of an event with the token after it, of a link's packet with the kind that its third
// byte says.
func kindOf(m *nats.Msg) string {
	tokens := strings.Split(m.Subject, ".")
	const kind, beat, repair = 3, 2, 3
	switch {
	case len(tokens) <= kind+1:
		return m.Subject
	case tokens[kind] == "ev":
		return "ev." + tokens[kind+1]
	case tokens[kind] == "f" && len(m.Data) > 2 && m.Data[2] == beat:
		return "f.beat"
	case tokens[kind] == "f" && len(m.Data) > 2 && m.Data[2] == repair:
		return "f.repair"
	}
	return tokens[kind]
}

// playSimulated is many hosts in one process, which run their procs in it, too.
func playSimulated(in io.Reader, out io.Writer) error {
	n, err := strconv.Atoi(os.Getenv(hostsEnv))
	if err != nil {
		return fmt.Errorf("%s: %w", hostsEnv, err)
	}
	registry, err := actor.NewRegistry(actors())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	errs := make(chan error, n)
	started := make(chan *simulated, n)
	for i := range n {
		go func() {
			h, err := simulate(ctx, fmt.Sprintf("sim%03d", i), registry)
			started <- h
			errs <- err
		}()
	}
	var all []*simulated
	for range n {
		err = errors.Join(err, <-errs)
		if h := <-started; h != nil {
			all = append(all, h)
		}
	}
	if err == nil {
		err = untilEnd(in, out, "ready")
	}
	ctx, cancel = context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, h := range all {
		go func() { errs <- h.close(ctx) }()
	}
	for range all {
		err = errors.Join(err, <-errs)
	}
	return err
}

// simulated is a host that shares a process with others.
type simulated struct {
	bus  *bus.Bus
	host *host.Host
}

func simulate(ctx context.Context, label string, registry actor.Registry) (*simulated, error) {
	b, err := bus.Open(ctx, busOptions(label))
	if err != nil {
		return nil, err
	}
	h, err := host.Start(ctx, host.Options{
		Label: label, Bus: b, Log: server.Log(), Local: &host.Local{Registry: registry},
		Settings: agent.BusSettings{URL: os.Getenv(urlEnv), Token: os.Getenv(tokenEnv)},
	})
	if err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	return &simulated{b, h}, nil
}

func (s *simulated) close(ctx context.Context) error {
	return errors.Join(s.host.Close(ctx), s.bus.Close(ctx))
}
