package actor

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
)

// Supervisor is implemented by actors that decide what their children's ends mean. Supervise runs on
// the actor's turn, before its mail, once for every child that has ended and is not started again;
// handled says that nothing is to follow. An error fails the actor. Without it, and when it is not
// handled, a child's failure fails its parent, and an orderly end changes nothing.
type Supervisor interface {
	Supervise(ctx *Context, e Event) (handled bool, err error)
}

// family is the children of an actor, or the actors of a proc that have no parent and a Restart.
//
// What follows an end is decided by supervise.State, on the parent's turn; the proc has a lock of
// its own for that.
type family struct {
	members map[*instance]uint64 // guarded by the parent's lock: those that live, and when each came
	next    uint64               // the same
	empty   chan struct{}        // the same: closed when the last has gone; nil: nobody waits for that

	strategy Strategy
	state    *supervise.State[*instance] // nil: nobody is ever started again
	ends     map[*instance]Event         // of those whose fate is not decided
}

func newFamily(s Strategy) *family {
	return &family{members: map[*instance]uint64{}, strategy: s, ends: map[*instance]Event{}}
}

// add takes a child in. The lock is held.
func (f *family) add(in *instance, r Restart) {
	f.members[in] = f.next
	f.next++
	if !in.birth.again { // else it is told when it has taken that place
		f.supervise(in, r)
	}
}

// supervise tells who decides about ends of an actor, from the first on that may be started again.
// The lock is held.
func (f *family) supervise(in *instance, r Restart) {
	if f.state == nil {
		if r == (Restart{}) && f.strategy == OneForOne {
			return
		}
		f.state = supervise.New[*instance](supervise.Strategy(f.strategy))
		for _, older := range slices.Backward(f.youngestFirst()) {
			if older != in {
				f.state.Started(older, supervise.Policy{})
			}
		}
	}
	f.state.Started(in, r.policy())
}

// remove lets an actor go that has ended. The lock is held.
func (f *family) remove(in *instance) {
	delete(f.members, in)
	if f.empty != nil && len(f.members) == 0 {
		close(f.empty)
		f.empty = nil
	}
}

// youngestFirst lists the members, the last that came first. The lock is held.
func (f *family) youngestFirst() []*instance {
	return slices.SortedFunc(maps.Keys(f.members), func(a, b *instance) int {
		return int(int64(f.members[b]) - int64(f.members[a]))
	})
}

// adopt makes an actor the child of its parent; nil stands for the proc.
func (p *Proc) adopt(parent, in *instance, r Restart) error {
	in.heedBirth()
	if parent == nil {
		if r != (Restart{}) && !in.birth.again { // else the lock is held
			p.roots.mu.Lock()
			defer p.roots.mu.Unlock()
			p.roots.family.supervise(in, r)
		}
		return nil
	}
	parent.mu.Lock()
	defer parent.mu.Unlock()
	if parent.over || parent.winding || parent.state.terminal() {
		return parent.why()
	}
	rare := parent.rarely()
	if rare.family == nil {
		rare.family = newFamily(parent.strategy)
	}
	rare.family.add(in, r)
	return nil
}

// endChildren stops the children, the youngest first, and waits for them: those of an actor that
// failed do not handle what is in their mailboxes any more. Those that do not end are killed, and
// left behind.
func (in *instance) endChildren(f *family, over bool) {
	in.mu.Lock()
	if f.state != nil {
		f.state.Stopping()
	}
	how := Stopped
	if in.failed {
		how = Failed
	}
	reason := "its parent " + string(how) + ": " + in.event(how, in.rarely().end).Reason
	all := f.youngestFirst()
	empty := make(chan struct{})
	if len(all) == 0 {
		close(empty)
	} else {
		f.empty = empty
	}
	hurry := make(chan struct{})
	in.rare.hurry = hurry
	in.mu.Unlock()
	for _, c := range all {
		if over {
			c.drop(reason)
		} else {
			c.asked(ending{reason: reason})
		}
	}
	ctx, cancel := in.windUp()
	defer cancel()
	select {
	case <-empty:
		return
	case <-hurry:
		for _, c := range all {
			c.drop("its parent was killed")
		}
		select {
		case <-empty:
			return
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	in.mu.Lock()
	left := f.youngestFirst()
	in.mu.Unlock()
	for _, c := range left {
		log := in.log()
		log.Warn().Str("child", c.name).Dur("waited", in.proc.cleanup).Msg("a child does not stop and is left behind")
		c.fail(ending{code: CodeKilled, reason: "killed: its parent stopped and it did not"})
	}
}

// bereave is the terminal event: it tells observers, and whoever the end is to be dealt with by
// (ACT-6).
//
//go:noinline
func (in *instance) bereave() {
	p, e := in.proc, in.happened(in.state.status())
	in.mu.Lock()
	told := in.failed && !in.born // to whoever spawned it, by Spawn
	in.mu.Unlock()
	if in.parent != nil {
		in.parent.mu.Lock()
		in.parent.rare.family.remove(in)
		if e.Failed() {
			in.parent.rare.failure = &e
		}
		in.parent.mu.Unlock()
	}
	switch {
	case in.birth != nil && in.birth.again: // it never took that place, and that is told
	case told:
		p.inFamily(in, func(f *family, o owner) { f.forget(o, in) })
	default:
		p.inFamily(in, func(f *family, o owner) { f.ended(o, in, e) })
	}
}

// unwanted takes it that an actor that has ended is not to come again.
func (p *Proc) unwanted(in *instance) {
	p.inFamily(in, func(f *family, o owner) {
		if _, known := f.ends[in]; known { // else ended itself sees that it was asked to stop
			f.forget(o, in)
		}
	})
}

// inFamily does something when the family of an actor may be looked at.
func (p *Proc) inFamily(in *instance, do func(*family, owner)) {
	parent := in.parent
	if parent == nil {
		p.roots.enter(p, func(o owner) { do(p.roots.family, o) })
		return
	}
	parent.post(func(ctx *Context) { do(parent.rare.family, childrenOf{parent, ctx}) })
}

// owner is whose family it is.
type owner interface {
	enter(f func(owner))                                  // later, when the family may be looked at
	after(d time.Duration, f func(owner)) (cancel func()) // cancel then, too
	proc() *Proc
	instance() *instance // nil: the proc
	// over takes the end of one that is not started again. fatal: it is the owner's to deal with;
	// reason: why it is not started again, when that is not its Restart alone.
	over(e Event, fatal bool, reason string)
}

// childrenOf is an actor whose family it is, on its turn.
type childrenOf struct {
	in  *instance
	ctx *Context
}

func (c childrenOf) enter(f func(owner)) {
	c.in.post(func(ctx *Context) { f(childrenOf{c.in, ctx}) })
}

func (c childrenOf) after(d time.Duration, f func(owner)) (cancel func()) {
	return c.in.later(max(d, 0), func() { c.enter(f) })
}

func (c childrenOf) proc() *Proc         { return c.in.proc }
func (c childrenOf) instance() *instance { return c.in }

func (c childrenOf) over(e Event, fatal bool, reason string) {
	in, handled := c.in, !fatal
	if s, ok := in.actor.(Supervisor); ok {
		yes, err := s.Supervise(c.ctx, e)
		if err != nil {
			in.fail(ending{code: CodeHandler, reason: "while it handled the end of its child " + e.Actor + ": " + err.Error(), cause: &e})
			return
		}
		handled = handled || yes
	}
	if !handled {
		in.fail(ending{code: CodeCascade, reason: "its child " + e.Actor + " " + e.Status + ": " + e.Reason + givenUp(reason), cause: &e})
	}
}

func givenUp(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// roots are the actors of a proc that have no parent and a Restart.
type roots struct {
	mu     sync.Mutex // guards the fields below
	family *family
	closed bool
	alarms map[*time.Timer]struct{}
	then   []func() // to do without the lock
}

// enter runs f as the proc.
func (r *roots) enter(p *Proc, f func(owner)) {
	r.mu.Lock()
	f(rootsOf{p})
	then := r.then
	r.then = nil
	r.mu.Unlock()
	for _, do := range then {
		do()
	}
}

// close starts nobody again any more.
func (r *roots) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.family.state != nil {
		r.family.state.Stopping()
	}
	for t := range r.alarms {
		t.Stop()
	}
	r.alarms = nil
}

// rootsOf is a proc whose family it is, under its lock.
type rootsOf struct{ p *Proc }

func (o rootsOf) enter(f func(owner)) { o.p.roots.enter(o.p, f) }

func (o rootsOf) after(d time.Duration, f func(owner)) (cancel func()) {
	r := &o.p.roots
	if r.closed {
		return func() {}
	}
	var t *time.Timer
	t = time.AfterFunc(max(d, 0), func() {
		o.enter(func(o owner) {
			if _, there := r.alarms[t]; there {
				delete(r.alarms, t)
				f(o)
			}
		})
	})
	r.alarms[t] = struct{}{}
	return func() {
		t.Stop()
		delete(r.alarms, t)
	}
}

func (o rootsOf) proc() *Proc         { return o.p }
func (o rootsOf) instance() *instance { return nil }

// over takes the end of an actor without a parent. A failure is the coordinator's; without one the
// proc fails.
func (o rootsOf) over(e Event, fatal bool, reason string) {
	if !fatal {
		return
	}
	e.Reason += givenUp(reason)
	o.p.roots.then = append(o.p.roots.then, func() {
		if o.p.coordinator != nil {
			o.p.coordinator(e)
		} else {
			o.p.fail(e)
		}
	})
}
