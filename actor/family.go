package actor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
	"github.com/castnet-io/castnet/subjects"
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
// its own for that. members is guarded by the actor's lock, or that of the proc's roots.
type family struct {
	members map[*instance]uint64 // those that live, and when each came
	next    uint64
	empty   chan struct{} // closed when the last has gone; nil: nobody waits for that

	strategy Strategy
	state    *supervise.State[*instance] // nil: nobody is ever started again
	ends     map[*instance]Event         // of those whose fate is not decided
}

func newFamily(s Strategy) *family {
	return &family{members: map[*instance]uint64{}, strategy: s, ends: map[*instance]Event{}}
}

// add takes an actor in. The lock is held.
func (f *family) add(in *instance, r Restart) {
	f.members[in] = f.next
	f.next++
	if in.birth.again { // it has the place and the policy of that one
		return
	}
	if f.state == nil && (r != Restart{} || f.strategy != OneForOne) {
		f.state = supervise.New[*instance](supervise.Strategy(f.strategy))
		for _, older := range slices.Backward(f.youngestFirst()) {
			if older != in {
				f.state.Started(older, supervise.Policy{})
			}
		}
	}
	if f.state != nil {
		f.state.Started(in, r.policy())
	}
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

// family returns the actor's children; nil when it never had one. The lock is held.
func (in *instance) family() *family {
	if in.rare == nil {
		return nil
	}
	return in.rare.family
}

// adopt makes an actor the child of its parent; nil stands for the proc.
func (p *Proc) adopt(parent, in *instance, r Restart) error {
	if parent == nil {
		if r != (Restart{}) && !in.birth.again { // else the lock is held, and it is in the family
			p.roots.mu.Lock()
			defer p.roots.mu.Unlock()
			p.roots.family.add(in, r)
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
func (in *instance) endChildren(ctx context.Context, f *family, over bool) {
	in.mu.Lock()
	if f.state != nil {
		f.state.Stopping()
	}
	reason := "its parent ends: " + in.why().Text
	all := f.youngestFirst()
	empty := make(chan struct{})
	if len(all) == 0 {
		close(empty)
	} else {
		f.empty = empty
	}
	in.mu.Unlock()
	for _, c := range all {
		if over {
			c.drop(reason)
		} else {
			c.asked(reason)
		}
	}
	select {
	case <-empty:
		return
	case <-ctx.Done():
	}
	in.mu.Lock()
	left := f.youngestFirst()
	in.mu.Unlock()
	for _, c := range left {
		log := in.log()
		log.Warn().Str("child", c.name).Dur("waited", cleanupTimeout).Msg("a child does not stop and is left behind")
		c.fail(ending{code: CodeKilled, reason: "killed: its parent stopped and it did not"})
	}
}

// bereave is the terminal event: it tells observers, and the parent.
//
//go:noinline
func (in *instance) bereave() {
	p, e := in.proc, in.happened(in.state.status())
	parent := in.parent
	if parent == nil {
		p.roots.enter(p, func(o owner) {
			p.roots.family.remove(in)
			p.roots.family.ended(o, in, e)
		})
		return
	}
	parent.mu.Lock()
	f := parent.rare.family
	f.remove(in)
	if e.Failed() {
		parent.rare.failure = &e
	}
	parent.mu.Unlock()
	parent.post(func(ctx *Context) { f.ended(childrenOf{parent, ctx}, in, e) })
}

// owner is whose family it is.
type owner interface {
	enter(f func(owner)) // later, when the family may be looked at
	after(d time.Duration, f func(owner))
	proc() *Proc
	instance() *instance // nil: the proc
	// over takes the end of one that is not started again. fatal: it is the owner's to deal with;
	// reason: why it is not started again, when that is not its Restart alone.
	over(e Event, fatal bool, reason string)
}

// ended decides what follows an end.
func (f *family) ended(o owner, in *instance, e Event) {
	in.mu.Lock()
	asked, grouped := in.onRequest, in.grouped
	in.mu.Unlock()
	why := supervise.Stopped
	switch {
	case asked || grouped:
		why = supervise.Asked
	case e.Failed():
		why = supervise.Failed
	}
	if in.birth != nil && in.birth.again && !in.born { // its start has failed, and that was told
		return
	}
	if f.state == nil || !f.state.Has(in) {
		o.over(e, why == supervise.Failed, "")
		return
	}
	f.ends[in] = e
	f.told(o, in, why)
	if grouped && asked { // to end with its group was one thing, not to come again is another
		f.told(o, in, supervise.Asked)
	}
}

// told decides what follows an end.
func (f *family) told(o owner, in *instance, why supervise.End) {
	f.carryOut(o, f.state.Ended(in, why, time.Now()))
	if e, undecided := f.ends[in]; undecided && !f.state.Has(in) {
		delete(f.ends, in)
		o.over(e, false, "")
	}
}

// knows reports whether the end of an actor was told and its fate is open. Before that ended itself
// sees that the actor was asked to stop.
func (f *family) knows(in *instance) bool {
	_, told := f.ends[in]
	return told && f.state.Has(in)
}

// unwanted takes it that an actor that has ended is not to come again.
func (p *Proc) unwanted(in *instance) {
	if in.parent == nil {
		p.roots.enter(p, func(o owner) {
			if f := p.roots.family; f.knows(in) {
				f.told(o, in, supervise.Asked)
			}
		})
		return
	}
	parent := in.parent
	parent.post(func(ctx *Context) {
		if f := parent.rare.family; f.knows(in) {
			f.told(childrenOf{parent, ctx}, in, supervise.Asked)
		}
	})
}

// carryOut does what was decided.
func (f *family) carryOut(o owner, effects []supervise.Effect[*instance]) {
	for _, effect := range effects {
		switch x := effect.(type) {
		case supervise.Stop[*instance]:
			x.Key.withGroup()
		case supervise.Start[*instance]:
			f.again(o, x.Key)
		case supervise.Wait[*instance]:
			o.after(time.Until(x.Until), func(o owner) { f.carryOut(o, f.state.Due(time.Now())) })
		case supervise.Escalate[*instance]:
			e := f.ends[x.Key]
			delete(f.ends, x.Key)
			o.over(e, true, x.Reason)
		}
	}
}

// again starts an actor in the place of one that has ended. What becomes of its constructor is heard
// of later.
func (f *family) again(o owner, old *instance) {
	b := &birth{Spawning: old.birth.Spawning}
	label := old.name
	if cut := len(label) - subjects.UIDLen - 1; cut > 0 && label[cut] == '-' && !strings.Contains(label[cut+1:], "-") {
		label = label[:cut]
	}
	var err error
	if b.Name, err = subjects.NewName(label); err != nil { // the label is as good as it was
		panic(err)
	}
	var once sync.Once
	b.begun = func(in *instance, err error) {
		once.Do(func() {
			in.born = err == nil
			o.enter(func(o owner) { f.begun(o, old, in, err) })
		})
	}
	in, err := o.proc().bear(old.def, o.instance(), b, old)
	if err != nil { // the proc or the parent ends
		log := o.proc().Log()
		log.Debug().Err(err).Str("actor", old.name).Msg("not started again")
		return
	}
	o.after(DefaultDeadline, func(owner) {
		once.Do(func() {
			in.fail(ending{code: CodeDeadline, reason: "killed: its constructor did not return"})
			o.enter(func(o owner) { f.begun(o, old, in, ErrDeadline) })
		})
	})
}

// begun takes what became of the constructor of an actor that was started again.
func (f *family) begun(o owner, old, in *instance, err error) {
	if err == nil {
		delete(f.ends, old)
		f.carryOut(o, f.state.Restarted(old, in, time.Now()))
		return
	}
	e := f.ends[old]
	e.Status, e.Actor, e.Code, e.Endpoint, e.Reason = string(Failed), in.name, CodeHandler, "", err.Error()
	f.ends[old] = e
	f.carryOut(o, f.state.StartFailed(old, time.Now()))
}

// childrenOf is an actor whose family it is, on its turn.
type childrenOf struct {
	in  *instance
	ctx *Context
}

func (c childrenOf) enter(f func(owner)) {
	c.in.post(func(ctx *Context) { f(childrenOf{c.in, ctx}) })
}

func (c childrenOf) after(d time.Duration, f func(owner)) {
	c.in.later(max(d, 0), func() { c.enter(f) })
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

func (o rootsOf) after(d time.Duration, f func(owner)) {
	r := &o.p.roots
	if r.closed {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(max(d, 0), func() {
		r.mu.Lock()
		_, there := r.alarms[t]
		delete(r.alarms, t)
		r.mu.Unlock()
		if there {
			o.enter(f)
		}
	})
	r.alarms[t] = struct{}{}
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
