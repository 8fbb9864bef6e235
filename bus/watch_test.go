package bus_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/internal/testkit"
)

// heard collects States, apart by connection: only those of one connection have an order.
type heard struct {
	mu  sync.Mutex
	all map[bus.ConnName][]string
}

func (h *heard) take(s bus.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[bus.ConnName][]string{}
	}
	h.all[s.Conn] = append(h.all[s.Conn], fmt.Sprint(s.Kind, s.Err))
}

func (h *heard) of(name bus.ConnName) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.all[name]...)
}

// onBoth waits until both connections have reached a state.
func onBoth(t testing.TB, ch <-chan bus.State, kind bus.StateKind) {
	t.Helper()
	for n := 0; n < 2; {
		if testkit.Next(t, ch).Kind == kind {
			n++
		}
	}
}

func TestWatch_reportsEveryStateChange(t *testing.T) {
	address := bustest.NewAddress(t)
	srv := listenAt(t, address, embed.Options{ConfigFile: config(t, restricted)})
	onState, states := states()
	var watched, told heard
	b := open(t, bus.Options{URL: address.URL(), User: "alice", Password: "secret", OnState: func(s bus.State) {
		if s.Kind != bus.Connected { // that may be before anybody can watch
			told.take(s)
		}
		onState(s)
	}})
	onBoth(t, states, bus.Connected)
	b.Watch(watched.take)
	require.NoError(t, b.Data().Publish("shut.door", nil))
	awaitState(t, states, bus.DataConn, bus.Denied)
	address.Stop(srv)
	onBoth(t, states, bus.Disconnected)
	listenAt(t, address, embed.Options{ConfigFile: config(t, restricted)})
	onBoth(t, states, bus.Reconnected)
	require.NoError(t, b.Close(testkit.Soon(t)))
	for name, n := range map[bus.ConnName]int{bus.DataConn: 4, bus.ControlConn: 3} {
		require.GreaterOrEqual(t, len(watched.of(name)), n)
		require.Equal(t, told.of(name), watched.of(name), name)
		require.Equal(t, "closed<nil>", watched.of(name)[len(watched.of(name))-1])
	}
}

func TestWatch_isNotCalledAfterCancelReturns(t *testing.T) {
	const states = 500
	srv := bustest.Server(t, func(o *embed.Options) { o.ConfigFile = config(t, restricted) })
	b := bustest.Open(t, srv, func(o *bus.Options) { o.User, o.Password = "alice", "secret" })
	all := make(chan struct{})
	var n atomic.Int32
	b.Watch(func(bus.State) {
		if n.Add(1) == states {
			close(all)
		}
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n.Load() < states {
				var over, late atomic.Bool
				cancel := b.Watch(func(bus.State) { late.Store(late.Load() || over.Load()) })
				cancel()
				over.Store(true)
				cancel() // twice is once
				if late.Load() {
					t.Error("it was called")
				}
			}
		})
	}
	for range states {
		require.NoError(t, b.Data().Publish("shut.door", nil))
	}
	testkit.Next(t, all)
	wg.Wait()
}

func TestWatch_cancelAwaitsARunningCall(t *testing.T) {
	srv := bustest.Server(t, func(o *embed.Options) { o.ConfigFile = config(t, restricted) })
	b := bustest.Open(t, srv, func(o *bus.Options) { o.User, o.Password = "alice", "secret" })
	entered, gate := make(chan struct{}), make(chan struct{})
	var returned atomic.Bool
	cancel := b.Watch(func(s bus.State) {
		if s.Kind != bus.Denied {
			return
		}
		close(entered)
		<-gate
		returned.Store(true)
	})
	require.NoError(t, b.Data().Publish("shut.door", nil))
	testkit.Next(t, entered)
	over := make(chan bool, 1)
	go func() {
		cancel()
		over <- returned.Load()
	}()
	for range 1000 { // time enough for one that does not wait
		runtime.Gosched()
	}
	close(gate)
	require.True(t, testkit.Next(t, over))
}
