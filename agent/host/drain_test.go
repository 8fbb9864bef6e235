package host_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// idler is the owner of a mesh. It moves some of its procs, and then hangs.
type idler struct {
	agent.Agent
	moves int
	mesh  agent.Mesh
	every time.Duration
	busy  time.Duration // of a ping
}

var idlerType = actor.NewType[agent.Agent, actor.None]("idler")

func (i *idler) def() actor.Def {
	return idlerType.Define(func(*actor.Context, actor.None) (agent.Agent, error) { return i, nil },
		append(agent.Methods(),
			agent.Evacuate.Handle(func(_ agent.Agent, ctx *actor.Context, v agent.EvacuateRequest) (
				agent.EvacuateResponse, error) {
				actor.Defer[agent.EvacuateResponse](ctx)
				host := agent.Of(v.Host.Proc())
				ctx.Go(func(work context.Context) func(*actor.Context) {
					for rank := range i.moves {
						time.Sleep(i.every)
						part, err := i.mesh.Extent.Region().Slice("gpu", rank, rank+1)
						if err == nil {
							_, err = agent.Stop.Call(work, host, agent.StopRequest{ID: i.mesh.ID.String(), Region: &part})
						}
						if err != nil {
							panic(err)
						}
					}
					return nil
				})
				return agent.EvacuateResponse{}, nil
			}))...)
}

func (i *idler) Ping(*actor.Context, actor.None) (actor.None, error) {
	time.Sleep(i.busy)
	return actor.None{}, nil
}

func TestDrain_slowOwnerMovesItsRanksAndHungOneDelaysItOnce_HOST16(t *testing.T) {
	t.Parallel()
	const ranks, grace, patience = 8, 5 * time.Second, 65 * time.Second
	for name, owns := range map[string]idler{
		"hung from the beginning": {},
		"hung later":              {moves: 3, every: time.Minute},
		"slow to answer":          {moves: ranks, every: time.Second, busy: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := bustest.Server(t)
				at := hostInBubble(t, srv).ID()
				i := &owns
				client := owner(t, srv, i)
				i.mesh = agent.Mesh{
					ID: testproc.MeshID(t, "mesh"), Extent: shape.Of("host", 1).With("gpu", ranks),
					Hosts: []subjects.HostID{at}, PerHost: ranks, PerProcess: 1,
					Owner: client.ID().Actor("owner"),
				}
				ref := agent.Of(at.Proc()).Via(client)
				_, err := agent.Create.Call(t.Context(), ref, agent.CreateRequest{Procs: &i.mesh, Wait: true})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				pings := actor.RefOf[agent.Agent](i.mesh.Owner).Via(client)
				require.NoError(t, agent.Ping.Send(ctx, pings, actor.None{}))
				began := time.Now()
				done, err := agent.Drain.Call(ctx, ref, agent.DrainRequest{Reason: "new disks", Grace: grace})
				require.NoError(t, err)
				left := ranks - i.moves
				require.Equal(t, agent.StopSummary{Requested: left, Ended: left, Moved: i.moves}, done)
				require.Less(t, time.Since(began), i.busy+time.Duration(i.moves)*i.every+2*patience,
					"not eight times as long")
			})
		})
	}
}

func TestDrain_deadOwnerDelaysItUntilItsEndIsKnown_HOST16(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := bustest.Server(t)
		at := hostInBubble(t, srv).ID()
		client := owner(t, srv, &idler{})
		dead := owner(t, srv, &idler{})
		made := agent.Mesh{
			ID: testproc.MeshID(t, "mesh"), Extent: shape.Of("host", 1), Hosts: []subjects.HostID{at}, PerHost: 1,
			PerProcess: 1, Owner: dead.ID().Actor("owner"),
		}
		host := agent.Of(at.Proc())
		_, err := agent.Create.Call(t.Context(), host.Via(dead), agent.CreateRequest{Procs: &made, Wait: true})
		require.NoError(t, err)
		require.NoError(t, dead.Bus().Close(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		done, err := agent.Drain.Call(ctx, host.Via(client), agent.DrainRequest{Reason: "new disks"})
		require.NoError(t, err)
		require.Equal(t, agent.StopSummary{Requested: 1, Ended: 1}, done)
		require.Less(t, time.Since(began), 10*time.Second, "virtual time, far below that of a hung owner")
	})
}

// hostInBubble is a host with procs in its own process. It uses nothing from outside a bubble.
func hostInBubble(t *testing.T, srv *embed.Server) *host.Host {
	t.Helper()
	registry, err := actor.NewRegistry(talkerDef())
	require.NoError(t, err)
	h, err := host.Start(t.Context(), host.Options{
		Label: "a", Bus: bustest.Open(t, srv), RunDir: t.TempDir(), Version: "v0",
		Settings: agent.BusSettings{URL: "nats://nowhere"},
		Local: &host.Local{Registry: registry, Open: func(ctx context.Context, name string) (*bus.Bus, error) {
			return bus.Open(ctx, bus.Options{Server: srv, Name: name})
		}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	return h
}

// owner is a proc with an actor that owns meshes.
func owner(t *testing.T, srv *embed.Server, i *idler) *actor.Proc {
	t.Helper()
	p, _ := testproc.Start(t, srv, testproc.Options{Options: actor.Options{Principal: subjects.Operator.Principal("test")}},
		i.def())
	_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: idlerType.Name(), Name: "owner", Params: actor.None{}})
	require.NoError(t, err)
	return p
}
