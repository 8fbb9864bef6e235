package actor

import (
	"bytes"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Fan is one message to many actors of one process: what they have in common is kept once, and the body is
// decoded once when its type allows. Packages that extend the runtime (cast) make one, and change nothing
// of it once it is spread.
type Fan struct {
	Actor, Port string           // the target within each proc
	From        subjects.ActorID // the sender
	Deadline    time.Time        // zero = none
	Raw         []byte           // the message, encoded
	Reply       string           // by which the sender may give it up; "" = never

	// Point is where a rank stands in the view of the cast. It is asked on its actor's turn.
	Point func(view int) shape.Point
	// Answer is told the outcome for each rank exactly once, on any goroutine; it must not block. nil:
	// nobody waits.
	Answer func(view int, a Answer)
	// Refused is told, before Spread returns, whom the message does not reach at once. nil: they answer with
	// the reason, or the sender is told.
	Refused func(view int, why error)

	run   farRun // stands for all of them in mailboxes
	turns [][]fanTurn
	among *asked              // those that can be given up; nil: it is not among them
	left  atomic.Int64        // who has not answered
	over  atomic.Bool         // nobody wants answers any more
	read  atomic.Pointer[any] // the message decoded, of a type that is immutable
}

// Reached is one of those whom a Fan is for.
type Reached struct {
	Proc *Proc
	View int // its rank in the view of the cast
}

// fanTurn is the message at one of them.
type fanTurn struct {
	ctx  Context // its handler's
	fan  *Fan
	view int
}

// fanChunk is how many turns share memory, which whoever keeps the Context of one keeps.
const fanChunk = 16

// Spread puts the message into the mailbox of each actor. Whom it does not reach answers with the reason, or
// the sender is told. The actors are run by few goroutines, one after another, as long as they do not take
// long.
func (p *Proc) Spread(f *Fan, to []Reached) {
	if strings.HasPrefix(f.Port, "_") { // the runtime answers by itself
		for _, r := range to {
			r.Proc.Deliver(f.to(r.View))
		}
		return
	}
	f.run.fan = f
	f.turns = make([][]fanTurn, (len(to)+fanChunk-1)/fanChunk)
	for i, r := range to {
		if i%fanChunk == 0 {
			f.turns[i/fanChunk] = make([]fanTurn, min(fanChunk, len(to)-i))
		}
		t := f.turn(i)
		t.fan, t.view = f, r.View
	}
	f.left.Store(int64(len(to)))
	if f.Reply != "" && f.Answer != nil {
		f.join(&p.process.asked)
	}
	wake := make([]*instance, 0, len(to))
	for i, r := range to {
		t := f.turn(i)
		in := r.Proc.find(f.Actor)
		if in == nil {
			t.turnedAway(r.Proc, r.Proc.noActor(f.Actor, f.Port))
		} else if idle, err := in.deliverFan(f, i); err != nil {
			t.turnedAway(r.Proc, err)
		} else if idle {
			wake = append(wake, in)
		}
	}
	p.turns.startMany(wake)
}

// join lets the sender give the message up.
func (f *Fan) join(a *asked) {
	f.among = a
	gone, ok := a.add(f.Reply, f)
	if !ok {
		f.among = nil
	}
	if gone {
		f.over.Store(true)
	}
}

func (f *Fan) asker() subjects.ProcID { return f.From.Proc }

// giveUp ends the contexts of the handlers that run, and keeps the others from running.
func (f *Fan) giveUp() {
	f.over.Store(true)
	for _, chunk := range f.turns {
		for i := range chunk {
			chunk[i].ctx.cancel()
		}
	}
}

// answered counts an answer.
func (f *Fan) answered() {
	if f.left.Add(-1) == 0 && f.among != nil {
		f.among.forget(f.Reply, f)
	}
}

// Accept is Spread for a message to one actor that nobody answers: an error is for its sender.
func (p *Proc) Accept(f *Fan, view int) error {
	d := f.to(view)
	d.Point = f.Point(view)
	return p.deliver(&d)
}

// GiveBack tells the sender of a message that nobody answers whom it does not reach.
func (p *Proc) GiveBack(f *Fan, view int, why error) {
	d := f.to(view)
	p.undeliverable(&d, why)
}

// to is the message for one by itself.
func (f *Fan) to(view int) Delivery {
	d := Delivery{Actor: f.Actor, Port: f.Port, From: f.From, Raw: f.Raw, Deadline: f.Deadline}
	if f.Answer != nil {
		d.Answer = func(a Answer) { f.Answer(view, a) }
	}
	return d
}

func (f *Fan) turn(i int) *fanTurn { return &f.turns[i/fanChunk][i%fanChunk] }

// deliverFan is deliver for one of many, and says whether the actor is to be woken.
func (in *instance) deliverFan(f *Fan, i int) (wake bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	to := in.findName(f.Port)
	if to == nil || in.refuses() || in.box.queued >= int(in.limit) {
		return false, in.refusal(to, f.Port)
	}
	to.lane.putFan(f, i)
	return in.line(to, 1, 0), nil
}

// settle takes the answer, as an answerer. It encodes a value whose type holds pointers: other goroutines read the
// answer, and the actor may change what it points to (ACT-14).
func (t *fanTurn) settle(v any, err error) {
	a := Answer{Value: v, Err: err}
	if err == nil && v != nil && t.fan.Answer != nil && !wire.Immutable(reflect.TypeOf(v)) {
		if raw, bad := a.Raw(); bad != nil {
			a = Answer{Err: unsendable(t.ctx.in.id(), bad)}
		} else {
			a = Encoded(raw)
		}
	}
	t.give(a)
}

func (t *fanTurn) give(a Answer) {
	t.fan.answered()
	if t.fan.Answer != nil {
		t.fan.Answer(t.view, a)
	}
}

// turnedAway says that it was not accepted.
func (t *fanTurn) turnedAway(p *Proc, why error) {
	if t.fan.Refused == nil {
		t.refused(p, "", why)
		return
	}
	t.fan.answered()
	t.fan.Refused(t.view, why)
}

// refused says that no handler runs it; typ is its type, for people.
func (t *fanTurn) refused(p *Proc, typ string, why error) {
	t.fan.answered()
	d := t.fan.to(t.view)
	d.typ = typ
	p.undeliverable(&d, why)
}

func (l *laneOf[M, R]) putFan(f *Fan, i int) { l.push(letter[M, R]{far: &f.run, turn: i}) }

// spread handles a message that went to many.
func (l *laneOf[M, R]) spread(in *instance, t *fanTurn) {
	if t.fan.over.Load() {
		t.settle(nil, errorf(CodeCanceled, in.id().String(), l.b.name, "the caller gave up"))
		return
	}
	m, err := l.b.copyOf(in, t.fan)
	if err != nil { // the sender's fault: the actor is left alone
		t.refused(in.proc, l.b.in, err)
		return
	}
	ctx := &t.ctx
	ctx.in, ctx.answer = in, t
	if !t.fan.Deadline.IsZero() {
		ctx.until = in.proc.at(t.fan.Deadline)
	}
	in.turning = ctx
	v, err := l.b.handle(in.actor, ctx, m)
	if err != nil {
		l.n.failed.Add(1)
	}
	switch ctx.end(); {
	case ctx.owed != nil:
	case err == nil && l.b.byValue:
		t.give(Answer{Value: v})
	case err == nil:
		t.settle(v, nil)
	case t.fan.Answer == nil:
		in.unanswered(&l.b.method, ctx, err)
	default:
		t.settle(nil, ranError(err))
	}
}

// copyOf is the message for one of many: none can change what another one gets.
func (b *bound[M, R]) copyOf(in *instance, f *Fan) (m M, err error) {
	if to, is := any(&m).(*[]byte); is {
		if body, ok := wire.Bytes(f.Raw); ok {
			*to = bytes.Clone(body)
			return m, nil
		}
	}
	if read := f.read.Load(); read != nil {
		if m, ok := (*read).(M); ok {
			return m, nil
		}
	}
	m, err = b.argument(in.id(), &Delivery{Raw: f.Raw}, &in.proc.counts.unknown)
	if err == nil && b.shared {
		read := any(m)
		f.read.Store(&read)
	}
	return m, err
}
