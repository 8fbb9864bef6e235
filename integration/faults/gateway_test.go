package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/integration/faults/chaos"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// hostd is a hostd process: its gateway, its host agent and its procs reach the server by one
// proxy.
type hostd struct {
	cmd   *exec.Cmd
	proxy *chaos.Proxy
	over  chan struct{}
}

// gatewayed is counters on two hosts, and a plain NATS client without faults.
type gatewayed struct {
	*world
	hosts  []*hostd
	client *bus.Conn
	net    *mesh.Net
	procs  mesh.ProcMesh
}

func newGatewayed(t *testing.T, seed uint64) *gatewayed {
	t.Helper()
	w := newWorld(t, seed, serverConfig{})
	program := filepath.Join(t.TempDir(), "hostd")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", program, "./cmd/hostd").
		CombinedOutput()
	require.NoError(t, err, "%s", out)
	g := &gatewayed{world: w, client: w.newWitness().Bus().Control()}
	for _, label := range []string{"a", "b"} {
		g.hosts = append(g.hosts, w.hostd(program, label))
	}
	g.net, err = mesh.Connect(t.Context(), mesh.Options{
		Bus: &bus.Options{URL: "nats://" + w.addr}, HostsQuiet: time.Second, OnFailure: func(actor.Event) {},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, g.net.Close(ctx))
	})
	hosts, err := g.net.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	g.procs, err = hosts.SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "demo", PerHost: shape.Of("gpu", 2), Command: mesh.Command{Path: agent.Builtin}})
	require.NoError(t, err)
	_, err = mesh.Spawn(t.Context(), g.procs, actor.NewType[any, int64]("counter"), "counter", int64(0))
	require.NoError(t, err)
	return g
}

// hostd starts a hostd; it ends with the test, without an error.
func (w *world) hostd(program, label string) *hostd {
	w.Helper()
	p, err := chaos.Start(w.addr)
	require.NoError(w, err)
	h := &hostd{proxy: p, over: make(chan struct{})}
	h.cmd = exec.Command(program, "--nats", "nats://"+p.Addr(), "--label", label, "--log-dir",
		filepath.Join(w.dir, label))
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(w.dir, label+".log"))
	require.NoError(w, err)
	h.cmd.Stdout, h.cmd.Stderr = log, log
	require.NoError(w, h.cmd.Start())
	go func() {
		defer close(h.over)
		_ = h.cmd.Wait() // ProcessState says it
	}()
	w.Cleanup(func() {
		_ = h.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-h.over:
		case <-time.After(patience):
			_ = h.cmd.Process.Kill()
			<-h.over
		}
		p.Close()
		said, _ := os.ReadFile(log.Name())
		require.Zero(w, h.cmd.ProcessState.ExitCode(), "%s", said)
		require.NoError(w, log.Close())
	})
	return h
}

// ask is one plain request; nil: no answer within a time.
func (g *gatewayed) ask(within time.Duration, endpoint, body string, headers bus.Header) *bus.Msg {
	ctx, cancel := context.WithTimeout(g.Context(), within)
	defer cancel()
	m, err := g.client.Request(ctx,
		bus.Msg{Subject: "castnet.v1.default.cast.demo.counter." + endpoint + ".u-anon.x", Data: []byte(body),
			Header: headers})
	if err != nil {
		return nil
	}
	return &m
}

// settled returns the answers of all ranks after the cuts.
func (g *gatewayed) settled(ttl time.Duration) *bus.Msg {
	g.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		m := g.ask(ttl+time.Second, "get", "", bus.Header{"Castnet-TTL": {ttl.String()}})
		if m != nil && m.Header.Get("Castnet-Answered") == "4" {
			return m
		}
		require.True(g, time.Now().Before(end), "the cuts are over, and not all answer: %v", m)
	}
}

// covered reads the coverage of an answer: it adds up.
func covered(t *testing.T, m *bus.Msg) (asked, answered int) {
	t.Helper()
	var n [4]int
	for i, key := range []string{"Castnet-Asked", "Castnet-Answered", "Castnet-Failed", "Castnet-Missing"} {
		var err error
		n[i], err = strconv.Atoi(m.Header.Get(key))
		require.NoError(t, err, "%v", m.Header)
	}
	require.Equal(t, n[0], n[1]+n[2]+n[3], "GW-2: %v", m.Header)
	return n[0], n[1]
}

// cutUntilOver cuts the connections of the hostds in turn until done is closed, and counts the
// cuts.
func (g *gatewayed) cutUntilOver(done <-chan struct{}) (cuts int) {
	for {
		select {
		case <-done:
			return cuts
		case <-time.After(100*time.Millisecond + time.Duration(g.rand.Int64N(int64(200*time.Millisecond)))):
		}
		p := g.hosts[g.rand.IntN(len(g.hosts))].proxy
		cut := p.Cut(chaos.Cut{
			Direction: chaos.Direction(g.rand.IntN(2)), After: 1 + g.rand.IntN(4<<10), Reset: g.rand.IntN(2) == 0,
			All: g.rand.IntN(4) == 0,
		})
		select {
		case <-cut:
			cuts++
		case <-time.After(500 * time.Millisecond):
		case <-done:
		}
		p.Disarm()
	}
}

// NATS loses a request or an answer on a cut connection, and the client then receives nothing. Each
// received answer is true, and no handler runs twice.
func TestF14_gatewayCastsAreCorrectDuringCuts(t *testing.T) {
	t.Parallel()
	const (
		clients  = 4
		requests = 60 // of each client
		ttl      = 2 * time.Second
	)
	try(t, fault{"F14 gateway", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		g := newGatewayed(t, seed)
		require.NotNil(t, g.ask(patience, "get", "", nil))
		answers := make(chan *bus.Msg, clients*requests)
		var asking sync.WaitGroup
		for range clients {
			asking.Go(func() {
				for range requests {
					answers <- g.ask(ttl+time.Second, "add", "1", bus.Header{"Castnet-TTL": {ttl.String()}})
					time.Sleep(10 * time.Millisecond) // so that the cuts fall all over
				}
			})
		}
		over := make(chan struct{})
		go func() {
			asking.Wait()
			close(over)
		}()
		f.count("cuts", g.cutUntilOver(over))
		close(answers)
		whole := 0
		for m := range answers {
			f.count("asked", 1)
			switch {
			case m == nil:
				f.count("unanswered", 1)
			case m.Header.Get(actor.HeaderErrorCode) != "":
				require.NotEmpty(t, m.Data)
				f.count("error "+m.Header.Get(actor.HeaderErrorCode), 1)
			default:
				asked, answered := covered(t, m)
				var values []*int64
				require.NoError(t, json.Unmarshal(m.Data, &values))
				require.Len(t, values, 4)
				require.Equal(t, 4, asked)
				for _, v := range values {
					if v != nil {
						answered--
					}
				}
				require.Zero(t, answered, "%s %v", m.Data, m.Header)
				if m.Header.Get("Castnet-Partial") == "" {
					whole++
				}
			}
		}
		f.count("whole", whole)
		require.Greater(t, whole, clients*requests/2, "%v", f)

		last := g.settled(ttl)
		var ran []int
		require.NoError(t, json.Unmarshal(last.Data, &ran))
		for rank, n := range ran {
			require.GreaterOrEqual(t, n, whole, "rank %d ran each answered request", rank)
			require.LessOrEqual(t, n, clients*requests, "rank %d has run nothing twice", rank)
		}
	})
}

// Live ranks answer each request at once, because the gateway's proc receives deaths.
func TestF30_gatewayCastsNameDeadRanksAndAwaitNoOther(t *testing.T) {
	t.Parallel()
	try(t, fault{"F30 gateway", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		g := newGatewayed(t, seed)
		all, err := g.net.Meshes(t.Context())
		require.NoError(t, err)
		dead := g.rand.IntN(4)
		require.NotNil(t, g.ask(patience, "get", "", nil))
		for _, s := range all[0].States {
			if s.Rank == dead {
				time.AfterFunc(time.Duration(g.rand.Int64N(int64(300*time.Millisecond))),
					func() { _ = syscall.Kill(s.Proc.PID, syscall.SIGKILL) })
			}
		}
		for named := 0; named < 20; {
			began := time.Now()
			m := g.ask(patience, "add", "1", bus.Header{"Castnet-Reduce": {"count"}})
			require.NotNil(t, m, "GW-1")
			f.time("cast", time.Since(began))
			f.count("asked", 1)
			asked, answered := covered(t, m)
			require.Equal(t, 4, asked)
			require.Equal(t, fmt.Sprint(answered), string(m.Data), "%v", m.Header)
			require.Equal(t, "0", m.Header.Get("Castnet-Missing"), "no rank is missing: %v", m.Header)
			if answered == 3 {
				named++
				point := fmt.Sprintf("host=%d,gpu=%d", dead/2, dead%2)
				require.Equal(t, point, m.Header.Get("Castnet-Failed-Region"))
			}
		}
	})
}
