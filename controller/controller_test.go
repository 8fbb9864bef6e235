package controller

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// fakeHost is the agent of a host with imaginary procs.
type fakeHost struct {
	agent.Agent
	mu     sync.Mutex // of table: a late copy of a Stop may come while a test goes on
	table  *agent.Table
	lost   []int // ranks whose end only a keepalive tells
	ranks  []int
	refuse error
	mute   bool                          // says nothing to Create
	busy   <-chan struct{}               // its ranks take so long to stop; nil: no time
	late   <-chan struct{}               // its ranks take so long to restart; nil: no time
	averse int                           // as often it refuses Stop, by either connection
	still  int                           // as often it says to Stop that its ranks are stopping
	renew  func() (agent.Overlay, error) // what it says to Keepalive; nil: how its ranks are

	told testkit.Notes[string]
}

// await waits until the host has had a number of requests of a kind.
func (h *fakeHost) await(t *testing.T, what string, n int) {
	t.Helper()
	h.told.Await(t, n, func(w string) bool { return w == what })
}

func (h *fakeHost) count(what string) int {
	return len(h.told.All(func(w string) bool { return w == what }))
}

// startAgain makes it the next hostd of its host, with no memory.
func (h *fakeHost) startAgain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table = agent.NewTable()
}

func (h *fakeHost) status(id string, rank int) agent.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.table.Status(id, rank)
}

func (h *fakeHost) Create(ctx *actor.Context, c agent.CreateRequest) (agent.Overlay, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told.Add("create")
	if h.mute {
		actor.Defer[agent.Overlay](ctx)
	}
	if h.refuse != nil || h.mute {
		return nil, h.refuse
	}
	id := c.Procs.ID.String()
	if h.late != nil && c.Gen > 0 {
		answer := actor.Defer[agent.Overlay](ctx)
		ctx.Go(func(context.Context) func(*actor.Context) {
			<-h.late
			running := agent.Run{First: c.Ranks[0], Count: 1, Status: agent.Status{Phase: agent.Running}}
			return func(*actor.Context) { answer.Reply(agent.Overlay{running}, nil) }
		})
		return nil, nil
	}
	_, err := h.table.Create(agent.ResourceSpec{ID: id, Ranks: h.ranks, Mesh: c.Procs, Claim: c.Claim,
		Agent: "fake"})
	for _, r := range h.ranks {
		h.table.Advance(id, r, agent.Status{Phase: agent.Running})
	}
	return h.table.Overlay(id), err
}

func (h *fakeHost) Stop(ctx *actor.Context, s agent.StopRequest) (agent.Overlay, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.table.AcceptClaim("fake", s.ID, s.Claim, subjects.Sender{}); err != nil {
		return nil, err
	}
	if ctx.OnControl() {
		h.told.Add("urgent stop")
	} else {
		h.told.Add("stop")
	}
	if h.averse > 0 && h.count("stop") <= h.averse {
		return nil, errors.New("not now")
	}
	if h.still > 0 {
		h.still--
		return agent.Overlay{{First: h.ranks[0], Count: len(h.ranks),
			Status: agent.Status{Phase: agent.ShuttingDown}}}, nil
	}
	stopped := func(*actor.Context) agent.Overlay {
		for _, r := range h.ranks {
			h.table.Advance(s.ID, r, agent.Status{Phase: agent.Stopped, Reason: s.Reason})
		}
		return h.table.Overlay(s.ID)
	}
	if h.busy == nil {
		return stopped(ctx), nil
	}
	answer := actor.Defer[agent.Overlay](ctx)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		select {
		case <-h.busy:
		case <-work.Done():
		}
		return func(ctx *actor.Context) {
			h.mu.Lock()
			defer h.mu.Unlock()
			answer.Reply(stopped(ctx), nil)
		}
	})
	return nil, nil
}

func (h *fakeHost) Wait(ctx *actor.Context, w agent.WaitRequest) (agent.Overlay, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told.Add("wait")
	return nil, h.table.ReplyWhen(ctx, w, 0)
}

func (h *fakeHost) Get(_ *actor.Context, q agent.GetRequest) ([]agent.State, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.table.States(q.ID), nil
}

// Keepalive of a host with lost ranks reports ends without an event.
func (h *fakeHost) Keepalive(_ *actor.Context, l agent.Lease) (agent.Overlay, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told.Add("keepalive " + l.TTL.String())
	if err := h.table.AcceptClaim("fake", l.ID, l.Claim, subjects.Sender{}); err != nil {
		return nil, err
	}
	if h.renew != nil {
		return h.renew()
	}
	for _, r := range h.lost {
		h.table.Advance(l.ID, r, agent.Status{Phase: agent.Failed, Reason: "nobody heard"})
	}
	return h.table.Overlay(l.ID), nil
}

// rig is a server, two fake hosts with two ranks each, and the proc of the controllers.
type rig struct {
	srv   *embed.Server
	p     *actor.Proc
	spec  Spec
	hosts []*fakeHost
	at    []*actor.Proc // of the hosts
	close func()
}

func newRig(t *testing.T, change ...func(*fakeHost)) *rig {
	t.Helper()
	extent := shape.Of("host", 2).With("gpu", 2)
	r := &rig{srv: bustest.Server(t), spec: Spec{Procs: meshOf(t, extent, 2), Region: extent.Region()}}
	for i, id := range r.spec.Procs.Hosts {
		h := &fakeHost{table: agent.NewTable(), ranks: []int{2 * i, 2*i + 1}}
		for _, f := range change {
			f(h)
		}
		typ := actor.NewType[agent.Agent, actor.None]("fake-host")
		methods := append(agent.Methods(), agent.Renew.Handle(
			func(a agent.Agent, ctx *actor.Context, leases []agent.Lease) ([]agent.RenewResult, error) {
				h.told.Add("renew")
				return agent.HandleRenew(ctx, a, leases)
			}))
		p, _ := r.proc(t, id.Proc(), typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) {
			return h, nil
		}, methods...))
		_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: typ.Name(), Name: agent.Name, Params: actor.None{}})
		require.NoError(t, err)
		r.hosts, r.at = append(r.hosts, h), append(r.at, p)
	}
	r.p, r.close = testproc.Start(t, r.srv, testproc.Options{}, Def())
	return r
}

func (r *rig) bus(t *testing.T) *bus.Bus { return bustest.Open(t, r.srv) }

// proc starts a proc outside the mesh. Its close may be called before the test ends.
func (r *rig) proc(t *testing.T, id subjects.ProcID, def actor.Def) (*actor.Proc, func()) {
	t.Helper()
	return testproc.Start(t, r.srv, testproc.Options{Options: actor.Options{ID: id}}, def)
}

// join starts real ranks of the mesh in this process.
func (r *rig) join(t *testing.T, ranks int, defs ...actor.Def) (all []*actor.Proc) {
	t.Helper()
	for rank := range ranks {
		p, router, err := proc.Join(t.Context(), proc.Options{Bus: r.bus(t),
			Registry: testproc.Registry(t, defs...), Mesh: r.spec.Procs, Rank: rank, Log: zerolog.Nop()})
		require.NoError(t, err)
		testproc.Close(t, p, router)
		all = append(all, p)
	}
	return all
}

// own starts a controller.
func (r *rig) own(t *testing.T, s Spec) actor.Ref[agent.Agent] {
	t.Helper()
	ref, err := actor.Spawn(t.Context(), r.p, Type, "controller", s)
	require.NoError(t, err)
	return ref
}

func create(t *testing.T, ref actor.Ref[agent.Agent]) {
	t.Helper()
	_, err := agent.Create.Call(t.Context(), ref, agent.CreateRequest{})
	require.NoError(t, err)
}

// idOf is the ID of a controller's mesh.
func idOf(t *testing.T, ref actor.Ref[agent.Agent]) string {
	t.Helper()
	report, err := Health.Call(t.Context(), ref, actor.None{})
	require.NoError(t, err)
	return report.ID
}

func wait(t *testing.T, ref actor.Ref[agent.Agent], until agent.Phase) agent.Overlay {
	t.Helper()
	o, err := agent.Wait.Call(t.Context(), ref, agent.WaitRequest{ID: idOf(t, ref), Until: until})
	require.NoError(t, err)
	return o
}

func one(n int, p agent.Phase, why string) agent.Overlay {
	return agent.Overlay{{First: 0, Count: n, Status: agent.Status{Phase: p, Reason: why}}}
}

// stopCount counts the stop requests at a host, by either connection.
func (h *fakeHost) stopCount() int { return h.count("stop") + h.count("urgent stop") }

// stoppedOnce requires one stop at each host: in its order among the data, and by the control
// connection once at most (AGT-11). The reply to a later request shows that all have come.
func (r *rig) stoppedOnce(t *testing.T, hosts ...*fakeHost) {
	t.Helper()
	if err := r.p.Flush(t.Context()); err != nil {
		require.ErrorIs(t, err, actor.ErrStopped, "it has closed, and nothing is on its way")
	}
	r.states(t)
	for _, h := range hosts {
		require.Equal(t, 1, h.count("stop"))
		require.LessOrEqual(t, h.count("urgent stop"), 1)
	}
}

func TestCreate_sendsOneMessagePerHost_CTL2(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	create(t, ref)
	require.Equal(t, one(4, agent.Running, ""), wait(t, ref, agent.Running))
	for range 2 { // the second time at once, and nobody is asked
		o, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Reason: "done"})
		require.NoError(t, err)
		require.Equal(t, one(4, agent.Stopped, "done"), o)
	}
	for _, h := range r.hosts {
		require.Equal(t, []int{1, 0}, []int{h.count("create"), h.count("wait")})
	}
	r.stoppedOnce(t, r.hosts...)
}

func TestListEvents_reportsEachEndOnceIncludingEarlierOnes_CTL3(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	early := subscribe(t, r.p, ref)
	code := 3
	died := actor.Event{
		Kind: actor.KindProc, Status: "failed", Mesh: r.spec.Procs.ID.String(), Rank: 1,
		Host:   r.spec.Procs.Hosts[0].String(),
		Reason: "exited with code 3", ExitCode: &code, StderrTail: []string{"oh"}, At: time.Unix(7, 0).UTC(),
	}
	teller := r.teller(t)
	lie, err := json.Marshal(actor.Event{Kind: actor.KindProc, Status: "failed", Mesh: died.Mesh, Rank: 2})
	require.NoError(t, err)
	about := r.p.Space().Event(actor.KindProc, died.Proc().Scope(), teller.Sender())
	require.NoError(t, teller.Bus().Control().Publish(about, lie),
		"it is about rank 2, where rank 1's events come")
	teller.Emit(died)
	teller.Emit(died)
	got := testkit.Next(t, early)
	died.View, died.Point, died.Seq = 1, "host=0/2,gpu=1/2", 1
	require.Equal(t, died, got)
	require.Eventually(t, func() bool {
		_, down := r.p.Members().Down(died.Proc())
		return down
	}, 20*time.Second,
		time.Millisecond,
		"the process knows the death, after the proc's messages")

	late := subscribe(t, r.p, ref)
	require.Equal(t, died, testkit.Next(t, late), "with all details of the event")
	_, err = agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref), Reason: "done"})
	require.NoError(t, err)
	for _, said := range []<-chan actor.Event{early, late} {
		seen := map[int]string{}
		for range 3 {
			e := testkit.Next(t, said)
			seen[e.Rank] = e.Status
		}
		require.Equal(t, map[int]string{0: "stopped", 2: "stopped", 3: "stopped"}, seen)
	}
}

func TestLease_isRenewedEveryThirdUntilTheEnd_CTL4(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.spec.Lease = time.Second
		ref := r.own(t, r.spec)
		create(t, ref)
		since := time.Now()
		for _, h := range r.hosts {
			h.await(t, "keepalive 1s", 3)
		}
		require.GreaterOrEqual(t, time.Since(since), 900*time.Millisecond)
		_, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref)})
		require.NoError(t, err)
		states, err := agent.Get.Call(t.Context(), ref, agent.GetRequest{})
		require.NoError(t, err)
		require.Len(t, states, 4)
	})
}

func TestLease_renewalReportsMissedEnds_CTL4(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.spec.Lease = time.Second
		r.hosts[1].lost = []int{3}
		ref := r.own(t, r.spec)
		create(t, ref)
		e := testkit.Next(t, subscribe(t, r.p, ref))
		require.Equal(t, 3, e.Rank)
		require.Contains(t, e.Reason, "nobody heard")
	})
}

func TestController_stopEndsItsMesh_CTL4(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.own(t, r.spec)
	ref := r.own(t, r.spec)
	create(t, ref)
	wait(t, ref, agent.Running)
	r.close()
	r.stoppedOnce(t, r.hosts...) // and not for what was never created
}

func TestCreate_failureNamesTheHost_CTL8(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(h *fakeHost) {
		if h.ranks[0] == 0 {
			h.refuse = errors.New("not on my host")
		}
	})
	r.spec.Procs.Hosts[1] = testproc.HostID(t, "gone")
	ref := r.own(t, r.spec)
	create(t, ref)
	o := wait(t, ref, agent.Running)
	require.Len(t, o, 2)
	require.Contains(t, o[0].Status.String(), "failed: ")
	require.Contains(t, o[0].Status.Reason, "not on my host")
	require.Contains(t, o[1].Status.Reason, "no responders")
	stopped, err := agent.Stop.Call(t.Context(), ref, agent.StopRequest{ID: idOf(t, ref)})
	require.NoError(t, err)
	require.Equal(t, o, stopped, "there is nothing to stop")
	require.Zero(t, r.hosts[0].stopCount())
}

func TestCreate_silentHostDelaysNothingForever_CTL8(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t, func(h *fakeHost) { h.mute = h.ranks[0] == 2 })
		ref := r.own(t, r.spec)
		create(t, ref)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o, err := agent.Wait.Call(ctx, ref, agent.WaitRequest{ID: idOf(t, ref), Until: agent.Running})
		require.NoError(t, err)
		require.Equal(t, agent.Overlay{
			{First: 0, Count: 2, Status: agent.Status{Phase: agent.Running}},
			{First: 2, Count: 2, Status: agent.Status{Phase: agent.Initializing}},
		}, o)
		r.close() // asks both to stop
		r.stoppedOnce(t, r.hosts[1])
	})
}
