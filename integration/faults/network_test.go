package faults

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/integration/faults/chaos"
	"github.com/castnet-io/castnet/integration/faults/history"
)

// cutting is a run in which connections are cut again and again while two workers send to each
// other.
func cutting(t *testing.T, seed uint64, f *figures, l load) {
	t.Helper()
	w := newWorld(t, seed, serverConfig{})
	p := w.pair(l)
	least := 0
	if len(l.Sizes) > 0 {
		least = 2 * largestPacket
	}
	cuts := w.cutUntil(w.settle(2*patience, p.left, p.right), least)
	records, v := w.finish()
	f.judge(t, v)
	if l.Deadline > 0 {
		f.inTime(t, records, l.Deadline)
	}
	f.count("cuts", len(cuts))
	for i, at := range cuts {
		window := records
		if i+1 < len(cuts) {
			window = before(records, cuts[i+1])
		}
		f.time("recovery", recovery(window, at, at, p.left.id.String(), p.right.id.String()))
	}
}

// largestPacket is the largest packet: link.Config.ChunkSize, and its head.
const largestPacket = 260 << 10

// cutUntil cuts the workers' connections in turn until some messages have settled, and returns the
// times. A minimum of bytes passes before each cut. Otherwise a packet could be cut for ever, when
// a reconnect takes longer than the pause.
func (w *world) cutUntil(settled *settling, least int) (cuts []time.Time) {
	w.Helper()
	for !settled.over() {
		cuts = append(cuts, w.cut(settled, least)...)
	}
	settled.wait(w.T)
	require.NotEmpty(w, cuts)
	return cuts
}

// cut cuts the connections of one worker, and returns the time, unless all have settled or too
// little is sent.
func (w *world) cut(settled *settling, least int) []time.Time {
	w.pause(20*time.Millisecond, 200*time.Millisecond)
	one := w.workers[w.rand.IntN(len(w.workers))]
	cut := one.proxy.Cut(chaos.Cut{
		Direction: chaos.Direction(w.rand.IntN(2)), After: least + 1 + w.rand.IntN(64<<10),
		Reset: w.rand.IntN(2) == 0, All: w.rand.IntN(4) == 0,
	})
	defer one.proxy.Disarm()
	select {
	case at := <-cut:
		return []time.Time{at}
	case <-settled.done:
	case <-time.After(time.Second):
	}
	return nil
}

func TestF14_connectionCutsLoseNothing(t *testing.T) {
	t.Parallel()
	try(t, fault{"F14", 2, often}, func(t *testing.T, seed uint64, f *figures) {
		cutting(t, seed, f, load{Mode: []string{post, wait, call}[seed%3], Senders: 4, Messages: 2500, Rate: 1000})
	})
	try(t, fault{"F14 large messages", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		cutting(t, seed, f, load{
			Mode: []string{post, wait, call}[seed%3], Senders: 3, Messages: 150, Rate: 50,
			Sizes: []int{100, 300 << 10, 5000, 60 << 10, 900 << 10},
		})
	})
}

// Many messages miss their deadline. The fate reported then must stay.
func TestF14_fateAtTheDeadlineIsFinal(t *testing.T) {
	t.Parallel()
	try(t, fault{"F14 short deadlines", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		cutting(t, seed, f, load{
			Mode: []string{post, wait}[seed%2], Senders: 4, Messages: 2500, Rate: 1000,
			Deadline: 20*time.Millisecond + time.Duration(seed*37%200)*time.Millisecond,
		})
	})
}

func TestF15_stalledConnectionLosesNothing(t *testing.T) {
	t.Parallel()
	try(t, fault{"F15 1 to 6 s", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		stall := time.Second + time.Duration(w.rand.Int64N(int64(5*time.Second)))
		p := w.pair(steady([]string{post, wait}[seed%2], stall))
		w.pause(200*time.Millisecond, 800*time.Millisecond)
		began := time.Now()
		p.right.proxy.Stall()
		time.Sleep(stall) // the fault itself
		p.right.proxy.Resume()
		over := time.Now()
		w.settle(2*patience, p.left, p.right).wait(t)
		records, v := w.finish()
		f.judge(t, v)
		require.Zero(t, v.Indeterminate, v)
		f.time("recovery", recovery(records, began, over, p.left.id.String(), p.right.id.String()))
	})
}

// While a process is disconnected, the server reports missing listeners there, as for a dead
// process.
func TestF15_unreachableServerLosesNothing(t *testing.T) {
	t.Parallel()
	try(t, fault{"F15 away for 0.1 to 3 s", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		away := 100*time.Millisecond + time.Duration(w.rand.Int64N(int64(2900*time.Millisecond)))
		p := w.pair(steady([]string{post, wait}[seed%2], away))
		w.pause(200*time.Millisecond, 800*time.Millisecond)
		began := time.Now()
		nowhere, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, nowhere.Close())
		p.right.proxy.Redirect(nowhere.Addr().String())
		p.right.proxy.Reset()
		time.Sleep(away) // the fault itself
		p.right.proxy.Redirect(w.addr)
		over := time.Now()
		w.settle(2*patience, p.left, p.right).wait(t)
		records, v := w.finish()
		f.judge(t, v)
		f.time("recovery", recovery(records, began, over, p.left.id.String(), p.right.id.String()))
	})
}

// F16, without loss: the kernel has acknowledged all data read by a proxy from TCP, so dropping
// some would be corruption.
func TestF16_latencyLosesNothingAndResendsLittle(t *testing.T) {
	for _, c := range []struct {
		name    string
		weather chaos.Weather
	}{
		{"F16 0 ms", chaos.Weather{}},
		{"F16 1 ms", chaos.Weather{Latency: time.Millisecond}},
		{"F16 50 ms", chaos.Weather{Latency: 50 * time.Millisecond}},
		{"F16 200 ms", chaos.Weather{Latency: 200 * time.Millisecond}},
		{"F16 4 MiB/s", chaos.Weather{Bandwidth: 4 << 20}},
	} {
		try(t, fault{c.name, 1, often}, func(t *testing.T, seed uint64, f *figures) {
			w := newWorld(t, seed, serverConfig{})
			left, right := w.worker("left"), w.worker("right")
			to := right.spawn(t, recorders{N: 2})
			for _, one := range w.workers {
				one.proxy.Slow(chaos.Both, c.weather)
			}
			began := time.Now()
			w.begin(left, load{Mode: wait, Senders: 4, Messages: 5000}, to)
			w.settle(2*patience, left).wait(t)
			took := time.Since(began)
			repeated, packets := again(left.look(t))
			_, v := w.finish()
			f.judge(t, v)
			require.Zero(t, v.Indeterminate, v)
			f.count("packets", packets)
			f.count("sent again", repeated)
			f.sample("messages/s", float64(v.Handled)/took.Seconds())
		})
	}
}

// before is the records from before a moment.
func before(records []history.Record, t time.Time) []history.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r history.Record) bool { return r.At.After(t) })
}

// again counts the packets that a worker sent again, and all its packets.
func again(s state) (repeated, packets int) {
	for _, p := range s.Info.Peers {
		repeated += int(p.Retransmitted)
		packets += int(p.Packets)
	}
	return repeated, packets
}
