package mesh

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// mouth is a controller with events made by the test. It answers lists unless it is mute.
type mouth struct {
	agent.Agent
	mute  atomic.Bool
	asked atomic.Int64
	proc  *actor.Proc
	id    subjects.ActorID

	mu     sync.Mutex // guards events
	events []actor.Event
}

// mouthPage is the number of events in a reply.
const mouthPage = 1000

func (m *mouth) list(ctx *actor.Context, q agent.ListEventsRequest) (l agent.EventList, err error) {
	m.asked.Add(1)
	if m.mute.Load() {
		actor.Defer[agent.EventList](ctx)
		return l, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	left := m.events[q.After:]
	l.Events = left[:min(len(left), mouthPage)]
	l.More = len(l.Events) < len(left)
	l.Version = q.After + uint64(len(l.Events))
	return l, nil
}

// recordEvent keeps an event of a rank.
func (m *mouth) recordEvent(rank int, s actor.Status) actor.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := actor.Event{
		Kind: actor.KindProc, Mesh: m.proc.ID().Mesh.String(), Rank: rank, Status: string(s),
		Seq: uint64(len(m.events) + 1),
	}
	m.events = append(m.events, e)
	return e
}

// publish keeps and publishes an event of a rank.
func (m *mouth) publish(rank int, s actor.Status) {
	e := m.recordEvent(rank, s)
	e.Kind = actor.KindRank
	m.proc.Emit(e)
}

// watchTarget is a program's watch of that controller's mesh.
func (m *mouth) watchTarget(n *Net, ranks int) watchTarget {
	extent := shape.Of("gpu", ranks)
	return watchTarget{
		net: n, extent: extent, region: extent.Region(),
		find: from(controllerSource{n, m.id, m.proc.ID().Mesh, ""}),
	}
}

// newMouth starts a controller in a program.
func newMouth(t *testing.T, srv *embed.Server) (*mouth, *Net) {
	t.Helper()
	m := &mouth{}
	typ := actor.NewType[agent.Agent, actor.None]("mouth")
	registry, err := actor.NewRegistry(
		typ.Define(func(*actor.Context, actor.None) (agent.Agent, error) { return m, nil },
			append(agent.Methods(), agent.ListEvents.Handle(
				func(_ agent.Agent, ctx *actor.Context, q agent.ListEventsRequest) (agent.EventList, error) {
					return m.list(ctx, q)
				}).Urgent())...))
	require.NoError(t, err)
	n := program(t, srv, registry)
	m.proc = n.proc
	ref, err := actor.Spawn(t.Context(), n.proc, typ, "mouth", actor.None{})
	require.NoError(t, err)
	m.id = ref.ID()
	return m, n
}

// impatient makes a program declare a silent controller dead soon.
func impatient(t *testing.T, n *Net) *Net {
	t.Helper()
	require.NoError(t, config.SupervisionControllerTimeout.Set(n.config, 400*time.Millisecond))
	return n
}

// program is a Net with a proc of its own, and no more.
func program(t *testing.T, srv *embed.Server, registry actor.Registry) *Net {
	t.Helper()
	id, err := subjects.NewMeshID("program")
	require.NoError(t, err)
	p, err := actor.NewProc(t.Context(), actor.Options{ID: subjects.ProcID{Mesh: id}, Bus: bustest.Open(t, srv),
		Registry: registry})
	require.NoError(t, err)
	testkit.Close(t, p.Close)
	return &Net{proc: p, config: &config.Config{}, ctx: context.Background(), controllers: newControllers(p, nil)}
}

// eventWords is the text of the events of a watch.
type eventWords struct {
	rank, view int
	err        error
}

// follow watches a region until the function is called.
func (w watchTarget) follow(t *testing.T, region shape.Region) (said chan eventWords, end func()) {
	t.Helper()
	w.region = region
	ctx, cancel := context.WithCancel(t.Context())
	said = make(chan eventWords, 64)
	go func() {
		defer close(said)
		for e, err := range ends(w.changes(ctx)) {
			said <- eventWords{e.Rank, e.View, err}
		}
	}()
	return said, func() {
		cancel()
		for range said {
		}
	}
}

// hasFeeds reports whether a Net has that number of feeds.
func (n *Net) hasFeeds(count int) func() bool {
	return func() bool {
		n.feeds.mu.Lock()
		defer n.feeds.mu.Unlock()
		return len(n.feeds.all) == count
	}
}

func TestWatch_watchersOfOneControllerShareASubscription_MESH6(t *testing.T) {
	t.Parallel()
	m, n := newMouth(t, bustest.Server(t))
	w := m.watchTarget(n, 4)
	part, err := w.region.Slice("gpu", 1, 3)
	require.NoError(t, err)
	m.publish(1, actor.Failed)
	all, endAll := w.follow(t, w.region)
	require.Equal(t, eventWords{1, 1, nil}, testkit.Next(t, all), "events from before the watch")
	some, endSome := w.follow(t, part)
	require.Equal(t, eventWords{1, 0, nil}, testkit.Next(t, some), "a later watcher gets earlier ends at once")
	require.True(t, n.hasFeeds(1)())
	m.publish(3, actor.Failed)
	m.publish(2, actor.Stopped)
	require.Equal(t, eventWords{3, 3, nil}, testkit.Next(t, all))
	require.Equal(t, eventWords{2, 2, nil}, testkit.Next(t, all))
	require.Equal(t, eventWords{2, 1, nil}, testkit.Next(t, some), "only its ranks, by their place in the view")
	endAll()
	require.True(t, n.hasFeeds(1)(), "one watcher is left")
	endSome()
	require.True(t, n.hasFeeds(0)(), "the last one ends it")
	again, endAgain := w.follow(t, part)
	defer endAgain()
	require.Equal(t, eventWords{1, 0, nil}, testkit.Next(t, again))
	require.Equal(t, eventWords{2, 1, nil}, testkit.Next(t, again))
}

func TestWatch_lostEventsAreListed_MESH6(t *testing.T) {
	t.Parallel()
	srv := bustest.Server(t)
	m, _ := newMouth(t, srv)
	m.publish(0, actor.Failed)
	said, end := m.watchTarget(program(t, srv, actor.Registry{}), 4).follow(t, shape.Of("gpu", 4).Region())
	defer end()
	require.Equal(t, eventWords{0, 0, nil}, testkit.Next(t, said))
	m.recordEvent(1, actor.Failed) // and no event of it arrives
	m.publish(2, actor.Failed)
	began := time.Now()
	both := []eventWords{testkit.Next(t, said), testkit.Next(t, said)} // a list may bring both
	require.ElementsMatch(t, []eventWords{{1, 1, nil}, {2, 2, nil}}, both, "the gap shows it")
	require.Less(t, time.Since(began), maxListInterval, "before the next list is due")
	m.recordEvent(3, actor.Failed)
	require.Equal(t, eventWords{3, 3, nil}, testkit.Next(t, said), "the next list has the missed event")
	require.Empty(t, said)
}

func TestWatch_silentControllerEndsAllItsWatchers_MESH12(t *testing.T) {
	t.Parallel()
	m, n := newMouth(t, bustest.Server(t))
	w := m.watchTarget(impatient(t, n), 2)
	one, endOne := w.follow(t, w.region)
	two, endTwo := w.follow(t, w.region)
	defer endTwo()
	defer endOne()
	testkit.Until(t, "it is asked whether it lives", func() bool { return m.asked.Load() >= 3 })
	require.Empty(t, one, "it does")
	m.publish(0, actor.Failed)
	require.Equal(t, eventWords{0, 0, nil}, testkit.Next(t, one))
	require.Equal(t, eventWords{0, 0, nil}, testkit.Next(t, two))
	silent := time.Now()
	m.mute.Store(true)
	for _, said := range []chan eventWords{one, two} {
		gone, is := errors.AsType[*ControllerError](testkit.Next(t, said).err)
		require.True(t, is)
		require.Equal(t, m.id, gone.Controller)
		_, more := <-said
		require.False(t, more)
	}
	require.GreaterOrEqual(t, time.Since(silent), 300*time.Millisecond, "after several beats")
	m.mute.Store(false)
	later, endLater := w.follow(t, w.region)
	defer endLater()
	require.Equal(t, eventWords{0, 0, nil}, testkit.Next(t, later), "a later watch asks again")
}

// pausing is a source. The program pauses during its second list; its fourth has an end.
type pausing struct{ lists int }

func (p *pausing) watched() subjects.ActorID { return subjects.ActorID{} }

func (p *pausing) subscribe(func(actor.Event), func()) (cancel func(), err error) {
	return func() {}, nil
}

func (p *pausing) list(context.Context, uint64, func() rankStates) (l eventList, err error) {
	p.lists++
	switch p.lists {
	case 2:
		time.Sleep(time.Hour)
		return l, context.DeadlineExceeded
	case 4:
		l.events = []actor.Event{{Kind: actor.KindProc, Status: string(actor.Failed)}}
	}
	return l, nil
}

func TestWatch_pausedProgramBlamesNoController_MESH12(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extent := shape.Of("gpu", 1)
		n := &Net{config: &config.Config{}, ctx: t.Context()}
		w := watchTarget{net: n, extent: extent, region: extent.Region(), find: from(&pausing{})}
		for e, err := range w.changes(t.Context()) {
			require.NoError(t, err)
			require.True(t, e.Terminal())
			break
		}
	})
}

func TestWatch_slowReaderEndsAlone_MESH6(t *testing.T) {
	t.Parallel()
	m, n := newMouth(t, bustest.Server(t))
	w := m.watchTarget(n, 1)
	source, err := w.find(t.Context())
	require.NoError(t, err)
	slow, leave := n.feeds.join(w, source)
	defer leave()
	others, end := w.follow(t, w.region)
	defer end()
	testkit.Until(t, "it is asked", func() bool { return m.asked.Load() >= 1 })
	f := n.feeds.all[source]
	allHave := func(unread int) func() bool { // a quick reader may be starved, too
		return func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			for w := range f.watchers {
				w.mu.Lock()
				have := len(w.events)
				w.mu.Unlock()
				if w == slow && have != unread || w != slow && have > 0 {
					return false
				}
			}
			return len(f.watchers) == 2
		}
	}
	for i := range unreadOfRank + unreadAtAll {
		m.publish(0, actor.Running)
		if i%64 == 0 {
			testkit.Until(t, "the quick reader has read all", allHave(i+1))
		}
	}
	m.publish(0, actor.Running)
	m.publish(0, actor.Failed)
	require.Equal(t, eventWords{0, 0, nil}, testkit.Next(t, others))
	for range unreadOfRank + unreadAtAll {
		_, err := slow.next(t.Context())
		require.NoError(t, err)
	}
	_, err = slow.next(t.Context())
	require.ErrorIs(t, err, actor.ErrMailboxFull)
}

// C11: a slow or late reader must not lose ends in a burst.
func TestFaultC11_watchersReceiveEveryEndInABurst(t *testing.T) {
	t.Parallel()
	const ranks = 3000
	m, n := newMouth(t, bustest.Server(t))
	for rank := range ranks {
		m.recordEvent(rank, actor.Failed)
	}
	w := m.watchTarget(n, ranks)
	part, err := w.region.Slice("gpu", 1000, ranks)
	require.NoError(t, err)
	w.region = part
	next := 0
	for e, err := range ends(w.changes(t.Context())) {
		require.NoError(t, err)
		require.Equal(t, []int{next, 1000 + next}, []int{e.View, e.Rank})
		next++
		if next == part.NumRanks() {
			break
		}
	}
}

func TestWatcher_isBoundedAndReportsOverflow(t *testing.T) {
	extent := shape.Of("gpu", 2)
	region, err := extent.Region().Slice("gpu", 0, 1)
	require.NoError(t, err)
	w := newWatcher(extent, region)
	for range unreadOfRank + unreadAtAll + 1 {
		w.enqueue(actor.Event{})
		w.enqueue(actor.Event{Rank: 1}) // of another region
	}
	w.close(actor.Event{}, errors.New("later"))
	for range unreadOfRank + unreadAtAll {
		e, err := w.next(t.Context())
		require.NoError(t, err, "earlier events are read")
		require.Equal(t, "gpu=0/2", e.Point)
	}
	_, err = w.next(t.Context())
	require.ErrorIs(t, err, actor.ErrMailboxFull)
}
