package actor_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testkit"
)

// Speck is an actor of no size that ignores its messages.
type Speck struct{}

type (
	small [2]int64
	large [200]byte
)

var (
	specks    = actor.NewType[Speck, actor.None]("speck")
	tellNone  = actor.NewEndpoint[Speck, actor.None, actor.None]("none")
	tellSmall = actor.NewEndpoint[Speck, small, actor.None]("small")
	tellLarge = actor.NewEndpoint[Speck, large, actor.None]("large")
)

func (Speck) none(*actor.Context, actor.None) (n actor.None, err error) { return }
func (Speck) small(*actor.Context, small) (n actor.None, err error)     { return }
func (Speck) large(*actor.Context, large) (n actor.None, err error)     { return }

// speckProc is a proc with specks; born counts them.
func speckProc(t *testing.T) (p *actor.Proc, born *atomic.Int64) {
	t.Helper()
	born = new(atomic.Int64)
	return start(t, bustest.Server(t), "specks", specks.Define(
		func(*actor.Context, actor.None) (Speck, error) { born.Add(1); return Speck{}, nil },
		tellNone.Handle(Speck.none), tellSmall.Handle(Speck.small), tellLarge.Handle(Speck.large))), born
}

// heap is the memory in use after a garbage collection, in bytes.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // what a pool holds is gone after the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// crowd makes n specks and returns their names once they are at rest.
func crowd(t *testing.T, p *actor.Proc, born *atomic.Int64, n int) []string {
	t.Helper()
	names := make([]string, n)
	for i := range names {
		ref, err := actor.Spawn(t.Context(), p, specks, "speck", actor.None{}, actor.NoWait())
		require.NoError(t, err)
		names[i] = ref.ID().Name
	}
	testkit.Until(t, "birth", func() bool { return born.Load() == int64(n) })
	return names
}

// disperse stops them all, some at a time: Go keeps the descriptors of goroutines for good, so few
// may exist at once.
func disperse(t *testing.T, p *actor.Proc, names []string) {
	t.Helper()
	for some := range slices.Chunk(names, 500) {
		ends := make([]<-chan struct{}, len(some))
		for i, name := range some {
			ends[i] = p.StopActor(name, "enough")
		}
		for _, end := range ends {
			<-end
		}
	}
}

// atRest waits until no worker is left.
func atRest(t *testing.T) {
	t.Helper()
	testkit.Until(t, "rest", func() bool { return !strings.Contains(stacks(), workerFrame) })
}

func TestScale_aMillionActorsAreCheapAndLeaveNothing_ACT10(t *testing.T) {
	const most = 400     // bytes of one at rest
	const left = 4 << 20 // bytes: of those that are remembered, and of workers that were
	n := 1_000_000
	if raceEnabled || !testkit.Long() {
		n = 50_000
	}
	p, born := speckProc(t)
	before := heap()
	names := crowd(t, p, born, n)
	atRest(t)
	if !raceEnabled { // the detector adds to what is measured
		require.Less(t, (heap()-before)/int64(n)-int64(unsafe.Sizeof("")), int64(most), "bytes of an actor at rest")
	}
	disperse(t, p, names)
	atRest(t)
	require.Len(t, p.Actors(), actor.MaxEnded)
	if !raceEnabled {
		require.Less(t, heap()-before, int64(left))
	}
}

// tells posts to an actor and waits until it has handled everything.
func tells[M any](t *testing.T, ctx context.Context, p *actor.Proc,
	to actor.Endpoint[Speck, M, actor.None]) (once func()) {
	t.Helper()
	ref, err := actor.Spawn(t.Context(), p, specks, "speck", actor.None{})
	require.NoError(t, err)
	return func() {
		var m M
		for to.Send(ctx, ref, m) != nil { // its mailbox is full
			runtime.Gosched()
		}
	}
}

func TestScale_sendsDoNotAllocate_ACT10(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector pools forget on purpose")
	}
	const runs = 20_000
	p, _ := speckProc(t)
	ctx := t.Context()
	for name, once := range map[string]func(){
		"0 bytes": tells(t, ctx, p, tellNone), "16 bytes": tells(t, ctx, p, tellSmall),
		"200 bytes":              tells(t, ctx, p, tellLarge),
		"one of many in a trace": tells(t, actor.WithTrace(ctx, traceOf(t, parent)), p, tellSmall),
	} {
		t.Run(name, func(t *testing.T) {
			for range runs { // to the steady state
				once()
			}
			require.Zero(t, testing.AllocsPerRun(runs, once))
		})
	}
}

func TestScale_finishedWorkLeavesNoGoroutine_ACT10(t *testing.T) {
	const many = 10_000
	p := alone(t)
	ref := spawn(t, p)
	done := make(chan struct{}, 2*many)
	for range many {
		_, err := do.Call(t.Context(), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
			tick := func(*actor.Context) { done <- struct{}{} }
			ctx.After(time.Microsecond, tick)
			ctx.Go(func(context.Context) func(*actor.Context) { return tick })
			return 0, nil
		})
		require.NoError(t, err)
	}
	for range 2 * many {
		testkit.Next(t, done)
	}
	atRest(t)
}
