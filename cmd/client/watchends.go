package main

import (
	"context"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
)

// lookEvery is how often hosts are asked whether a mesh still is: one that is gone says nothing.
const lookEvery = 5 * time.Second

// endWatch waits for the end of every rank of a place.
type endWatch struct {
	net    *mesh.Net
	p      place
	over   chan struct{} // closed once all have ended, and what they had printed before has come
	cancel context.CancelFunc
	looks  sync.WaitGroup
	sub    *bus.Sub

	mu   sync.Mutex
	ends map[int]string // status by rank
}

// watchEnds begins to watch. Lines that the server has sent before the last end have reached their
// handler when over is closed.
func watchEnds(ctx context.Context, net *mesh.Net, p place) (*endWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &endWatch{net: net, p: p, over: make(chan struct{}), cancel: cancel, ends: map[int]string{}}
	space := net.Proc().Space()
	sub, err := net.Bus().Control().Subscribe(space.Events(actor.KindProc, p.procs.ID()), func(m bus.Msg) {
		if e, err := actor.OpenEvent(space, m); err == nil && e.Terminal() {
			e.Each(func(e actor.Event) { w.ended(e.Rank, e.Status) })
		}
	})
	if err != nil {
		cancel()
		return nil, err
	}
	w.sub = sub
	w.looks.Go(func() { w.look(ctx) })
	return w, nil
}

func (w *endWatch) close() {
	w.cancel()
	w.looks.Wait()
	_ = w.sub.Unsubscribe() // the connection closes anyway
}

func (w *endWatch) ended(rank int, status string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.ends[rank]; known || !w.p.region.Contains(rank) {
		return
	}
	w.ends[rank] = status
	if len(w.ends) == w.p.region.NumRanks() {
		w.net.Bus().Data().AfterReceived(func() { close(w.over) })
	}
}

// how is the status of each rank that has ended.
func (w *endWatch) how() map[int]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends // complete when over is closed
}

// look asks at once for what ended before the watch began, and then now and again: a rank whose host
// is twice not there has ended with it.
func (w *endWatch) look(ctx context.Context) {
	pause := time.NewTicker(lookEvery)
	defer pause.Stop()
	for absent := map[int]int{}; ctx.Err() == nil; {
		records, err := ranks(ctx, w.net, w.p)
		if err == nil {
			w.count(records, absent)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// count takes one look. absent is how often in a row each rank was not among the records.
func (w *endWatch) count(records []procRecord, absent map[int]int) {
	there := map[int]bool{}
	for _, r := range records {
		there[r.Rank] = true
		if ended(r.Status) {
			w.ended(r.Rank, r.Status)
		}
	}
	for _, rank := range w.p.region.Ranks() {
		if absent[rank]++; there[rank] {
			absent[rank] = 0
		}
		if absent[rank] >= 2 {
			w.ended(rank, agent.Failed.String())
		}
	}
}
