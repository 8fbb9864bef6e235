package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/castnet-io/castnet/bench/remote"
)

// clusterConfig is the configuration by which a server joins another: its cluster listens on a
// port, and has a route to the port of the other.
const clusterConfig = `cluster {
  name: bench
  listen: "127.0.0.1:%d"
  authorization { user: bench, password: "%s" }
  routes: ["nats://bench:%[2]s@127.0.0.1:%[3]d"]
}
`

// routeContest measures ours against plain NATS, each with a server in each of the two processes.
// A burst may end with a lost connection, so each repeat has processes of its own.
func routeContest(b between) setup {
	return func(_ context.Context, g *ground) (contest, error) {
		fresh := func(name, role string) side {
			return func(ctx context.Context) (_ []float64, err error) {
				s, clean, err := joined()
				defer func() { err = errors.Join(err, clean()) }()
				if err != nil {
					return nil, err
				}
				p, err := startPair(ctx, own(role, s))
				defer func() { err = errors.Join(err, p.end()) }()
				if err != nil {
					return nil, err
				}
				return b.perform(ctx, g, name, p)
			}
		}
		return against(rawName, fresh(oursName, oursRole), fresh(rawName, rawRole)), nil
	}
}

// joined is a site with two servers, one for each part. clean removes what it is described in.
func joined() (s site, clean func() error, err error) {
	dir, err := os.MkdirTemp("", "castnet-bench-")
	if err != nil {
		return s, func() error { return nil }, err
	}
	clean = func() error { return os.RemoveAll(dir) }
	port, err := remote.FreePort()
	if err != nil {
		return s, clean, err
	}
	s = site{token: rand.Text(), configs: map[string]string{}}
	const anyPort = -1
	for part, listen := range map[string]int{remote.ReceivePart: port, remote.SendPart: anyPort} {
		s.configs[part] = filepath.Join(dir, part+".conf")
		text := fmt.Sprintf(clusterConfig, listen, s.token, port)
		if err := os.WriteFile(s.configs[part], []byte(text), 0o600); err != nil {
			return s, clean, err
		}
	}
	return s, clean, nil
}

// floodContest measures ours against plain NATS while the receiver is stopped. It is in no state to
// go on after that.
func floodContest(b between) setup {
	return func(ctx context.Context, g *ground) (contest, error) {
		s, _, err := b.site(ctx, g)
		if err != nil {
			return nil, err
		}
		fresh := func(name, role string) side {
			return func(ctx context.Context) (values []float64, err error) {
				p, err := startPair(ctx, own(role, s))
				defer p.kill()
				if err != nil {
					return nil, err
				}
				err = p.hold(func() (err error) {
					fmt.Fprintf(g.notes, "%s: %s: the receiver reads nothing any more\n", b.row, name)
					values, err = p.sender.perform(ctx, b.Name, max(b.Size/g.shrink, 1))
					return err
				})
				return values, err
			}
		}
		return against(rawName, fresh(oursName, oursRole), fresh(rawName, rawRole)), nil
	}
}
