package mesh

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// mouth is a controller that says what a test has it say, and answers questions as long as it is not mute.
type mouth struct {
	agent.Agent
	mute  atomic.Bool
	asked atomic.Int64
	ended atomic.Int64 // subscriptions that were given back
	first []actor.Event
	to    chan actor.PortRef[actor.Event]

	mu     sync.Mutex // guards the fields below
	has    actor.PortRef[actor.Event]
	silent []actor.Event // ends that it says when it is asked, and no subscriber is told
}

func (m *mouth) Stream(ctx *actor.Context, s agent.StreamRequest) (actor.None, error) {
	if s.Cancel {
		m.ended.Add(1)
		return actor.None{}, nil
	}
	m.mu.Lock()
	known := m.has == s.To
	m.has = s.To
	m.mu.Unlock()
	if known {
		return actor.None{}, nil
	}
	for _, e := range m.first {
		if err := s.To.Send(ctx, e); err != nil {
			return actor.None{}, err
		}
	}
	m.to <- s.To
	return actor.None{}, nil
}

func (m *mouth) ends(ctx *actor.Context, a agent.EndsRequest) ([]actor.Event, error) {
	if m.asked.Add(1); m.mute.Load() {
		actor.Defer[[]actor.Event](ctx)
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silent[min(a.N, len(m.silent)):], nil
}

// watching is a region whose controller is that.
func watching(t *testing.T, m *mouth, region shape.Region) watched {
	t.Helper()
	w := m.speaks(t, bustest.Server(t))
	w.region = region
	require.NoError(t, config.SupervisionControllerTimeout.Set(w.net.config, 400*time.Millisecond))
	return w
}

// speaks has it do so in a proc.
func (m *mouth) speaks(t *testing.T, srv *embed.Server) watched {
	t.Helper()
	typ := actor.NewType[agent.Agent, actor.None]("mouth")
	registry, err := actor.NewRegistry(typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) { return m, nil },
		append(agent.Methods(), agent.Ends.Handle(func(_ agent.Agent, ctx *actor.Context, a agent.EndsRequest) ([]actor.Event, error) {
			return m.ends(ctx, a)
		}).Urgent())...))
	require.NoError(t, err)
	n := program(t, srv, registry)
	ref, err := actor.Spawn(t.Context(), n.proc, typ, "mouth", actor.None{})
	require.NoError(t, err)
	return watched{net: n, owner: ref.ID()}
}

// program is one with a proc of its own, and no more.
func program(t *testing.T, srv *embed.Server, registry actor.Registry) *Net {
	t.Helper()
	id, err := subjects.NewMeshID("program")
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), actor.Options{ID: subjects.ProcID{Mesh: id}, Bus: bustest.Open(t, srv), Registry: registry})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, p.Close(ctx))
	})
	return &Net{proc: p, config: &config.Config{}, ctx: context.Background()}
}

// C11: ends that come at one moment are lost to who does not read them at once, or to who comes late.
func TestFaultC11_watchersReceiveEveryEndInABurst(t *testing.T) {
	t.Parallel()
	const ranks = 3000
	m := &mouth{to: make(chan actor.PortRef[actor.Event], 1)}
	for rank := range ranks {
		m.first = append(m.first, actor.Event{Rank: rank, Status: string(actor.Failed)})
	}
	extent := shape.Of("gpu", ranks)
	part, err := extent.Region().Slice("gpu", 1000, ranks)
	require.NoError(t, err)
	n := 0
	for e, err := range ends(watching(t, m, part).changes(t.Context())) {
		require.NoError(t, err)
		require.Equal(t, []int{n, 1000 + n}, []int{e.View, e.Rank})
		if n++; n == part.NumRanks() {
			break
		}
	}
}

func TestWatch_silentControllerIsLostAfterTheWatchdog_MESH12(t *testing.T) {
	t.Parallel()
	m := &mouth{to: make(chan actor.PortRef[actor.Event], 1)}
	w := watching(t, m, shape.Of("gpu", 1).Region())
	told := make(chan error, 2)
	go func() {
		for _, err := range ends(w.changes(t.Context())) {
			told <- err
		}
		close(told)
	}()
	to := <-m.to
	require.Eventually(t, func() bool { return m.asked.Load() >= 3 }, 10*time.Second, time.Millisecond, "it is asked whether it lives")
	require.Empty(t, told, "it does")
	require.NoError(t, to.Send(t.Context(), actor.Event{Status: string(actor.Failed)}))
	require.NoError(t, <-told)
	silent := time.Now()
	m.mute.Store(true)
	var gone *ControllerError
	require.ErrorAs(t, <-told, &gone)
	require.Equal(t, w.owner, gone.Controller)
	require.GreaterOrEqual(t, time.Since(silent), 200*time.Millisecond, "after several beats")
	_, more := <-told
	require.False(t, more)
}

func TestBacklog_isBoundedAndReportsOverflow(t *testing.T) {
	b := newBacklog(shape.Of("gpu", 1).Region())
	for range unreadOfRank + unreadAtAll + 1 {
		b.take(actor.Event{})
		b.take(actor.Event{Rank: 1}) // of another region
	}
	b.end(actor.Event{}, errors.New("later"))
	for range unreadOfRank + unreadAtAll {
		_, err := b.next(t.Context())
		require.NoError(t, err, "what came before is read")
	}
	_, err := b.next(t.Context())
	require.ErrorIs(t, err, actor.ErrMailboxFull)
}
