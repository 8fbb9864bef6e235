package faults

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/integration/faults/history"
	"github.com/castnet-io/castnet/subjects"
)

func TestF28_unhandledMessageReturnsWithItsReason(t *testing.T) {
	t.Parallel()
	try(t, fault{"F28 reasons", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		w := newWorld(t, seed, serverConfig{})
		left, right := w.worker("left"), w.worker("right")
		to := right.spawn(t, recorders{N: 1})[0]
		nobody, err := subjects.NewHostID("nobody")
		require.NoError(t, err)
		for _, c := range []struct {
			to       subjects.ActorID
			endpoint string
			want     actor.Code
		}{
			{to, measure.Name(), 0},
			{to, "measured", actor.CodeNoEndpoint},
			{to, take.Name(), actor.CodeBadMessage},
			{right.id.Actor("recorder-99"), measure.Name(), actor.CodeNoActor},
			{nobody.Proc().Actor("recorder-0"), measure.Name(), actor.CodeNoProc},
		} {
			o := left.do(t, order{Do: "call", To: c.to, Endpoint: c.endpoint, Size: 8}).Outcome
			f.count("asked", 1)
			require.Equal(t, c.want, o.Code, "%s: %s", c.endpoint, o.Text)
			require.Equal(t, c.want != 0, o.Undeliverable, o.Text)
		}
		absent := []subjects.ActorID{to, right.id.Actor("recorder-99"), nobody.Proc().Actor("recorder-0")}
		w.begin(left, load{Mode: post, Senders: 2, Messages: 300}, absent)
		w.settle(2*patience, left).wait(t)
		_, v := w.finish()
		f.judge(t, v)
		require.Equal(t, 200, v.Handled)
		require.Equal(t, 400, v.Undeliverable)
	})
}

func TestF28_malformedForeignBytesAreHarmless(t *testing.T) {
	t.Parallel()
	try(t, fault{"F28 malformed", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		damaging(t, seed, f)
	})
}

// The damaged packets include answers and returned messages, with the fates of others.
func TestF28_forgedPacketsAreIgnored(t *testing.T) {
	t.Parallel()
	try(t, fault{"F28 a stranger's word", 1, often}, func(t *testing.T, seed uint64, f *figures) {
		v := damaging(t, seed, f)
		require.Zero(t, v.Indeterminate+v.Undeliverable, v)
	})
}

// damaging is a run in which a foreign client sends damaged messages to two workers.
func damaging(t *testing.T, seed uint64, f *figures) history.Verdict {
	t.Helper()
	const bad = 5000
	w := newWorld(t, seed, serverConfig{})
	b := w.newWitness().Bus()
	stranger, err := subjects.NewHostID("stranger")
	require.NoError(t, err)
	seen := watch(t, b)
	p := w.pair(load{Mode: call, Senders: 4, Messages: 1000, Rate: 500})
	w.begin(p.left, load{Mode: wait, Senders: 2, Messages: 1000, Rate: 500}, p.right.spawn(t, recorders{N: 1}))
	require.Eventually(t, func() bool { return len(seen.all()) > 500 }, patience, time.Millisecond)
	messages := seen.end(t)
	for range bad {
		m := messages[w.rand.IntN(len(messages))]
		subject := m.Subject[:strings.LastIndexByte(m.Subject, '.')+1] + stranger.Proc().Process().String()
		require.NoError(t, b.Data().Publish(subject, damage(w.rand, m.Data)))
	}
	w.settle(2*patience, p.left, p.right).wait(t)
	refused := p.left.look(t).Info.Stats.Malformed + p.right.look(t).Info.Stats.Malformed
	require.NotZero(t, refused)
	records, _ := w.finish()
	// some are undamaged, but foreign
	v := history.Check(slices.DeleteFunc(records, func(r history.Record) bool {
		return !strings.HasPrefix(r.Stream.From, p.left.id.String()) &&
			!strings.HasPrefix(r.Stream.From, p.right.id.String())
	}))
	f.judge(t, v)
	require.Equal(t, v.Sent, v.Handled)
	f.count("sent damaged", bad)
	f.count("refused as malformed", int(refused))
	return v
}

// watched are the observed messages of the bus.
type watched struct {
	subs []*bus.Sub
	mu   sync.Mutex // guards the field below
	some []bus.Msg
}

// watch keeps the first thousand messages between processes of a namespace.
func watch(t *testing.T, b *bus.Bus) *watched {
	t.Helper()
	w := &watched{}
	for _, kind := range []string{"p", "f", "c"} {
		sub, err := b.Control().Subscribe("castnet.v1.default."+kind+".>", func(m bus.Msg) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.some) < 1000 {
				w.some = append(w.some, m)
			}
		})
		require.NoError(t, err)
		w.subs = append(w.subs, sub)
	}
	return w
}

// end stops the observation. A subscription to everything hides missing listeners from the servers.
func (w *watched) end(t *testing.T) []bus.Msg {
	t.Helper()
	for _, sub := range w.subs {
		require.NoError(t, sub.Unsubscribe())
	}
	return w.all()
}

func (w *watched) all() []bus.Msg {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.some)
}

// damage changes some bytes, drops some, adds some, or forges a frame.
func damage(r *rand.Rand, data []byte) []byte {
	data = slices.Clone(data)
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	switch r.IntN(5) {
	case 0:
		for range 1 + r.IntN(8) {
			if len(data) > 0 {
				data[r.IntN(len(data))] = byte(r.Uint32())
			}
		}
	case 1:
		data = data[:r.IntN(len(data)+1)]
	case 2:
		data = append(data, noise(1+r.IntN(64))...)
	case 3:
		at := r.IntN(len(data) + 1)
		data = slices.Insert(data, at, noise(1+r.IntN(16))...)
	case 4:
		data = append([]byte{0}, noise(r.IntN(200))...)
	}
	return data
}
