package floor_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/floor"
	"github.com/castnet-io/castnet/bench/local"
)

func TestFloor_runsEveryWorkload(t *testing.T) {
	for _, w := range local.Workloads() {
		n := 200
		if w.Fresh { // so few actors may fit in memory that the earlier workloads left
			n = 20_000
		}
		v, err := local.Run(t.Context(), w, n, floor.New)
		require.NoError(t, err, w.Name)
		require.Positive(t, v, w.Name)
	}
}

// lister appends its messages. Its slice has no lock, so the race detector sees two writers at
// once.
type lister struct {
	started int
	got     []int
	want    int
	done    chan struct{}
}

func (l *lister) Started() { l.started++ }

func (l *lister) Receive(_ local.Context, m any) any {
	l.got = append(l.got, m.(int))
	if len(l.got) == l.want {
		close(l.done)
	}
	return nil
}

func TestFloor_handlesOneMessageAtATimeInSenderOrder(t *testing.T) {
	const senders, each = 4, 1000
	s, err := floor.New(t.Context(), nil)
	require.NoError(t, err)
	l := &lister{want: senders * each, done: make(chan struct{})}
	to := s.Spawn(l)
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for i := range each {
				s.Tell(to, sender*each+i)
			}
		})
	}
	wg.Wait()
	<-l.done
	require.Equal(t, 1, l.started)
	last := [senders]int{-1, -1, -1, -1}
	for _, m := range l.got {
		require.Equal(t, last[m/each]+1, m%each, "sender %d", m/each)
		last[m/each]++
	}
}

// once answers and stops.
type once struct{ handled atomic.Int64 }

func (*once) Started() {}

func (o *once) Receive(c local.Context, m any) any {
	o.handled.Add(1)
	c.Stop()
	return m
}

func TestFloor_stoppedActorAcceptsNothing(t *testing.T) {
	s, err := floor.New(context.Background(), nil)
	require.NoError(t, err)
	o := &once{}
	to := s.Spawn(o)
	require.Equal(t, "yes", s.Ask(to, "yes"))
	s.Tell(to, "no")
	require.EqualValues(t, 1, o.handled.Load())
}
