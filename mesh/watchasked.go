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

// askedWatch tells of the ranks of a mesh without a controller of its own: somebody says at once what becomes of them,
// and somebody knows what was lost on the way, and is asked for it at first, when there is reason to, and each beat.
type askedWatch struct {
	watched
	source
	ranks incarnations
}

// source is where the word of ranks comes from.
type source interface {
	// name is what the mesh is called.
	name() string
	// listen has what is told put behind what was said, until end; a word in changed has the source asked.
	listen(said *backlog, changed chan<- struct{}) (end func(), err error)
	// read is what something that was said means for a rank; false: nothing.
	read(e actor.Event, ranks incarnations) (actor.Event, bool)
	// ask puts how things are behind what was said; known is what was known when it began.
	ask(ctx context.Context, said *backlog, known incarnations) error
	// asked is who has answered last; zero: nobody. It is not called while somebody is asked.
	asked() subjects.ActorID
}

// changes streams what becomes of the ranks; what is told need not wait for who is asked. When nobody has answered for as long as supervision.watchdog the last event
// says so, beside a *ControllerError.
func (w *askedWatch) changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		said, changed := newBacklog(w.region), make(chan struct{}, 1)
		unsubscribe, err := w.listen(said, changed)
		if err != nil {
			yield(actor.Event{}, fmt.Errorf("watch %s: %w", w.name(), err))
			return
		}
		defer unsubscribe()
		watchdog := config.SupervisionWatchdog.Get(w.net.config)
		beat := min(watchdog/beats, maxBeat)
		again := time.NewTicker(beat)
		defer again.Stop()
		ctx, stop := context.WithCancel(ctx)
		done, asking, ask := make(chan error, 1), false, true
		defer func() {
			if stop(); asking {
				<-done //nolint:errcheck // nobody reads on: what was found out is for nobody
			}
		}()
		for answered := time.Now(); ctx.Err() == nil; {
			if ask && !asking {
				asking, ask = true, false
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
				switch {
				case err == nil:
					answered = time.Now()
				case ctx.Err() == nil && time.Since(answered) >= watchdog:
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

func (w *askedWatch) askWithin(ctx context.Context, said *backlog, known incarnations, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return w.ask(ctx, said, known)
}

// tell yields what is new in what was said; false: that is all.
func (w *askedWatch) tell(said *backlog, yield func(actor.Event, error) bool) bool {
	for {
		e, err, ok := said.first()
		switch {
		case !ok:
			return true
		case err != nil:
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

// subscribe hears events, by their subjects.
func (w watched) subscribe(to map[string]func(actor.Event)) (end func(), err error) {
	p := w.net.proc
	var subs []*bus.Sub
	end = func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // it fails when the connection is gone: nothing comes any more either way
		}
	}
	for subject, f := range to {
		sub, err := p.Bus().Control().Subscribe(subject, func(m bus.Msg) {
			if e, err := actor.OpenEvent(p.Space(), m); err == nil { // else what it was is asked for
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

// incarnations are the newest ones that are known of ranks.
type incarnations map[int]incarnation

type incarnation struct {
	gen, view int
	over      bool
}

// news is what an event tells that was not known: that a rank ended, each incarnation of it once, or runs again.
func (r incarnations) news(e actor.Event) (out []actor.Event) {
	last, known := r[e.Rank]
	if known && (e.Gen < last.gen || e.Gen == last.gen && (last.over || !e.Terminal())) {
		return nil
	}
	if known && e.Gen > last.gen && !last.over {
		out = append(out, last.end(e, "another incarnation has its rank"))
	}
	if r[e.Rank] = (incarnation{e.Gen, e.View, e.Terminal()}); known || e.Terminal() {
		out = append(out, e)
	}
	return out
}

// allOver reports whether so many have ended.
func (r incarnations) allOver(n int) bool {
	for _, i := range r {
		if i.over {
			n--
		}
	}
	return n <= 0
}

// end is that an incarnation has ended, and nobody has told how.
func (i incarnation) end(e actor.Event, why string) actor.Event {
	return actor.Event{
		Kind: e.Kind, Status: string(actor.Failed), Mesh: e.Mesh, Rank: e.Rank, View: i.view, Gen: i.gen, Actor: e.Actor, Name: e.Name, Reason: why, At: time.Now(),
	}
}

// over is that all have ended.
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
