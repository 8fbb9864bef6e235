package actor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
	"github.com/castnet-io/castnet/subjects"
)

// Restart selects the ends of an actor that lead to a restart; its values have the names of OTP.
type Restart uint8

const (
	Propagate Restart = iota // none: a failure is the parent's, an orderly stop is the end of it
	Temporary                // none: the parent sees a failure, and goes on
	Transient                // failures
	Permanent                // all except requested ones
)

// String returns the name, such as transient.
func (r Restart) String() string { return supervise.Restart(r).String() }

// MarshalText writes the name.
func (r Restart) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a name.
func (r *Restart) UnmarshalText(text []byte) error {
	names := []Restart{Propagate, Temporary, Transient, Permanent}
	i := slices.IndexFunc(names, func(n Restart) bool { return n.String() == string(text) })
	if i < 0 {
		return fmt.Errorf("restart %q: want one of %v", text, names)
	}
	*r = names[i]
	return nil
}

// RestartPolicy is the policy after an actor's end. The restarted actor is a new one, made from the
// same parameters, with the same label under a new uid. Messages for the old one come back;
// Successor returns the new one's Ref. When the restarts are used up, the actor has failed for
// good. Its parent then handles that as if there were no RestartPolicy.
type RestartPolicy struct {
	Restart     Restart
	MaxRestarts int           // restarts within the window; 0: 3; at most 1,000
	Window      time.Duration // the window; 0: 5 s
	Backoff     time.Duration // before a restart; it doubles with each restart within the window; 0: none
	MaxBackoff  time.Duration // the longest backoff
}

// Strategy selects the siblings that restart together.
type Strategy uint8

const (
	OneForOne  Strategy = iota // the ended actor
	OneForAll                  // all of them
	RestForOne                 // the ended actor, and those spawned after it
)

func (r RestartPolicy) policy() supervise.Policy {
	return supervise.Policy{
		Restart: supervise.Restart(r.Restart), MaxRestarts: r.MaxRestarts, Window: r.Window,
		Backoff: supervise.Backoff{First: r.Backoff, Max: r.MaxBackoff},
	}
}

// Successor returns the actor in the place of ref, after any number of restarts; ref itself if
// there were none. It covers actors of this process only.
func Successor[A any](ref Ref[A]) Ref[A] {
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
	return Ref[A]{actorRef{id: in.id(), via: ref.via, in: in}}
}

// restartPolicy returns the actor's restart policy.
func (in *instance) restartPolicy() RestartPolicy {
	if in.spawn == nil || in.spawn.spec == nil {
		return RestartPolicy{}
	}
	return in.spawn.spec.RestartPolicy
}

// trackConstructor tracks the constructor of a new actor. Until it has returned, only its waiting
// spawner is notified of a failure.
func (in *instance) trackConstructor() {
	b := in.spawn
	in.mu.Lock()
	in.startReported = b.result == nil && (b.onConstructed == nil || b.isRestart)
	in.mu.Unlock()
	if b.result != nil {
		b.onConstructed = (*instance).onConstructed
	}
}

// onConstructed takes the result of the constructor.
func (in *instance) onConstructed(err error) {
	if err != nil {
		in.actor = nil // there is nothing to clean up
		return
	}
	in.mu.Lock()
	in.startReported = in.startReported || !in.aborted
	in.mu.Unlock()
}

// onEnd decides on the effects of an end.
func (f *children) onEnd(o childOwner, in *instance, e Event) {
	in.mu.Lock()
	asked := in.stopRequested
	grouped := in.groupRestart
	late := in.lateStopRequest
	in.mu.Unlock()
	why := supervise.Stopped
	if asked || grouped || late && in.restartPolicy().Restart != Propagate {
		why = supervise.Requested // it need not come again
	} else if e.Failed() {
		why = supervise.Failed
	}
	if f.state == nil || !f.state.Has(in) {
		o.onFinalEnd(e, why == supervise.Failed, "")
		return
	}
	f.undecided[in] = e
	f.applyEnd(o, in, why)
	if grouped && asked { // it was asked to stop, too: no restart
		f.dropRestart(o, in)
	}
}

// dropRestart removes an actor that will not be restarted.
func (f *children) dropRestart(o childOwner, in *instance) {
	if f.state != nil && f.state.Has(in) {
		f.applyEnd(o, in, supervise.Requested)
	}
}

// applyEnd decides on the effects of an end.
func (f *children) applyEnd(o childOwner, in *instance, why supervise.ExitReason) {
	f.runEffects(o, f.state.Ended(in, why, time.Now()))
	f.reportFinalEnd(o, in)
}

// reportFinalEnd gives an end to its owner when the actor is not started again.
func (f *children) reportFinalEnd(o childOwner, in *instance) {
	if e, open := f.undecided[in]; open && !f.state.Has(in) {
		delete(f.undecided, in)
		o.onFinalEnd(e, false, "")
	}
}

// runEffects carries out the decided effects.
func (f *children) runEffects(o childOwner, effects []supervise.Effect) {
	for _, effect := range effects {
		switch x := effect.(type) {
		case supervise.Stop:
			child := x.Key.(*instance)
			child.stopForGroupRestart()
			o.after(child.proc.options.Cleanup, func(childOwner) { // it may have ended long since
				child.fail(ending{code: CodeKilled, reason: "killed: its group restarts and it did not stop"})
			})
		case supervise.Start:
			f.restart(o, x.Key.(*instance))
		case supervise.SetTimer:
			o.after(time.Until(x.Until), func(o childOwner) { f.runEffects(o, f.state.OnTimer(time.Now())) })
		case supervise.Escalate:
			child := x.Key.(*instance)
			e := f.undecided[child]
			reason := x.Reason
			if child.restartPolicy().Restart == Propagate { // already published
				reason = ""
			}
			delete(f.undecided, child)
			o.onFinalEnd(e, true, reason)
		}
	}
}

// restart starts an actor in the place of an ended one. The result of its constructor comes later
// (onRestarted).
func (f *children) restart(o childOwner, old *instance) {
	spec := *old.spawn.spec
	b := &spawnState{}
	var err error
	spec.Name, err = subjects.NewName(labelOf(old.name))
	if err != nil { // the label was valid before
		panic(err)
	}
	var heard atomic.Bool
	var cancel func()
	b.onConstructed = func(in *instance, err error) {
		in.onConstructed(err)
		if !heard.CompareAndSwap(false, true) {
			return
		}
		b.isRestart = err != nil // else it is registered already
		o.run(func(o childOwner) {
			cancel()
			f.onRestarted(o, old, in, err)
		})
	}
	in, err := o.proc().startInstance(old.def, o.instance(), &spec, b, old)
	if err != nil { // the proc or the parent ends
		log := o.proc().Log()
		log.Debug().Err(err).Str("actor", old.name).Msg("cannot restart actor")
		return
	}
	cancel = o.after(DefaultDeadline, func(o childOwner) {
		if heard.CompareAndSwap(false, true) {
			late := errors.New("killed: its constructor did not return within " + DefaultDeadline.String())
			in.fail(ending{code: CodeKilled, reason: late.Error()})
			f.onRestarted(o, old, in, late)
		}
	})
}

// labelOf returns the label of an actor's name, without the uid.
func labelOf(name string) string {
	if cut := len(name) - subjects.UIDLen - 1; cut > 0 && name[cut] == '-' &&
		strings.Trim(name[cut+1:], "0123456789abcdefghijklmnopqrstuvwxyz") == "" {
		return name[:cut]
	}
	return name
}

// onRestarted takes the result of a restarted actor's constructor.
func (f *children) onRestarted(o childOwner, old, in *instance, err error) {
	if err == nil {
		delete(f.undecided, old)
		f.runEffects(o, f.state.Restarted(old, in, time.Now()))
		return
	}
	before := f.undecided[old]
	why := asError(err)
	f.undecided[old] = in.event(Failed, ending{code: why.Code, reason: why.Text, cause: &before})
	f.runEffects(o, f.state.StartFailed(old, time.Now()))
	f.reportFinalEnd(o, old)
}

// restartChain is shared by an actor and its successive replacements, so that none of them keeps
// all the others in memory.
type restartChain struct{ current atomic.Pointer[instance] }

// joinRestartChain puts an actor in the place of an ended one.
func (in *instance) joinRestartChain(old *instance) {
	old.mu.Lock()
	r := old.ensureExtra()
	if r.restartChain == nil {
		r.restartChain = &restartChain{}
	}
	shared := r.restartChain
	old.mu.Unlock()
	shared.current.Store(in)
	in.mu.Lock()
	in.ensureExtra().restartChain = shared
	in.mu.Unlock()
}

// successor returns the actor in this one's place; nil if there is none, or it is the actor itself.
func (in *instance) successor() *instance {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.extra == nil || in.extra.restartChain == nil {
		return nil
	}
	if now := in.extra.restartChain.current.Load(); now != in {
		return now
	}
	return nil
}
