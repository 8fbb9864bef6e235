package actor

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
)

// Supervisor is implemented by actors that handle the ends of their children. Supervise runs on the
// actor's turn, before its mail, once for every child that has ended and is not restarted. If
// handled is true, the end has no further effect. An error fails the actor.
//
// Without Supervise, or if handled is false, a child's failure fails its parent, and an orderly end
// changes nothing.
type Supervisor interface {
	Supervise(ctx *Context, e Event) (handled bool, err error)
}

// children holds the children of an actor, or the top-level actors of a proc that have a Restart.
//
// supervise.State decides the effects of an end, on the parent's turn. For top-level actors the
// proc has a lock instead.
type children struct {
	members map[*instance]uint64 // guarded by the parent's lock: the live children and their spawn order
	next    uint64               // the same
	// guarded by the parent's lock: closed when the last child has gone; nil: no waiter
	emptied chan struct{}

	strategy  Strategy
	state     *supervise.State    // nil: no child has a restart policy
	undecided map[*instance]Event // of those whose fate is not decided
}

func newChildren(s Strategy) *children {
	return &children{members: map[*instance]uint64{}, strategy: s, undecided: map[*instance]Event{}}
}

// add takes a child in. The lock is held.
func (f *children) add(in *instance, r RestartPolicy) {
	f.members[in] = f.next
	f.next++
	if !in.spawn.isRestart { // else onRestarted registers it
		f.supervise(in, r)
	}
}

// supervise registers an actor with the restart state, which is created for the first one that may
// be restarted. The lock is held.
func (f *children) supervise(in *instance, r RestartPolicy) {
	if f.state == nil {
		if r == (RestartPolicy{}) && f.strategy == OneForOne {
			return
		}
		f.state = supervise.New(supervise.Strategy(f.strategy))
		for _, older := range slices.Backward(f.youngestFirst()) {
			if older != in {
				f.state.Started(older, supervise.Policy{})
			}
		}
	}
	f.state.Started(in, r.policy())
}

// removeMember removes an actor that has ended. The lock is held.
func (f *children) removeMember(in *instance) {
	delete(f.members, in)
	if f.emptied != nil && len(f.members) == 0 {
		close(f.emptied)
		f.emptied = nil
	}
}

// youngestFirst lists the members, the latest first. The lock is held.
func (f *children) youngestFirst() []*instance {
	return slices.SortedFunc(maps.Keys(f.members), func(a, b *instance) int {
		return int(int64(f.members[b]) - int64(f.members[a]))
	})
}

// adopt makes an actor the child of its parent, or of the proc.
func adopt(in *instance, r RestartPolicy) error {
	in.trackConstructor()
	parent := in.parent
	if parent == nil {
		if r != (RestartPolicy{}) && !in.spawn.isRestart { // else the lock is held
			top := &in.proc.topLevel
			top.mu.Lock()
			defer top.mu.Unlock()
			top.children.supervise(in, r)
		}
		return nil
	}
	parent.mu.Lock()
	defer parent.mu.Unlock()
	if parent.aborted || parent.cleaningUp || parent.state.terminal() {
		return parent.endError()
	}
	extra := parent.ensureExtra()
	if extra.children == nil {
		extra.children = newChildren(parent.strategy)
	}
	extra.children.add(in, r)
	return nil
}

// stop stops the children of an actor, the youngest first, and waits for them. If now is true, they
// handle no more mail. If a child does not end in time, it is killed and left behind.
func (f *children) stop(in *instance, now bool) {
	in.mu.Lock()
	if f.state != nil {
		f.state.Stopping()
	}
	how := Stopped
	if in.failed {
		how = Failed
	}
	reason := "its parent " + string(how) + ": " + in.event(how, in.ensureExtra().ending).Reason
	all := f.youngestFirst()
	empty := make(chan struct{})
	if len(all) == 0 {
		close(empty)
	} else {
		f.emptied = empty
	}
	hurry := make(chan struct{})
	in.extra.killedWhileStopping = hurry
	in.mu.Unlock()
	for _, c := range all {
		if now {
			c.stopNow(reason)
		} else {
			c.requestStop(ending{reason: reason})
		}
	}
	ctx, cancel := in.cleanupContext()
	defer cancel()
	select {
	case <-empty:
		return
	case <-hurry:
		for _, c := range all {
			c.stopNow("its parent was killed")
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
		in.log().Warn().Str("child", c.name).Dur("waited", in.proc.options.Cleanup).
			Msg("child did not stop in time; not waiting for it")
		c.fail(ending{code: CodeKilled, reason: "killed: its parent stopped and it did not"})
	}
}

// notifyParent is the terminal event. It notifies observers, and the parent or proc responsible for
// the end (ACT-6).
//
//go:noinline
func (in *instance) notifyParent() {
	e := in.publishStatus(in.state.status())
	in.mu.Lock()
	told := in.failed && !in.startReported // to its spawner, by Spawn
	in.mu.Unlock()
	if in.parent != nil {
		in.parent.mu.Lock()
		in.parent.extra.children.removeMember(in)
		if e.Failed() {
			in.parent.extra.failure = &e
		}
		in.parent.mu.Unlock()
	}
	switch {
	case in.spawn != nil && in.spawn.isRestart: // its restart never succeeded, and onRestarted reports that
	case told:
		withChildren(in, func(f *children, o childOwner) { f.dropRestart(o, in) })
	default:
		withChildren(in, func(f *children, o childOwner) { f.onEnd(o, in, e) })
	}
}

// cancelRestart drops a pending restart of an ended actor.
func cancelRestart(in *instance) {
	withChildren(in, func(f *children, o childOwner) {
		if _, known := f.undecided[in]; known { // else onEnd sees that a stop was requested
			f.dropRestart(o, in)
		}
	})
}

// withChildren runs do with the actor and its siblings, when these may be looked at.
func withChildren(in *instance, do func(*children, childOwner)) {
	parent := in.parent
	if parent == nil {
		top := &in.proc.topLevel
		top.run(func(o childOwner) { do(top.children, o) })
		return
	}
	parent.runSoon(func(ctx *Context) { do(parent.extra.children, actorOwner{parent, ctx}) })
}

// childOwner is the parent actor or the proc that owns the children.
type childOwner interface {
	run(f func(childOwner))                                    // later, when the children may be looked at
	after(d time.Duration, f func(childOwner)) (cancel func()) // cancel then, too
	proc() *Proc
	instance() *instance // nil: the proc
	// onFinalEnd takes the end of a child that is not restarted. If fatal is true, the owner must
	// deal with it. reason explains the missing restart, unless its Restart alone does.
	onFinalEnd(e Event, fatal bool, reason string)
}

// actorOwner is a parent actor as childOwner, on its turn.
type actorOwner struct {
	in  *instance
	ctx *Context
}

func (c actorOwner) run(f func(childOwner)) {
	c.in.runSoon(func(ctx *Context) { f(actorOwner{c.in, ctx}) })
}

func (c actorOwner) after(d time.Duration, f func(childOwner)) (cancel func()) {
	return c.in.afterFunc(max(d, 0), func() { c.run(f) })
}

func (c actorOwner) proc() *Proc         { return c.in.proc }
func (c actorOwner) instance() *instance { return c.in }

func (c actorOwner) onFinalEnd(e Event, fatal bool, reason string) {
	in := c.in
	handled := !fatal
	if s, ok := in.actor.(Supervisor); ok {
		yes, err := s.Supervise(c.ctx, e)
		if err != nil {
			in.fail(ending{code: CodeHandler, reason: "cannot handle the end of child " + e.Actor + ": " +
				err.Error(), cause: &e})
			return
		}
		handled = handled || yes
	}
	if !handled {
		in.fail(ending{code: CodeCascade, reason: "its child " + e.Actor + " " + e.Status + ": " + e.Reason +
			restartSuffix(reason), cause: &e})
	}
}

func restartSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// topLevel holds the actors of a proc without a parent that have a Restart. It is a childOwner,
// under its lock.
type topLevel struct {
	p *Proc

	mu          sync.Mutex // guards the fields below
	children    *children
	closed      bool
	timers      map[*time.Timer]struct{}
	afterUnlock []func() // to do without the lock
}

// run runs f as the proc.
func (r *topLevel) run(f func(childOwner)) {
	r.mu.Lock()
	f(r)
	then := r.afterUnlock
	r.afterUnlock = nil
	r.mu.Unlock()
	for _, do := range then {
		do()
	}
}

// close ends all restarts.
func (r *topLevel) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.children.state != nil {
		r.children.state.Stopping()
	}
	for t := range r.timers {
		t.Stop()
	}
	r.timers = nil
}

func (r *topLevel) after(d time.Duration, f func(childOwner)) (cancel func()) {
	if r.closed {
		return func() {}
	}
	var t *time.Timer
	t = time.AfterFunc(max(d, 0), func() {
		r.run(func(o childOwner) {
			if _, there := r.timers[t]; there {
				delete(r.timers, t)
				f(o)
			}
		})
	})
	r.timers[t] = struct{}{}
	return func() {
		t.Stop()
		delete(r.timers, t)
	}
}

func (r *topLevel) proc() *Proc         { return r.p }
func (r *topLevel) instance() *instance { return nil }

// onFinalEnd takes the end of an actor without a parent. A failure is the coordinator's; without
// one the proc fails.
func (r *topLevel) onFinalEnd(e Event, fatal bool, reason string) {
	if !fatal {
		return
	}
	e.Reason += restartSuffix(reason)
	r.afterUnlock = append(r.afterUnlock, func() {
		if f := r.p.options.Coordinator; f != nil {
			f(e)
		} else {
			r.p.fail(e)
		}
	})
}
