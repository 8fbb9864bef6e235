package actor

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
	"github.com/castnet-io/castnet/subjects"
)

// When says which ends of an actor are followed by a new start.
type When uint8

const (
	Propagate When = iota // none: a failure is the parent's, an orderly stop is the end of it
	Temporary             // none: the parent is told of a failure, and goes on
	Transient             // failures
	Permanent             // all that nobody asked for
)

// Restart says what follows the end of an actor. The one that takes its place is a new actor, made
// from the same parameters, of the same label under a new uid: what was sent to the old one comes
// back, and whoever knew it asks Current. An actor whose restarts are used up has failed for good,
// and that is its parent's to deal with, as if there were no Restart.
type Restart struct {
	When    When
	Most    int           // restarts within the window; 0: 3; at most 1,000
	Within  time.Duration // the window; 0: 5 s
	Backoff Backoff
}

// Backoff is the delay before a restart: it doubles from First to Max with each restart in the
// window. The zero value starts again at once.
type Backoff struct{ First, Max time.Duration }

// Strategy says which children of an actor are started again together.
type Strategy uint8

const (
	OneForOne  Strategy = iota // the one that ended
	OneForAll                  // all of them
	RestForOne                 // the one that ended, and those spawned after it
)

func (r Restart) policy() supervise.Policy {
	return supervise.Policy{
		When: supervise.When(r.When), Most: r.Most, Within: r.Within,
		Backoff: supervise.Backoff{First: r.Backoff.First, Max: r.Backoff.Max},
	}
}

// Current is the actor that has taken the place of the one ref names, after any number of restarts;
// ref itself when none has. It knows of actors of this process only.
func Current[A any](ref Ref[A]) Ref[A] {
	in := ref.in
	if in == nil && ref.via != nil && ref.id.Proc == ref.via.id {
		in = ref.via.find(ref.id.Name)
	}
	if in == nil {
		return ref
	}
	if next := in.successor(); next != nil {
		in = next
	}
	return Ref[A]{id: in.id(), via: ref.via, in: in}
}

// restart is what follows the actor's end.
func (in *instance) restart() Restart {
	if in.birth == nil {
		return Restart{}
	}
	return in.birth.Restart
}

// heedBirth notes what becomes of the constructor of a new actor: until it has returned, whoever
// waits for that is told of a failure, and nobody else has to be.
func (in *instance) heedBirth() {
	b := in.birth
	in.mu.Lock()
	in.born = b.told == nil && (b.begun == nil || b.again)
	in.mu.Unlock()
	if b.told != nil {
		b.begun = (*instance).bornOf
	}
}

// bornOf takes what became of the constructor.
func (in *instance) bornOf(err error) {
	if err != nil {
		in.actor = nil // there is nothing to clean up
		return
	}
	in.mu.Lock()
	in.born = in.born || !in.over
	in.mu.Unlock()
}

// ended decides what follows an end.
func (f *family) ended(o owner, in *instance, e Event) {
	in.mu.Lock()
	asked, grouped, late := in.onRequest, in.grouped, in.late
	in.mu.Unlock()
	why := supervise.Stopped
	switch {
	case asked || grouped || late && in.birth != nil && in.birth.Restart.When != Propagate: // it need not come again
		why = supervise.Asked
	case e.Failed():
		why = supervise.Failed
	}
	if f.state == nil || !f.state.Has(in) {
		o.over(e, why == supervise.Failed, "")
		return
	}
	f.ends[in] = e
	f.told(o, in, why)
	if grouped && asked { // to end with its group was one thing, not to come again is another
		f.forget(o, in)
	}
}

// forget lets an actor go that is not to come again.
func (f *family) forget(o owner, in *instance) {
	if f.state != nil && f.state.Has(in) {
		f.told(o, in, supervise.Asked)
	}
}

// told decides what follows an end.
func (f *family) told(o owner, in *instance, why supervise.End) {
	f.carryOut(o, f.state.Ended(in, why, time.Now()))
	f.settle(o, in)
}

// settle gives an end to its owner when the actor is not started again.
func (f *family) settle(o owner, in *instance) {
	if e, open := f.ends[in]; open && !f.state.Has(in) {
		delete(f.ends, in)
		o.over(e, false, "")
	}
}

// carryOut does what was decided.
func (f *family) carryOut(o owner, effects []supervise.Effect[*instance]) {
	for _, effect := range effects {
		switch x := effect.(type) {
		case supervise.Stop[*instance]:
			x.Key.withGroup()
			o.after(x.Key.proc.cleanup, func(owner) { // it may have ended long since
				x.Key.fail(ending{code: CodeKilled, reason: "killed: it is started again with its group, and did not stop"})
			})
		case supervise.Start[*instance]:
			f.again(o, x.Key)
		case supervise.Wait[*instance]:
			o.after(time.Until(x.Until), func(o owner) { f.carryOut(o, f.state.Due(time.Now())) })
		case supervise.Escalate[*instance]:
			e, reason := f.ends[x.Key], x.Reason
			if x.Key.restart().When == Propagate { // that is no news
				reason = ""
			}
			delete(f.ends, x.Key)
			o.over(e, true, reason)
		}
	}
}

// again starts an actor in the place of one that has ended. What becomes of its constructor is heard
// of later.
func (f *family) again(o owner, old *instance) {
	b := &birth{Spawning: old.birth.Spawning}
	var err error
	if b.Name, err = subjects.NewName(labelOf(old.name)); err != nil { // the label is as good as it was
		panic(err)
	}
	var heard atomic.Bool
	var cancel func()
	b.begun = func(in *instance, err error) {
		in.bornOf(err)
		if !heard.CompareAndSwap(false, true) {
			return
		}
		b.again = err != nil // else it has taken that place
		o.enter(func(o owner) {
			cancel()
			f.begun(o, old, in, err)
		})
	}
	in, err := o.proc().bear(old.def, o.instance(), b, old)
	if err != nil { // the proc or the parent ends
		log := o.proc().Log()
		log.Debug().Err(err).Str("actor", old.name).Msg("not started again")
		return
	}
	cancel = o.after(DefaultDeadline, func(o owner) {
		if heard.CompareAndSwap(false, true) {
			late := errors.New("killed: its constructor did not return within " + DefaultDeadline.String())
			in.fail(ending{code: CodeKilled, reason: late.Error()})
			f.begun(o, old, in, late)
		}
	})
}

// labelOf is the label of an actor's name, which may have a uid.
func labelOf(name string) string {
	if cut := len(name) - subjects.UIDLen - 1; cut > 0 && name[cut] == '-' &&
		strings.Trim(name[cut+1:], "0123456789abcdefghijklmnopqrstuvwxyz") == "" {
		return name[:cut]
	}
	return name
}

// begun takes what became of the constructor of an actor that was started again.
func (f *family) begun(o owner, old, in *instance, err error) {
	if err == nil {
		delete(f.ends, old)
		f.carryOut(o, f.state.Restarted(old, in, time.Now()))
		return
	}
	before, why := f.ends[old], plainError(err)
	f.ends[old] = in.event(Failed, ending{code: why.Code, reason: why.Text, cause: &before})
	f.carryOut(o, f.state.StartFailed(old, time.Now()))
	f.settle(o, old)
}

// place is what an actor and those that took its place one after the other share: who is there now. So
// none of them keeps all the others.
type place struct{ now atomic.Pointer[instance] }

// takePlace puts an actor in the place of one that has ended.
func (in *instance) takePlace(old *instance) {
	old.mu.Lock()
	r := old.rarely()
	if r.place == nil {
		r.place = &place{}
	}
	shared := r.place
	old.mu.Unlock()
	shared.now.Store(in)
	in.mu.Lock()
	in.rarely().place = shared
	in.mu.Unlock()
}

// successor is the actor that is in this one's place now; nil: none, or itself.
func (in *instance) successor() *instance {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.rare == nil || in.rare.place == nil {
		return nil
	}
	if now := in.rare.place.now.Load(); now != in {
		return now
	}
	return nil
}
