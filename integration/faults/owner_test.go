package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// possession is an owner's expected procs on all hosts, with an actor in each.
type possession struct {
	Hosts, PerHost int
	Lease          time.Duration // of both; 0: as by default
}

// ownerConfig is an owner's address of the bus.
type ownerConfig struct{ URL, Token string }

// heardEnd is an end reported to an owner.
type heardEnd struct {
	At    time.Time
	Event actor.Event
	Err   string `json:",omitempty"`
}

// ownerRole is a client with meshes. It records their reports.
type ownerRole struct {
	net      *mesh.Net
	cancel   context.CancelFunc
	ctx      context.Context
	watching sync.WaitGroup

	mu    sync.Mutex // guards the field below
	heard []heardEnd
}

func newOwnerRole(settings []byte) (role, report, error) {
	var c ownerConfig
	if err := json.Unmarshal(settings, &c); err != nil {
		return nil, report{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := &ownerRole{}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	cfg := &config.Config{}
	// A short test needs many rounds of lease renewals.
	if err := config.SupervisionPollInterval.Set(cfg, time.Second); err != nil {
		return nil, report{}, err
	}
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	var err error
	r.net, err = mesh.Connect(ctx, mesh.Options{
		Bus: &bus.Options{URL: c.URL, Token: c.Token}, Label: "owner", Log: log, Config: cfg,
		OnFailure: func(actor.Event) {}, // ranks are ended on purpose; the log has them
	})
	return r, report{}, err
}

func (r *ownerRole) obey(o order) (report, error) {
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	switch o.Do {
	case "own":
		return report{}, r.own(ctx, o.Own)
	case "look":
		r.mu.Lock()
		defer r.mu.Unlock()
		return report{Heard: r.heard}, nil
	}
	return report{}, fmt.Errorf("%q is no order for an owner", o.Do)
}

func (r *ownerRole) own(ctx context.Context, p possession) error {
	hosts, err := r.net.AwaitHosts(ctx, p.Hosts)
	if err != nil {
		return err
	}
	procs, err := hosts.SpawnProcs(ctx, mesh.SpawnSpec{Name: "owned", PerHost: shape.Of("gpu", p.PerHost),
		Lease: p.Lease})
	if err != nil {
		return err
	}
	tickers, err := mesh.SpawnActors(ctx, procs, tickerType,
		mesh.ActorSpawnSpec[actor.None]{Label: "tickers", Lease: p.Lease})
	if err != nil {
		return err
	}
	for _, m := range []mesh.Watchable{procs, tickers} {
		r.watching.Go(func() {
			for e, err := range m.Watch(r.ctx) {
				h := heardEnd{At: time.Now(), Event: e}
				if err != nil {
					h.Err = err.Error()
				}
				r.mu.Lock()
				r.heard = append(r.heard, h)
				r.mu.Unlock()
			}
		})
	}
	return nil
}

func (r *ownerRole) close() error {
	r.cancel()
	r.watching.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.net.Close(ctx)
}
