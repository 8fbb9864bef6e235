package mesh

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

// askedWatch watches a mesh without a controller of its own. A source reports changes at once, and
// can list present states, in case an event was lost. The watch asks it at first, on each signal,
// and periodically.
type askedWatch struct {
	watched
	source
	ranks incarnations
}

// source provides the events of ranks.
type source interface {
	// name is the name of the mesh.
	name() string
	// listen appends events to said until end is called; a signal on changed makes the watch ask.
	listen(said *backlog, changed chan<- struct{}) (end func(), err error)
	// read converts an event to one of a rank; false: none.
	read(e actor.Event, ranks incarnations) (actor.Event, bool)
	// ask appends the present states to said; known is the state when it began.
	ask(ctx context.Context, said *backlog, known incarnations) error
	// asked returns the last actor that answered; zero: none yet. It is not called during ask.
	asked() subjects.ActorID
}

// changes streams the changes of the ranks; events need not wait for ask. After
// supervision.controller-timeout without an answer the last event reports that, beside a
// *ControllerError.
func (w *askedWatch) changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		said := newBacklog(w.region)
		changed := make(chan struct{}, 1)
		unsubscribe, err := w.listen(said, changed)
		if err != nil {
			yield(actor.Event{}, fmt.Errorf("watch %s: %w", w.name(), err))
			return
		}
		defer unsubscribe()
		watchdog := config.SupervisionControllerTimeout.Get(w.net.config)
		beat := min(watchdog/beats, maxBeat)
		again := time.NewTicker(beat)
		defer again.Stop()
		ctx, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		asking := false // askWithin runs
		ask := true     // it should run
		defer func() {
			stop()
			if asking {
				<-done //nolint:errcheck // the watch has ended
			}
		}()
		for answered := time.Now(); ctx.Err() == nil; {
			if ask && !asking {
				asking = true
				ask = false
				known := maps.Clone(w.ranks)
				go func() { done <- w.askWithin(ctx, said, known, beat) }()
			}
			select {
			case <-said.more:
			case <-changed:
				ask = true
			case <-again.C:
				ask = true
			case err := <-done:
				asking = false
				if err == nil {
					answered = time.Now()
				} else if ctx.Err() == nil && time.Since(answered) >= watchdog {
					w.owner = cmp.Or(w.asked(), w.owner)
					yield(blamed(w.owner, err), &ControllerError{w.owner, err})
					return
				}
			case <-ctx.Done():
			}
			if !w.tell(said, yield) {
				return
			}
		}
	}
}

func (w *askedWatch) askWithin(
	ctx context.Context, said *backlog, known incarnations, within time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return w.ask(ctx, said, known)
}

// tell yields the new events in said; false: the watch has ended.
func (w *askedWatch) tell(said *backlog, yield func(actor.Event, error) bool) bool {
	for {
		e, err, ok := said.first()
		if !ok {
			return true
		}
		if err != nil {
			yield(e, err)
			return false
		}
		e, means := w.read(e, w.ranks)
		if !means {
			continue
		}
		for _, e := range w.ranks.news(e) {
			if !yield(e, nil) {
				return false
			}
		}
	}
}

// subscribe passes events to the handlers of their subjects.
func (w watched) subscribe(to map[string]func(actor.Event)) (end func(), err error) {
	p := w.net.proc
	var subs []*bus.Sub
	end = func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // an error means that the connection, and thus the subscription, is gone
		}
	}
	for subject, f := range to {
		sub, err := p.Bus().Control().Subscribe(subject, func(m bus.Msg) {
			if e, err := actor.DecodeEventFrom(p.Space(), m); err == nil { // else a later query replaces it
				f(e)
			}
		})
		if err != nil {
			end()
			return nil, err
		}
		subs = append(subs, sub)
	}
	return end, nil
}

// incarnations are the newest known incarnations of ranks.
type incarnations map[int]incarnation

type incarnation struct {
	gen, view int
	over      bool
}

// news returns the new facts in an event: the end of a rank, once for each incarnation, or its
// restart.
func (r incarnations) news(e actor.Event) (out []actor.Event) {
	last, known := r[e.Rank]
	if known && (e.Gen < last.gen || e.Gen == last.gen && (last.over || !e.Terminal())) {
		return nil
	}
	if known && e.Gen > last.gen && !last.over {
		out = append(out, last.end(e, "replaced by another generation"))
	}
	r[e.Rank] = incarnation{e.Gen, e.View, e.Terminal()}
	if known || e.Terminal() {
		out = append(out, e)
	}
	return out
}

// allOver reports whether n ranks have ended.
func (r incarnations) allOver(n int) bool {
	for _, i := range r {
		if i.over {
			n--
		}
	}
	return n <= 0
}

// end is the event of an incarnation's end without a reported cause.
func (i incarnation) end(e actor.Event, why string) actor.Event {
	return actor.Event{
		Kind: e.Kind, Status: string(actor.Failed), Mesh: e.Mesh, Rank: e.Rank, View: i.view, Gen: i.gen,
		Actor: e.Actor, Name: e.Name, Reason: why, At: time.Now(),
	}
}

// over returns the ends of all live ranks.
func (r incarnations) over(mesh subjects.MeshID, why string) (out []actor.Event) {
	for _, rank := range slices.Sorted(maps.Keys(r)) {
		if i := r[rank]; !i.over {
			e := i.end(actor.Event{Kind: actor.KindProc, Mesh: mesh.String(), Rank: rank}, why)
			e.Status = string(actor.Stopped)
			out = append(out, e)
		}
	}
	return out
}
