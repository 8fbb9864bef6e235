package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// fakeHosts are the hosts of a directory. Their meshes are zero ones, so no proc answers for its
// actors.
type fakeHosts struct {
	asked  atomic.Int32
	silent []mesh.HostState
	err    func() error
}

func (h *fakeHosts) Inventory(context.Context) (mesh.Inventory, error) {
	h.asked.Add(1)
	time.Sleep(200 * time.Millisecond)
	return mesh.Inventory{Hosts: h.silent}, h.err()
}

func (h *fakeHosts) KnownMeshes(context.Context) (mesh.Inventory, error) {
	return mesh.Inventory{}, errHostsIncomplete
}

// directoryOf is a directory of hosts. wait waits for its background lookups.
func directoryOf(h *fakeHosts) (d *directory, wait func()) {
	var wg sync.WaitGroup
	return newDirectory(h, func(*entry) bool { return false }, func(f func(context.Context)) bool {
		wg.Go(func() { f(context.Background()) })
		return true
	}), wg.Wait
}

// addEntry adds an entry with a lookup some time ago.
func (d *directory) addEntry(name string, ago time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.storeLocked(name, &entry{asOf: time.Now().Add(-ago)})
}

func TestDirectory_keepsEntriesWhenHostsAreUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHosts{err: func() error { return errors.New("cannot list the procs of host a: it is gone") }}
		d, wait := directoryOf(h)
		d.addEntry("demo", time.Minute)
		for range 100 { // casts, 20 ms apart
			_, err := d.find(t.Context(), "demo", time.Time{})
			require.NoError(t, err)
			time.Sleep(20 * time.Millisecond)
		}
		wait()
		_, err := d.find(t.Context(), "demo", time.Time{})
		require.NoError(t, err, "a silent host does not make the mesh unknown")
		require.LessOrEqual(t, h.asked.Load(), int32(6), "twice a second at most")
		wait()

		h.err = func() error { return nil } // they do answer: there is no such mesh
		time.Sleep(time.Minute)
		_, err = d.find(t.Context(), "demo", time.Time{})
		require.NoError(t, err)
		wait()
		_, err = d.find(t.Context(), "demo", time.Time{})
		require.ErrorContains(t, err, `mesh "demo" does not exist`)
	})
}

// A silent host may have the mesh: it is unavailable, not unknown, and its entry stays.
func TestDirectory_aMeshIsUnknownOnlyWhenEveryLiveHostAnswered_MESH9(t *testing.T) {
	for state, want := range map[string]error{
		agent.HostSuspect: actor.ErrUnavailable, agent.HostUnknown: actor.ErrUnavailable,
		agent.HostDead: actor.ErrNoActor,
	} {
		t.Run(state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				silent := mesh.HostState{HostInfo: agent.HostInfo{Label: "b"}, State: state}
				h := &fakeHosts{silent: []mesh.HostState{silent}, err: func() error { return nil }}
				d, wait := directoryOf(h)
				d.addEntry("demo", time.Minute)
				_, err := d.find(t.Context(), "demo", time.Now())
				wait()
				require.ErrorIs(t, lookupError(err), want)
				require.ErrorContains(t, lookupError(err), "1 of 1 hosts did not answer: b ("+state+")")
				require.Equal(t, state != agent.HostDead, d.entries["demo"] != nil)
			})
		})
	}
}

func TestDirectory_manyDeathsCauseOneLookupPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHosts{err: func() error { return errors.New("busy") }}
		d, wait := directoryOf(h)
		d.addEntry("demo", 0)
		for range 300 { // in 3 s
			d.markStale(subjects.MeshID{})
			_, err := d.find(t.Context(), "demo", time.Time{})
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		wait()
		require.InDelta(t, 5, h.asked.Load(), 1, "two attempts a look, after 1 and 2 s and not before")
	})
}

func TestDirectory_looksUpNamesConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHosts{err: func() error { return nil }}
		d, wait := directoryOf(h)
		began := time.Now()
		var callers sync.WaitGroup
		for i := range 1000 {
			callers.Go(func() {
				_, err := d.find(t.Context(), fmt.Sprint("nobody-", i), time.Time{})
				require.ErrorContains(t, err, fmt.Sprint("nobody-", i))
			})
		}
		callers.Wait()
		wait()
		require.LessOrEqual(t, time.Since(began), 500*time.Millisecond)
		require.LessOrEqual(t, h.asked.Load(), int32(2))
		require.Empty(t, d.lookups)
		require.Zero(t, d.waiting)
	})
}

func TestDirectory_findsAMeshThatAppearsDuringLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHosts{err: func() error { return nil }}
		d, wait := directoryOf(h)
		var callers sync.WaitGroup
		callers.Go(func() { _, _ = d.find(t.Context(), "a", time.Time{}) })
		time.Sleep(100 * time.Millisecond) // what comes to be now is not in what those hear who asked before
		_, err := d.find(t.Context(), "b", time.Time{})
		require.Error(t, err)
		callers.Wait()
		wait()
		require.EqualValues(t, 2, h.asked.Load())
	})
}

func TestDirectory_backgroundLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHosts{err: func() error { return nil }}
		d, wait := directoryOf(h)
		gaveUp, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range maxWaiting + 10 {
			_, err := d.find(gaveUp, fmt.Sprint(i), time.Time{})
			require.Error(t, err)
		}
		require.Equal(t, maxWaiting, d.waiting)
		_, err := d.find(t.Context(), "one more", time.Time{})
		require.ErrorContains(t, err, "at once already")
		wait()
	})
}

func TestDirectory_isBounded(t *testing.T) {
	d, _ := directoryOf(&fakeHosts{})
	for i := range maxEntries + 10 {
		d.addEntry(fmt.Sprint(i), time.Minute-time.Duration(i)*time.Millisecond)
	}
	require.Len(t, d.entries, maxEntries)
	require.NotContains(t, d.entries, "0", "the oldest make room")
}

func TestDirectory_limitsLookupsOfUnknownNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHosts{err: func() error { return nil }}
		d, wait := directoryOf(h)
		ask := func(ctx context.Context) (mesh.Inventory, error) {
			h.asked.Add(1)
			return mesh.Inventory{}, nil
		}
		var callers sync.WaitGroup
		for range 1000 { // in 1 s
			callers.Go(func() {
				asked := time.Now()
				s, err := d.scan(t.Context(), &d.lastKnownScan, ask, asked)
				require.NoError(t, err)
				require.False(t, s.startedAt.Before(asked), "a mesh from before the scan is found")
				require.LessOrEqual(t, time.Since(asked), lookupInterval)
			})
			time.Sleep(time.Millisecond)
		}
		callers.Wait()
		wait()
		require.InDelta(t, time.Second/lookupInterval, h.asked.Load(), 2)
	})
}
