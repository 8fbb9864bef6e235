package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/integration/faults/history"
	"github.com/castnet-io/castnet/subjects"
)

// F1. There is no host agent. In every other run the test reports the death in its place. In the
// others calls end by the server's report or by their deadline.
func TestF01_killedReceiverLeavesEachMessageAFate(t *testing.T) {
	const deadline = 2 * time.Second
	try(t, fault{"F1", 2, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		left, right, other := w.worker("left"), w.worker("right"), w.worker("other")
		to := append(right.spawn(t, recorders{N: 2}), other.spawn(t, recorders{N: 2})...)
		for _, mode := range []string{post, wait, call, call} {
			w.begin(left, load{Mode: mode, Senders: 2, Messages: 1500, Rate: 1000, For: 1500 * time.Millisecond,
				Deadline: deadline}, to)
		}
		w.pause(200*time.Millisecond, 800*time.Millisecond)
		killed := time.Now()
		w.killWorker(right)
		if told := seed%2 == 0; told {
			w.reportDeath(right)
			f.count("told", 1)
		}
		// The same rank again, with actors of the same names: no message for the old one reaches it (D5).
		again := w.workerAs("again", subjects.ProcID{Mesh: right.id.Mesh, Rank: right.id.Rank,
			Gen: right.id.Gen + 1})
		w.begin(other, load{Mode: wait, Senders: 1, Messages: 500}, again.spawn(t, recorders{N: 2}))
		w.settle(2*patience, left, other).wait(t)
		records, v := w.finish()
		f.judge(t, v)
		f.count("died with it", v.Gone)
		if d, ok := firstFate(records, right.id, killed); ok {
			f.time("first fate after", d)
		}
		f.inTime(t, records, deadline)
		f.time("recovery", recovery(records, killed, killed, other.id.String()))
		require.Equal(t, 500, handledBy(records, again.id), "the new one is spoken to")
	})
}

// firstFate is the time from a moment to the first fate of a message to a process.
func firstFate(records []history.Record, to subjects.ProcID, after time.Time) (time.Duration, bool) {
	first, found := time.Duration(0), false
	for _, r := range records {
		bad := r.Kind == history.Undeliverable || r.Kind == history.Indeterminate
		if !bad || !strings.HasPrefix(r.Stream.To, to.String()+"/") || r.At.Before(after) {
			continue
		}
		if d := r.At.Sub(after); !found || d < first {
			first, found = d, true
		}
	}
	return first, found
}

// handledBy counts the handled messages of a process.
func handledBy(records []history.Record, id subjects.ProcID) int {
	n := 0
	for _, r := range records {
		if r.Kind == history.Handled && strings.HasPrefix(r.Note, id.String()+"/") {
			n++
		}
	}
	return n
}

// serverPatience is the time for which a server keeps a silent client, and a process a silent link.
// Afterwards the arrival of a message cannot be known.
const serverPatience = 10 * time.Second

// stopped is a run with one process stopped for a while.
func stopped(t *testing.T, seed uint64, f *figures, l load, pause time.Duration,
	which func(*world, pairing) *child) {
	t.Helper()
	w := newWorld(t, seed, serverConfig{})
	p := w.pair(l)
	w.pause(200*time.Millisecond, 800*time.Millisecond)
	c, began := which(w, p), time.Now()
	c.signal(t, syscall.SIGSTOP)
	time.Sleep(pause) // the fault itself
	c.signal(t, syscall.SIGCONT)
	over := time.Now()
	w.settle(2*patience, p.left, p.right).wait(t)
	records, v := w.finish()
	f.judge(t, v)
	if pause < serverPatience {
		require.Zero(t, v.Indeterminate, v)
	}
	f.time("recovery", recovery(records, began, over, p.left.id.String(), p.right.id.String()))
}

// steady is a load longer than a pause of some length.
func steady(mode string, pause time.Duration) load {
	const rate = 500
	return load{Mode: mode, Senders: 4, Rate: rate,
		Messages: rate * int((pause + 2*time.Second).Milliseconds()) / 1000}
}

func receiver(_ *world, p pairing) *child { return p.right.child }

func TestF08_suspendedReceiverLosesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault fault
		pause time.Duration
	}{
		{fault{"F8 1 s", 2, often}, time.Second},
		{fault{"F8 5 s", 1, often}, 5 * time.Second},
		{fault{"F8 30 s", 0, seldom}, 30 * time.Second},
	} {
		try(t, c.fault, func(t *testing.T, seed uint64, f *figures) {
			stopped(t, seed, f, steady([]string{post, wait}[seed%2], c.pause), c.pause, receiver)
		})
	}
}
