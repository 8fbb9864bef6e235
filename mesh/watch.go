package mesh

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// The controller of a watched mesh says that it lives so often: beats a watchdog, and at least every 5 s.
const (
	beats   = 8
	maxBeat = 5 * time.Second
)

// ControllerError says that the controller of a mesh is gone, so that nobody tells what becomes of the ranks
// any more: no rank is to blame; hosts stop them when their lease runs out. Or another one has the mesh, which Err
// says as a *agent.FencedError.
type ControllerError struct {
	Controller subjects.ActorID
	Err        error // how it was noticed
}

func (e *ControllerError) Error() string {
	if f := agent.Fenced(e.Err); f != nil {
		return fmt.Sprintf("controller %s has lost its mesh: %v", e.Controller, e.Err)
	}
	return fmt.Sprintf("controller %s is gone: %v", e.Controller, e.Err)
}

func (e *ControllerError) Unwrap() error { return e.Err }

// watched is a region whose controller is listened to.
type watched struct {
	net    *Net
	owner  subjects.ActorID
	region shape.Region // of the proc mesh
	bad    error
}

// ends yields the ends of ranks.
func (w watched) ends(ctx context.Context) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		for e, err := range w.changes(ctx) {
			if (err != nil || e.Terminal()) && !yield(e, err) {
				return
			}
		}
	}
}

// changes streams what a controller says of the region, each event with the rank's place in it. When the
// controller is gone the last event says so, beside a *ControllerError.
func (w watched) changes(ctx context.Context) iter.Seq2[actor.Event, error] {
	return func(yield func(actor.Event, error) bool) {
		if w.bad != nil {
			yield(actor.Event{}, w.bad)
			return
		}
		owner := actor.RefOf[agent.Agent](w.owner).Via(w.net.proc)
		watchdog := config.SupervisionWatchdog.Get(w.net.config)
		beat := min(watchdog/beats, maxBeat)
		said, port, closed := openBacklog(w.net.proc, w.region)
		defer closed()
		if _, err := agent.Streaming.Call(ctx, owner, agent.Stream{To: port, Beat: beat}); err != nil {
			if gone(err) {
				yield(w.gone(err), &ControllerError{w.owner, err})
			} else {
				yield(actor.Event{}, fmt.Errorf("watch: %w", err))
			}
			return
		}
		defer func() { // an owner that is gone tells nobody any more
			_ = agent.Streaming.Post(context.WithoutCancel(ctx), owner, agent.Stream{To: port, End: true})
		}()
		for {
			e, err := w.next(ctx, said, owner, beat, watchdog)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				yield(e, err)
				return
			case e.Step == agent.Beat:
				continue
			case e.Step == agent.Fencing:
				var why error = errors.New(e.Reason)
				if f := agent.ParseFenced(e.Reason); f != nil {
					why = f
				}
				yield(e, &ControllerError{w.owner, why})
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// next waits for what a controller says. One that is silent for two beats is asked whether it lives; until
// the watchdog has had enough, no answer means nothing.
func (w watched) next(ctx context.Context, said *backlog, owner actor.Ref[agent.Agent], beat, watchdog time.Duration) (actor.Event, error) {
	for silent := time.Duration(0); ; silent += 2 * beat {
		wait, cancel := context.WithTimeout(ctx, 2*beat)
		e, err := said.next(wait)
		cancel()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return e, err
		}
		ask, cancel := context.WithTimeout(ctx, beat)
		_, err = agent.Ping.Call(ask, owner, actor.None{})
		cancel()
		switch known := gone(err); {
		case err == nil:
			silent = -2 * beat // it lives; what it said may be on its way
		case known || silent+2*beat >= watchdog:
			return w.gone(err), &ControllerError{w.owner, err}
		}
	}
}

// gone is the event that blames the controller.
func (w watched) gone(why error) actor.Event {
	id := w.owner.Proc
	return actor.Event{
		Kind: actor.KindActor, Status: string(actor.Failed), Mesh: id.Mesh.String(), Rank: int(id.Rank), Gen: int(id.Gen), Seat: int(id.Seat),
		Actor: w.owner.Name, Type: "controller", Reason: why.Error(), At: time.Now(),
	}
}

// Watched is a mesh whose ranks can be watched.
type Watched interface {
	Watch(ctx context.Context) iter.Seq2[actor.Event, error]
}

// Supervise lets an actor deal with the failures of a mesh: f runs on its turn, before its mail, for each
// rank that has failed for good, and for the mesh's controller, should that be gone. An error that it returns
// fails the actor, with the failure as the cause; so does every failure when f is nil.
func Supervise(ctx *actor.Context, m Watched, f func(*actor.Context, actor.Event) error) {
	if f == nil {
		f = func(_ *actor.Context, e actor.Event) error { return errors.New(e.Reason) }
	}
	superviseFrom(ctx, m, f, 0)
}

// superviseFrom waits for a failure behind so many ends, which come in an order that stays.
func superviseFrom(ctx *actor.Context, m Watched, f func(*actor.Context, actor.Event) error, heard int) {
	ctx.Go(func(work context.Context) func(*actor.Context) {
		n := 0
		for e, err := range m.Watch(work) {
			if n++; err == nil && (n <= heard || !e.Failed()) {
				continue
			}
			if work.Err() != nil {
				return nil
			}
			if e.Reason == "" && err != nil {
				e.Reason = err.Error()
			}
			return func(ctx *actor.Context) {
				if why := f(ctx, e); why != nil {
					ctx.Fail("a mesh it owns has failed: "+why.Error(), &e)
				} else if err == nil {
					superviseFrom(ctx, m, f, n)
				}
			}
		}
		return nil
	})
}
