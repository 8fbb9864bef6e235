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
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// group is hosts that this program started.
type group struct {
	hosts []subjects.HostID
	close func(context.Context) error
}

func (g *group) Hosts() []subjects.HostID { return slices.Clone(g.hosts) }

// Close stops the hosts with their procs. A second call does nothing, unless something was left.
func (g *group) Close(ctx context.Context) error { return g.close(ctx) }

func newGroup(hosts []subjects.HostID, closing func(context.Context) error) *group {
	var mu sync.Mutex
	var done bool
	return &group{hosts, func(ctx context.Context) error {
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

// Here allocates hosts in this process, with connections of their own. Each is described by the options, but
// for its label, which is Label and a number; Bus is not used.
type Here Options

// Allocate starts a host for each rank, all at the same time.
func (o Here) Allocate(ctx context.Context, e shape.Extent) (agent.Allocation, error) {
	return allocate(ctx, Options(o), e, here)
}

// Joining fills in the bus of whoever asks for the hosts, where another is not named.
func (o Here) Joining(bus agent.BusSettings, space subjects.Space) agent.Allocator {
	return Here(Options(o).joining(bus, space))
}

func (o Options) joining(bus agent.BusSettings, space subjects.Space) Options {
	if o.Settings == (agent.BusSettings{}) {
		o.Settings, o.Space = bus, space
	}
	return o
}

// started is a host that was started: its ID, and what ends it.
type started struct {
	id    subjects.HostID
	close func(context.Context) error
}

// allocate starts a host for each rank of an extent.
func allocate(ctx context.Context, o Options, e shape.Extent, start func(context.Context, Options) (started, error)) (agent.Allocation, error) {
	if err := e.Err(); err != nil {
		return nil, err
	}
	n := e.NumRanks()
	if n < 1 || n > maxGroup {
		return nil, fmt.Errorf("start %d hosts for %s: want 1 to %d", n, e, maxGroup)
	}
	hosts, errs := make([]started, n), make([]error, n)
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
	return newGroup(ids, closeAll), nil
}

// maxGroup bounds how many hosts one program starts.
const maxGroup = 1024

// here starts one host with a bus of its own.
func here(ctx context.Context, o Options) (started, error) {
	var err error
	if o.Local != nil && o.Local.Open != nil {
		o.Bus, err = o.Local.Open(ctx, "host/"+o.Label)
	} else {
		o.Bus, err = bus.Open(ctx, agent.Reach(proc.BusOptions(o.Settings, "host/"+o.Label, o.Log), o.Config))
	}
	if err != nil {
		return started{}, fmt.Errorf("start host %s: %w", o.Label, err)
	}
	h, err := Start(ctx, o)
	if err != nil {
		return started{}, errors.Join(err, o.Bus.Close(context.WithoutCancel(ctx)))
	}
	return started{h.ID(), func(ctx context.Context) error { return errors.Join(h.Close(ctx), o.Bus.Close(ctx)) }}, nil
}

// InProc is how an InProcType starts its host.
type InProc struct {
	Label string   `cbor:"1,keyasint"` // the rank follows
	Allow []string `cbor:"2,keyasint,omitempty"`
	// AllowUser allows any program of the user's.
	AllowUser bool `cbor:"3,keyasint,omitempty"`
}

// An actor of InProcType is a host in the process of its proc, on the proc's own connections; it ends with the
// actor. InProcID says which. With mesh.OnProcs they make procs of one mesh the hosts of others.
var (
	InProcType = actor.NewType[*inProc, InProc]("host-in-proc")
	InProcID   = actor.NewEndpoint[*inProc, actor.None, subjects.HostID]("host-id")
)

// InProcDef defines InProcType for a program whose procs may become hosts. o describes them but for what an
// InProc says; label, bus and settings are those of the proc.
func InProcDef(o Options) actor.Def {
	return InProcType.Made(func(ctx *actor.Context, p InProc) (*inProc, error) {
		o := o
		o.Label, o.Bus, o.Space = fmt.Sprintf("%s%d", p.Label, ctx.Point().Rank()), ctx.Proc().Bus(), ctx.Proc().Space()
		o.Settings = proc.SettingsOf(ctx.Proc())
		o.Allow, o.AllowUser, o.Log = append(slices.Clone(o.Allow), p.Allow...), o.AllowUser || p.AllowUser, ctx.Proc().Log()
		h, err := Start(ctx, o)
		if err != nil {
			return nil, err
		}
		return &inProc{h}, nil
	}, InProcID.By((*inProc).id))
}

type inProc struct{ host *Host }

func (h *inProc) id(*actor.Context, actor.None) (subjects.HostID, error) { return h.host.ID(), nil }

// Cleanup stops the host with its procs.
func (h *inProc) Cleanup(ctx *actor.Context, _ error) error { return h.host.Close(ctx) }
