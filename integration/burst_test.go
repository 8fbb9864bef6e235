package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var (
	addToBuiltin = actor.NewEndpoint[*builtinCounter, int64, int64]("add")
	getOfBuiltin = actor.NewEndpoint[*builtinCounter, actor.None, int64]("get")
)

// traffic is messages, calls and casts to counters. A lost, repeated or reordered message makes a
// wrong count.
type traffic struct {
	rounds atomic.Int64 // messages that were asked after, and casts

	mu    sync.Mutex // guards wrong
	wrong []string
}

func (tr *traffic) fail(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.wrong) < 10 {
		tr.wrong = append(tr.wrong, fmt.Sprintf(format, args...))
	}
}

func (tr *traffic) failures() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.wrong
}

// pace is the time between rounds of traffic. Without it the traffic takes both processors, and the
// burst waits.
const pace = 5 * time.Millisecond

// keepCounting sends to and calls each rank of told, and casts to all of asked, until the traffic
// stops.
func keepCounting(t *testing.T, told, asked mesh.ActorMesh[*builtinCounter], ranks int) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tr := &traffic{}
	var done sync.WaitGroup
	t.Cleanup(func() { cancel(); done.Wait() })
	within := func() context.Context { // more than a burst takes: it is no fate of a message
		ctx, free := context.WithTimeout(context.Background(), 2*testkit.Patience)
		context.AfterFunc(ctx, free)
		return ctx
	}
	next := func(round *time.Ticker) bool {
		select {
		case <-round.C:
			return ctx.Err() == nil
		case <-ctx.Done():
			return false
		}
	}
	for rank := range ranks {
		done.Go(func() {
			round := time.NewTicker(pace)
			defer round.Stop()
			to := told.Ref(rank)
			for n := int64(0); next(round); {
				for range 10 {
					if err := addToBuiltin.Send(within(), to, 1); err != nil {
						tr.fail("rank %d was not told: %v", rank, err)
						return
					}
					n++
				}
				got, err := getOfBuiltin.Call(within(), to, actor.None{})
				if err != nil || got != n {
					tr.fail("rank %d counts %d, want %d: %v", rank, got, n, err)
					return
				}
				tr.rounds.Add(1)
			}
		})
	}
	done.Go(func() {
		round := time.NewTicker(pace)
		defer round.Stop()
		for n := int64(1); next(round); n++ {
			got, err := cast.Gather(within(), asked, addToBuiltin, 1)
			for rank, v := range got.Values() {
				if v != n {
					tr.fail("cast %d: rank %d counts %d", n, rank, v)
					return
				}
			}
			if err != nil {
				tr.fail("cast %d: %v", n, err)
				return
			}
			tr.rounds.Add(1)
		}
	})
	return tr
}

// more waits until the traffic has gone on for a while.
func (tr *traffic) more(t *testing.T) {
	t.Helper()
	from := tr.rounds.Load()
	require.Eventually(t, func() bool { return tr.rounds.Load() > from+20 || len(tr.failures()) > 0 },
		2*testkit.Patience, poll)
	require.Empty(t, tr.failures())
}

// A plain NATS client floods one subject of each kind. No process ends, and no message of others is
// lost, repeated, reordered or reported as lost. Afterwards everything answers.
func TestBurst_foreignBurstEndsNoProcessAndLosesNoMessage(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn, nc := testmesh.Connect(t, c.server), foreign(t, c)
	hosts, err := conn.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	procs, err := hosts.SpawnProcs(t.Context(), mesh.SpawnSpec{
		Name: "demo", PerHost: shape.Of("gpu", 1), Command: mesh.Command{Path: agent.Builtin},
	})
	require.NoError(t, err)
	counter := actor.NewType[*builtinCounter, int64]("counter")
	told, err := mesh.Spawn(t.Context(), procs, counter, "told", 0)
	require.NoError(t, err)
	asked, err := mesh.Spawn(t.Context(), procs, counter, "asked", 0)
	require.NoError(t, err)
	flooded, err := mesh.Spawn(t.Context(), procs, counter, "flooded", 0)
	require.NoError(t, err)
	before := testmesh.PIDs(t, conn, procs.ID().String())
	require.Len(t, before, 2)
	tr := keepCounting(t, told, asked, 2)
	tr.more(t)

	space, host, owner := conn.Proc().Space(), hosts.Infos()[0].ID, conn.Proc().ID()
	proc := procs.Describe().ProcID(0, 0)
	// A lossy Inbox holds 8,192 messages. The Inbox of a connection holds 65,536 of all its kinds, so
	// here one kind fills it. Under `make long` each kind does.
	const lossy, lane, long = 10_000, 80_000, 200_000
	for _, kind := range []struct {
		name, subject string
		burst         int
	}{
		{"any host", space.HostRead(subjects.Any, "info", subjects.Anon()), lossy},
		{"a host", space.HostRead(host.String(), "get", subjects.Anon()), lossy},
		{"a port", space.Port(proc.Actor(flooded.Name()).Port("get"), subjects.Anon()), lane},
		{"frames", space.Frame(proc.Process(), subjects.Anon()), lossy},
		{"control of a proc", space.Control(proc.Process(), subjects.Anon()), lossy},
		{"control of the owner", space.Control(owner.Process(), subjects.Anon()), lossy},
		{"hints", space.Hint(owner.Process(), "1"), lossy},
		{"a cast", space.Cast(procs.ID(), flooded.Name(), "get", "_-_", subjects.Anon()), lossy},
		{"events", space.Event(actor.KindProc, proc.Scope(), subjects.Anon()), lossy},
		{"heartbeats", space.Heartbeat(agent.KindHostHeartbeat, subjects.Anon()), lossy},
		{"the gateway", space.Gateway("demo", flooded.Name(), "get", subjects.Anon()), lossy},
		{"discovery", "$SRV.PING", lossy},
	} {
		t.Run(kind.name, func(t *testing.T) {
			began, burst := time.Now(), kind.burst
			if testkit.Long() {
				burst = long
			}
			for i := range burst {
				require.NoError(t, nc.Publish(kind.subject, bursts[i%len(bursts)]))
			}
			require.NoError(t, nc.FlushTimeout(2*testkit.Patience))
			t.Logf("sent in %s", time.Since(began))
			tr.more(t)
			for _, to := range []string{
				space.HostRead(host.String(), "info", subjects.Anon()),
				space.Gateway("demo", flooded.Name(), "get", subjects.Anon()),
				space.Port(proc.Actor(flooded.Name()).Port("get"), subjects.Anon()), "$SRV.PING.castnet-host",
			} {
				require.Eventually(t, func() bool {
					m, err := nc.Request(to, nil, time.Second)
					return err == nil && m.Header.Get(actor.HeaderError) == ""
				}, 2*testkit.Patience, poll, "%s does not answer", to)
			}
			_, err := conn.AwaitHosts(testkit.Soon(t), len(c.nodes)) // each has the burst behind it, then
			require.NoError(t, err)
			require.Equal(t, before, testmesh.PIDs(t, conn, procs.ID().String()))
			for _, n := range c.nodes {
				select {
				case <-n.Ended():
					t.Fatalf("hostd has ended: %s", n.Said())
				default:
				}
			}
			require.NoError(t, conn.Bus().Err())
			t.Logf("all answer after %s", time.Since(began))
		})
	}
}

// bursts are the bodies of a burst: empty, undecodable, almost a packet, and well formed.
var bursts = [][]byte{nil, []byte("\xff\x00 no message"), {0, 1, 2, 3, 4, 5, 6, 7}, []byte("null")}
