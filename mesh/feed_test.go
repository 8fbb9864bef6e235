package mesh

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/shape"
)

// heard is what a watch yields.
type heard struct {
	rank, view int
	err        error
}

// follow watches a region until the function is called.
func (w watched) follow(t *testing.T, region shape.Region) (said chan heard, end func()) {
	t.Helper()
	w.region = region
	ctx, cancel := context.WithCancel(t.Context())
	said = make(chan heard, 64)
	go func() {
		defer close(said)
		for e, err := range ends(w.changes(ctx)) {
			said <- heard{e.Rank, e.View, err}
		}
	}()
	return said, func() {
		cancel()
		for range said {
		}
	}
}

func TestWatch_watchersOfOneControllerShareASubscription_MESH6(t *testing.T) {
	t.Parallel()
	m := &mouth{to: make(chan actor.PortRef[actor.Event], 2), first: []actor.Event{{Rank: 1, Status: string(actor.Failed)}}}
	whole := shape.Of("gpu", 4).Region()
	part, err := whole.Slice("gpu", 1, 3)
	require.NoError(t, err)
	w := watching(t, m, whole)
	all, endAll := w.follow(t, whole)
	require.Equal(t, heard{1, 1, nil}, <-all)
	some, endSome := w.follow(t, part)
	require.Equal(t, heard{1, 0, nil}, <-some, "who comes later is told at once what has failed")
	to := <-m.to
	for _, e := range []actor.Event{{Rank: 3}, {Rank: 2}} {
		e.Status = string(actor.Failed)
		require.NoError(t, to.Send(t.Context(), e))
	}
	require.Equal(t, heard{3, 3, nil}, <-all)
	require.Equal(t, heard{2, 2, nil}, <-all)
	require.Equal(t, heard{2, 1, nil}, <-some, "only its ranks, by their place in the view")
	endAll()
	third, endThird := w.follow(t, part)
	require.Equal(t, heard{1, 0, nil}, <-third)
	require.Equal(t, heard{2, 1, nil}, <-third)
	require.Empty(t, m.to, "there was one subscription")
	require.Zero(t, m.ended.Load())
	endSome()
	endThird()
	require.Eventually(t, func() bool { return m.ended.Load() == 1 }, 10*time.Second, time.Millisecond, "the last one gives it back")
	require.Empty(t, w.net.feeds.all)

	again, endAgain := w.follow(t, whole)
	require.Equal(t, heard{1, 1, nil}, <-again, "then it begins anew")
	<-m.to
	endAgain()
}

// What a controller says among the data is held up here, and its beats are not: it is not silent.
func TestWatch_asksARemoteControllerForEndsAfterEvents_MESH6(t *testing.T) {
	t.Parallel()
	m := &mouth{to: make(chan actor.PortRef[actor.Event], 2)}
	for rank := range 3 {
		m.silent = append(m.silent, actor.Event{Rank: rank, Status: string(actor.Failed)})
	}
	all := m.silent
	m.silent = all[:1]
	srv := bustest.Server(t)
	w := m.speaks(t, srv)
	owner, mesh := w.net.proc, w.owner.Proc.Mesh
	w.net, w.events = program(t, srv, actor.Registry{}), []string{owner.Space().Events(actor.KindMesh, mesh)}
	began := time.Now()
	said, end := w.follow(t, shape.Of("gpu", 3).Region())
	defer end()
	require.Equal(t, heard{0, 0, nil}, <-said, "what was before it subscribed")
	to := <-m.to
	for n := range all[1:] {
		require.NoError(t, to.Via(owner).Send(t.Context(), actor.Event{Step: agent.StepHeartbeat}))
		m.mu.Lock()
		m.silent = all[:2+n]
		m.mu.Unlock()
		owner.Emit(actor.Event{Kind: actor.KindMesh, Step: "rank.drop", Mesh: mesh.String()})
		require.Equal(t, heard{1 + n, 1 + n, nil}, <-said)
	}
	require.Less(t, time.Since(began), 2*maxBeat, "sooner than a silent one")
}

func TestWatch_silentControllerEndsAllItsWatchers_MESH12(t *testing.T) {
	t.Parallel()
	m := &mouth{to: make(chan actor.PortRef[actor.Event], 2)}
	w := watching(t, m, shape.Of("gpu", 2).Region())
	one, endOne := w.follow(t, w.region)
	two, endTwo := w.follow(t, w.region)
	defer endTwo()
	defer endOne()
	<-m.to
	m.mute.Store(true)
	for _, said := range []chan heard{one, two} {
		var gone *ControllerError
		require.ErrorAs(t, (<-said).err, &gone)
		require.Equal(t, w.owner, gone.Controller)
	}
	require.LessOrEqual(t, m.asked.Load(), int64(2*beats))
	m.mute.Store(false)
	later, endLater := w.follow(t, w.region)
	defer endLater()
	<-m.to
	require.Empty(t, later, "who comes later asks anew")
}

func TestWatch_slowReaderEndsAlone_MESH6(t *testing.T) {
	t.Parallel()
	m := &mouth{to: make(chan actor.PortRef[actor.Event], 2)}
	w := watching(t, m, shape.Of("gpu", 1).Region())
	slow, leave := w.net.feeds.join(w)
	defer leave()
	to := <-m.to
	for range unreadOfRank + unreadAtAll {
		require.NoError(t, to.Send(t.Context(), actor.Event{Status: string(actor.Running)}))
	}
	others, end := w.follow(t, w.region)
	defer end()
	require.NoError(t, to.Send(t.Context(), actor.Event{Status: string(actor.Failed)}))
	require.Equal(t, heard{0, 0, nil}, <-others)
	for range unreadOfRank + unreadAtAll {
		_, err := slow.next(t.Context())
		require.NoError(t, err)
	}
	_, err := slow.next(t.Context())
	require.ErrorIs(t, err, actor.ErrMailboxFull)
}
