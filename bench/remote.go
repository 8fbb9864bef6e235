package main

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/castnet-io/castnet/bench/remote"
)

const (
	natsSuffix     = "-nats"
	peerSuffix     = "-peer"
	embeddedSuffix = "-embedded"

	rawName = "nats"

	// Meanings of the second value of a burst.
	lost    = "lost"
	refused = "refused"
)

// between is a workload that is measured between two processes.
type between struct {
	remote.Workload
	row      string // the first, for notes
	cpu      bool   // the CPU time of a message is a row, too
	embedded bool   // the server is in the receiver's process
	trouble  string // what the second value counts, which is to be 0; "": it is a row
}

// remoteFamilies are those whose rows compare messages between two processes.
func remoteFamilies() []family {
	var all []family
	add := func(workload, trouble string, embedded bool, rows []row, contest func(between) setup) {
		w, _ := remote.Find(workload)
		if embedded {
			for i := range rows {
				rows[i].name += embeddedSuffix
			}
		}
		b := between{Workload: w, row: rows[0].name, embedded: embedded, trouble: trouble}
		all = append(all, family{rows, contest(b)})
	}
	for _, embedded := range []bool{false, true} {
		for _, name := range []string{"remote-tell-64B", "remote-tell-1KiB"} {
			add(name, lost, embedded, []row{{name + peerSuffix, "msgs/s", true}}, remotePeersContest)
			add(name, lost, embedded, []row{{name + natsSuffix, "msgs/s", true}}, remoteNATSContest)
		}
		add("remote-ask", "", embedded,
			[]row{{"remote-ask-p50" + natsSuffix, "us", false}, {"remote-ask-p99" + natsSuffix, "us", false}},
			remoteNATSContest)
		add("remote-ask-64", "", embedded, []row{{"remote-ask-64" + peerSuffix, "asks/s", true}},
			remotePeersContest)
	}
	for _, size := range []string{"64KiB", "1MiB", "16MiB"} {
		name := "remote-tell-" + size
		add(name, lost, false, []row{{name + natsSuffix, "msgs/s", true}}, remoteNATSContest)
		name = "remote-ask-" + size
		add(name, "", false, []row{{name + "-p50" + natsSuffix, "us", false}, {name + "-p99" + natsSuffix, "us", false}},
			remoteNATSContest)
	}
	add("route-burst", refused, false, []row{{"route-burst-lost", "messages", false}}, routeContest)
	add("flood-rss", "", false, []row{{"flood-rss", "MiB", false}}, floodContest)
	return all
}

// remoteNATSContest measures ours against plain NATS, through one server when it is not in a
// process of each.
func remoteNATSContest(b between) setup {
	return func(ctx context.Context, g *ground) (contest, error) {
		s, server, err := b.site(ctx, g)
		if err != nil {
			return nil, err
		}
		o, err := b.lasting(ctx, g, oursName, own(oursRole, s), server)
		if err != nil {
			return nil, err
		}
		base, err := b.lasting(ctx, g, rawName, own(rawRole, s), server)
		return against(rawName, o, base), err
	}
}

// remotePeersContest measures ours against all peers (BENCH-6), which have no server.
func remotePeersContest(b between) setup {
	return func(ctx context.Context, g *ground) (contest, error) {
		s, server, err := b.site(ctx, g)
		if err != nil {
			return nil, err
		}
		o, err := b.lasting(ctx, g, oursName, own(oursRole, s), server)
		if err != nil {
			return nil, err
		}
		c := contest{{oursName, o}}
		for _, p := range peers() {
			program, err := g.builds.program(ctx, p)
			if err != nil {
				return nil, err
			}
			side, err := b.lasting(ctx, g, p.String(), foreign(p, program), nil)
			if err != nil {
				return nil, err
			}
			c = append(c, contender{p.String(), side})
		}
		return c, nil
	}
}

// site starts the server, unless it is to be in the receiver's process.
func (b between) site(ctx context.Context, g *ground) (site, *child, error) {
	s := site{token: rand.Text()}
	if b.embedded {
		return s, nil, nil
	}
	c, err := startRole(serverRole, tokenEnv+"="+s.token)
	if err != nil {
		return s, nil, err
	}
	g.later(func(context.Context) error { return endChildren(c) })
	s.url, err = c.line(ctx)
	return s, c, err
}

// lasting runs the workload for each repeat in a pair that lasts as long as the ground.
func (b between) lasting(ctx context.Context, g *ground, name string, start endStarter,
	server *child) (side, error) {
	p, err := startPair(ctx, start)
	p.server = server
	g.later(func(context.Context) error { return p.end() })
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) ([]float64, error) { return b.perform(ctx, g, name, p) }, nil
}

// perform runs the workload once, and notes what a message cost.
func (b between) perform(ctx context.Context, g *ground, name string, p *pair) ([]float64, error) {
	n := max(b.Size/g.shrink, 1)
	values, used, err := p.perform(ctx, b.Workload, n)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(g.notes, "%s: %s, each: %s\n", b.row, name, costs(used, n))
	if b.trouble != "" {
		values, err = b.untroubled(g, name, values)
	}
	if b.cpu {
		values = append(values, cpuOf(used, n))
	}
	return values, err
}

// untroubled takes the count of troubles from the values. Only plain NATS may have some.
func (b between) untroubled(g *ground, name string, values []float64) ([]float64, error) {
	if len(values) != 2 {
		return nil, fmt.Errorf("%s: want 2 values, got %v", b.Name, values)
	}
	if values[1] > 0 {
		fmt.Fprintf(g.notes, "%s: %s: %.0f messages were %s\n", b.row, name, values[1], b.trouble)
		if name != rawName {
			return nil, fmt.Errorf("%.0f messages were %s", values[1], b.trouble)
		}
	}
	return values[:1], nil
}
