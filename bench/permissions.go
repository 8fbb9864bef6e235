package main

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/bench/remote"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/subjects"
)

const (
	unboundedName = "no-permissions"
	cpuSuffix     = "-cpu"
)

// publishes is how many publishes a repeat has.
const publishes = 20_000

// permissionFamilies compare users with permissions to users without any. A
// server remembers 128 answers about a connection: hence the numbers of peers.
func permissionFamilies() []family {
	var all []family
	for _, m := range []struct {
		name, unit, workload, trouble string
		size                          int
	}{
		{"tell", "msgs/s", "remote-tell-64B", lost, 300_000},
		{"ask", "asks/s", "remote-ask-64", "", 64_000},
	} {
		for _, peers := range peerCounts() {
			w, _ := remote.Find(m.workload)
			w.Size = m.size
			name := fmt.Sprintf("%s-permissions-%d", m.name, peers)
			b := between{Workload: w, row: name, trouble: m.trouble, cpu: true}
			rows := []row{{name, m.unit, true}, {name + cpuSuffix, "ns", false}}
			all = append(all, family{rows, permissionsContest(b, peers)})
		}
	}
	for _, peers := range peerCounts() {
		rows := []row{{fmt.Sprintf("publish-permissions-%d", peers), "ns", false}}
		all = append(all, family{rows, publishContest(peers)})
	}
	return all
}

func peerCounts() []int { return []int{1, 64, 128, 129, 512} }

// permissionsContest measures users with tickets against users with the token, on one server.
func permissionsContest(b between, peers int) setup {
	return func(ctx context.Context, g *ground) (contest, error) {
		s, c, err := ticketSite(ctx, g)
		if err != nil {
			return nil, err
		}
		count := fmt.Sprintf("%s=%d", peersEnv, peers)
		with, err := b.lasting(ctx, g, oursName, own(peersRole, s, count, ticketsEnv+"=yes"), c)
		if err != nil {
			return nil, err
		}
		without, err := b.lasting(ctx, g, unboundedName, own(peersRole, s, count), c)
		return against(unboundedName, with, without), err
	}
}

// ticketSite starts a server with tickets.
func ticketSite(ctx context.Context, g *ground) (site, *child, error) {
	s := site{token: ticket.NewToken()}
	c, err := startRole(serverRole, tokenEnv+"="+s.token, ticketsEnv+"=yes")
	if err != nil {
		return s, nil, err
	}
	g.later(func(context.Context) error { return endChildren(c) })
	s.url, err = c.line(ctx)
	return s, c, err
}

// publishContest measures the cost of a publish in the server alone, with plain NATS connections.
func publishContest(peers int) setup {
	return func(ctx context.Context, g *ground) (contest, error) {
		s, c, err := ticketSite(ctx, g)
		if err != nil {
			return nil, err
		}
		self, subjectsOfPeers, err := packetSubjects(peers)
		if err != nil {
			return nil, err
		}
		key, _ := ticket.KeyOf(s.token, subjects.Space{}, self.Principal)
		signed, _ := key.Sign(self)
		var sides []side
		for _, token := range []string{signed, s.token} {
			nc, err := rawConnect(s.url, token)
			if err != nil {
				return nil, err
			}
			g.later(func(context.Context) error { nc.Close(); return nil })
			sides = append(sides, func(ctx context.Context) ([]float64, error) {
				return publishCost(ctx, c, nc, subjectsOfPeers, max(publishes/g.shrink, 1))
			})
		}
		return against(unboundedName, sides[0], sides[1]), nil
	}
}

// packetSubjects are the subjects of packets from one proc to others.
func packetSubjects(peers int) (self subjects.User, all []string, err error) {
	id, err := subjects.NewHostID("bench")
	if err != nil {
		return self, nil, err
	}
	self = subjects.User{Principal: subjects.Proc.Principal("bench"), Process: id.Proc().Process()}
	for range peers {
		peer, err := subjects.NewHostID("bench")
		if err != nil {
			return self, nil, err
		}
		all = append(all, subjects.Space{}.Frame(peer.Proc().Process(), subjects.NewSender(self.Principal, self.Process)))
	}
	return self, all, nil
}

// publishCost is the CPU time of the server for each of n publishes, in ns. The subjects take turns.
func publishCost(ctx context.Context, server *child, nc *nats.Conn, to []string, n int) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, err := server.usage(ctx)
	if err != nil {
		return nil, err
	}
	m := payload()
	for i := range n {
		if err := nc.Publish(to[i%len(to)], m); err != nil {
			return nil, err
		}
	}
	if err := nc.FlushWithContext(ctx); err != nil {
		return nil, err
	}
	after, err := server.usage(ctx)
	return []float64{float64((after.CPU - before.CPU).Nanoseconds()) / float64(n)}, err
}
