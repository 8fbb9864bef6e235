package hostile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// refusal is the answer to an order; an empty Error means that it was obeyed.
type refusal struct {
	Order string `cbor:"1,keyasint"`
	Error string `cbor:"2,keyasint"`
}

// command gives orders about the mesh of another program, in its own name, by the library.
func (h *hostile) command(ctx *actor.Context, to target) ([]refusal, error) {
	return orders(ctx, ctx.Proc(), ctx.Self(), to), nil
}

// disguise is the process in whose name a hostile proc speaks, with its own principal.
type disguise struct {
	Target target          `cbor:"1,keyasint"`
	As     subjects.ProcID `cbor:"2,keyasint"`
}

// impersonate gives the same orders as another process.
func (h *hostile) impersonate(ctx *actor.Context, d disguise) ([]refusal, error) {
	b, err := bus.Open(ctx, proc.BusOptions(h.settings, "impostor", zerolog.Nop()))
	if err != nil {
		return nil, err
	}
	p, err := actor.NewProc(ctx, actor.Options{ID: d.As, Bus: b, Principal: ctx.Proc().Sender().Principal(),
		Log: zerolog.Nop()})
	if err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	self := d.As.Actor("forged")
	if d.As == d.Target.Owner.Proc {
		self = d.Target.Owner
	}
	all := orders(context.Background(), p, self, d.Target) // in no actor's name
	limited, cancel := context.WithTimeout(context.Background(), orderTimeout)
	defer cancel()
	_ = p.Close(limited) // its goodbyes have no answer
	return all, b.Close(ctx)
}

// orderTimeout is longer than an answer takes on a busy machine.
const orderTimeout = 2 * time.Second

// orders gives all orders at once, by a proc, on behalf of an actor.
func orders(ctx context.Context, p *actor.Proc, self subjects.ActorID, to target) []refusal {
	host := agent.Of(to.Mesh.Hosts[0].Proc()).Via(p)
	victim := agent.Of(to.Mesh.ProcID(1, 0)).Via(p)
	owner := actor.RefOf[agent.Agent](to.Owner).Via(p)
	sys := actor.RefOf[*system.Controller](to.System).Via(p)
	id := to.Mesh.ID.String()
	late := agent.Claim{Epoch: 1 << 40, Owner: self}
	again := to.Mesh
	again.Owner = self
	region := to.Mesh.Extent.Region()
	var all []refusal
	var giving sync.WaitGroup
	var mu sync.Mutex // of all
	try := func(order string, give func(context.Context) error) {
		giving.Go(func() {
			limited, cancel := context.WithTimeout(ctx, orderTimeout)
			defer cancel()
			said := ""
			if err := give(limited); err != nil {
				said = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, refusal{order, said})
		})
	}
	try("host: stop the mesh", call(agent.Stop, host, agent.StopRequest{ID: id}))
	try("host: stop the mesh in a late epoch", call(agent.Stop, host, agent.StopRequest{ID: id, Claim: late}))
	try("host: shorten the lease", call(agent.Keepalive, host, agent.Lease{ID: id, TTL: time.Millisecond, Claim: late}))
	try("host: the next generation", call(agent.Create, host,
		agent.CreateRequest{Procs: &again, Gen: 1, Ranks: []int{0}, Claim: late}))
	try("host: stop all", call(agent.StopAll, host, agent.StopAllRequest{}))
	try("host: drain", call(agent.Drain, host, agent.DrainRequest{}))
	try("host: drain the mesh", call(agent.Drain, host, agent.DrainRequest{Mesh: id}))
	try("host: cordon", call(agent.Cordon, host, agent.CordonRequest{Cordon: true}))
	try("host: take", call(agent.TakeHost, host, agent.TakeHostRequest{Force: true}))
	try("host: exec", call(agent.Exec, host, agent.ExecRequest{Command: []string{"/bin/true"}, Timeout: time.Second}))
	try("host: ready for a peer", call(agent.Ready, host, agent.ReadyReport{Proc: to.Mesh.ProcID(1, 0)}))
	try("proc: stop an actor", call(agent.Stop, victim, agent.StopRequest{ID: to.Actor.Name}))
	try("proc: stop all", call(agent.StopAll, victim, agent.StopAllRequest{}))
	try("proc: readopt", call(agent.Readopt, victim, agent.ReadoptRequest{Proc: to.Mesh.ProcID(1, 0), Host: self}))
	try("owner: stop", call(agent.Stop, owner, agent.StopRequest{ID: id}))
	try("owner: stop all", call(agent.StopAll, owner, agent.StopAllRequest{}))
	try("owner: restart", call(agent.Restart, owner, agent.RestartRequest{ID: id, Region: &region}))
	try("owner: evacuate", call(agent.Evacuate, owner, agent.EvacuateRequest{Host: to.Mesh.Hosts[0]}))
	try("owner: shrink", call(agent.Resize, owner, agent.ResizeRequest{ID: id, Remove: 1}))
	try("system: stop all worlds", call(system.Stop, sys, system.StopRequest{All: true}))
	try("system: a host leaves", call(system.Leave, sys, system.LeaveRequest{Host: &to.Mesh.Hosts[0]}))
	try("system: suspect a peer", call(system.SuspectProc, sys, to.Mesh.ProcID(1, 0)))
	try("system: detach the mesh", call(system.Detach, sys,
		system.DetachRequest{Mesh: to.Mesh.ID, Claim: late, Hosts: []subjects.HostID{to.Mesh.Hosts[0]}}))
	try("system: adopt the mesh", call(system.Adopt, sys, system.AdoptRequest{Mesh: to.Mesh.ID, Claim: late}))
	giving.Wait()
	return all
}

// call is one call, without its answer.
func call[A, M, R any](e actor.Endpoint[A, M, R], to actor.Ref[A], m M) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := e.Call(ctx, to, m)
		return err
	}
}
