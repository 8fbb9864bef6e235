package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// allocation holds hosts started by this program.
type allocation struct {
	hosts []subjects.HostID
	close func(context.Context) error
}

func (g *allocation) Hosts() []subjects.HostID { return slices.Clone(g.hosts) }

// Close stops the hosts with their procs. A second call retries after a failure.
func (g *allocation) Close(ctx context.Context) error { return g.close(ctx) }

func newAllocation(hosts []subjects.HostID, closing func(context.Context) error) *allocation {
	var mu sync.Mutex
	var done bool
	return &allocation{hosts, func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if done {
			return nil
		}
		err := closing(ctx)
		done = err == nil
		return err
	}}
}

// LocalHosts allocates hosts in this process, each with its own connections. The options apply to
// all. Each label is Label with a number. Bus is not used.
type LocalHosts Options

// Allocate starts a host for each rank, all at once.
func (o LocalHosts) Allocate(ctx context.Context, e shape.Extent) (agent.Allocation, error) {
	return startHosts(ctx, Options(o), e, startLocalHost)
}

// OnBus fills in the caller's bus, unless another one is set.
func (o LocalHosts) OnBus(bus agent.BusSettings, space subjects.Space) agent.Allocator {
	return LocalHosts(Options(o).onBus(bus, space))
}

func (o Options) onBus(bus agent.BusSettings, space subjects.Space) Options {
	if o.Settings == (agent.BusSettings{}) {
		o.Settings, o.Space = bus, space
	}
	return o
}

// startedHost is the ID of a host with the function that stops it.
type startedHost struct {
	id    subjects.HostID
	close func(context.Context) error
}

// startHosts starts a host for each rank of an extent.
func startHosts(ctx context.Context, o Options, e shape.Extent,
	start func(context.Context, Options) (startedHost, error)) (agent.Allocation, error) {
	if err := e.Err(); err != nil {
		return nil, err
	}
	n := e.NumRanks()
	if n < 1 || n > maxHosts {
		return nil, fmt.Errorf("start %d hosts for %s: want 1 to %d", n, e, maxHosts)
	}
	hosts, errs := make([]startedHost, n), make([]error, n)
	each := func(f func(k int)) {
		var wg sync.WaitGroup
		for k := range n {
			wg.Go(func() { f(k) })
		}
		wg.Wait()
	}
	each(func(k int) {
		o := o
		o.Label = fmt.Sprintf("%s%d", o.Label, k)
		hosts[k], errs[k] = start(ctx, o)
	})
	failed := errors.Join(errs...)
	closeAll := func(ctx context.Context) error {
		errs := make([]error, n)
		each(func(k int) {
			if hosts[k].close != nil {
				errs[k] = hosts[k].close(ctx)
			}
		})
		return errors.Join(errs...)
	}
	if failed != nil {
		return nil, errors.Join(failed, closeAll(context.WithoutCancel(ctx)))
	}
	ids := make([]subjects.HostID, n)
	for k, h := range hosts {
		ids[k] = h.id
	}
	return newAllocation(ids, closeAll), nil
}

// maxHosts bounds the hosts that one program starts.
const maxHosts = 1024

// startLocalHost starts one host with its own bus.
func startLocalHost(ctx context.Context, o Options) (startedHost, error) {
	var err error
	if o.Local != nil && o.Local.Open != nil {
		o.Bus, err = o.Local.Open(ctx, "host/"+o.Label)
	} else {
		o.Bus, err = bus.Open(ctx,
			agent.WithBusDefaults(proc.BusOptions(o.Settings, "host/"+o.Label, o.Log), o.Config))
	}
	if err != nil {
		return startedHost{}, fmt.Errorf("start host %s: %w", o.Label, err)
	}
	h, err := Start(ctx, o)
	if err != nil {
		return startedHost{}, errors.Join(err, o.Bus.Close(context.WithoutCancel(ctx)))
	}
	return startedHost{h.ID(), func(ctx context.Context) error { return errors.Join(h.Close(ctx), o.Bus.Close(ctx)) }}, nil
}

// HostActorParams are the parameters of a HostActorType actor.
type HostActorParams struct {
	Label string   `cbor:"1,keyasint"` // prefix; the rank follows
	Allow []string `cbor:"2,keyasint,omitempty"`
	// AllowUser permits any program owned by the host's user.
	AllowUser bool `cbor:"3,keyasint,omitempty"`
}

// An actor of HostActorType is a host in the process and on the connections of its proc. It ends
// with the actor. HostActorID returns its ID. With mesh.OnProcs, procs of one mesh become hosts of
// others.
var (
	HostActorType = actor.NewType[*hostActor, HostActorParams]("host-in-proc")
	HostActorID   = actor.NewEndpoint[*hostActor, actor.None, subjects.HostID]("host-id")
)

// HostActorDef defines HostActorType for programs whose procs may become hosts. Options o apply,
// except for HostActorParams and the label, bus and settings of the proc.
func HostActorDef(o Options) actor.Def {
	return HostActorType.Define(func(ctx *actor.Context, p HostActorParams) (*hostActor, error) {
		o := o
		o.Label = fmt.Sprintf("%s%d", p.Label, ctx.Point().Rank())
		o.Bus = ctx.Proc().Bus()
		o.Space = ctx.Proc().Space()
		o.Settings = proc.BusSettingsOf(ctx.Proc())
		o.Allow = append(slices.Clone(o.Allow), p.Allow...)
		o.AllowUser = o.AllowUser || p.AllowUser
		o.Log = ctx.Proc().Log()
		h, err := Start(ctx, o)
		if err != nil {
			return nil, err
		}
		return &hostActor{h}, nil
	}, HostActorID.Handle((*hostActor).id))
}

type hostActor struct{ host *Host }

func (h *hostActor) id(*actor.Context, actor.None) (subjects.HostID, error) { return h.host.ID(), nil }

// Cleanup stops the host with its procs.
func (h *hostActor) Cleanup(ctx *actor.Context, _ error) error { return h.host.Close(ctx) }
