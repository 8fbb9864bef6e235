package actor

import (
	"bytes"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// LocalMulticast is one message to many actors of one process. The shared part is stored once, and
// the body is decoded once if its type allows. Do not change it after DeliverAll.
type LocalMulticast struct {
	Actor, Port string           // the target within each proc
	From        subjects.ActorID // the sender
	Deadline    time.Time        // zero = none
	Raw         []byte           // the message, encoded
	Reply       string           // by which the sender may cancel it; "": never
	Trace       *wire.Trace      // nil: none

	// Point returns the place of a rank in the view of the cast. It is called on its actor's turn.
	Point func(view int) shape.Point
	// Answer receives the outcome of each rank exactly once, on any goroutine; it must not block.
	// nil: the sender does not wait.
	Answer func(view int, a Answer)
	// Refused is called for each refused rank before DeliverAll returns. nil: the rank's answer is
	// the reason, or the sender gets a dead letter.
	Refused func(view int, why error)

	batch      remoteBatch // stands for all of them in mailboxes
	turns      [][]recipientTurn
	pending    *pendingRequests    // the requests that can be cancelled; nil: this is none
	unanswered atomic.Int64        // recipients without an answer
	cancelled  atomic.Bool         // the caller stopped waiting
	decoded    atomic.Pointer[any] // the decoded message, if its type is immutable
}

// LocalRecipient is one recipient of a LocalMulticast.
type LocalRecipient struct {
	Proc *Proc
	View int // its rank in the view of the cast
}

// recipientTurn is the message at one of them.
type recipientTurn struct {
	ctx       Context // its handler's
	multicast *LocalMulticast
	view      int
}

// turnChunk is the number of turns that share memory. A kept Context keeps its whole chunk.
const turnChunk = 16

// DeliverAll puts the message into the mailbox of each actor. A refused rank answers with the
// reason, or the sender gets a dead letter. A few goroutines run the actors one after another, as
// long as these are quick.
func (c *Casts) DeliverAll(f *LocalMulticast, to []LocalRecipient) {
	if strings.HasPrefix(f.Port, "_") { // the runtime answers by itself
		for _, r := range to {
			r.Proc.deliverOrReject(f.deliveryFor(r.View))
		}
		return
	}
	f.batch.multicast = f
	f.turns = make([][]recipientTurn, (len(to)+turnChunk-1)/turnChunk)
	for i, r := range to {
		if i%turnChunk == 0 {
			f.turns[i/turnChunk] = make([]recipientTurn, min(turnChunk, len(to)-i))
		}
		t := f.turnAt(i)
		t.multicast = f
		t.view = r.View
	}
	f.unanswered.Store(int64(len(to)))
	if f.Reply != "" && f.Answer != nil {
		f.registerCancel(&c.p.process.pending)
	}
	wake := make([]*instance, 0, len(to))
	for i, r := range to {
		t := f.turnAt(i)
		in := r.Proc.find(f.Actor)
		if in == nil {
			t.refuse(r.Proc, r.Proc.noActor(f.Actor, f.Port))
		} else if idle, err := in.enqueueMulticast(f, i); err != nil {
			t.refuse(r.Proc, err)
		} else if idle {
			wake = append(wake, in)
		}
	}
	c.p.workers.startMany(wake)
}

// registerCancel lets the sender give the message up.
func (f *LocalMulticast) registerCancel(a *pendingRequests) {
	f.pending = a
	gone, ok := a.add(f.Reply, f)
	if !ok {
		f.pending = nil
	}
	if gone {
		f.cancelled.Store(true)
	}
}

func (f *LocalMulticast) requester() subjects.ProcID { return f.From.Proc }

// cancel ends the contexts of running handlers, and keeps the others from running.
func (f *LocalMulticast) cancel() {
	f.cancelled.Store(true)
	for _, chunk := range f.turns {
		for i := range chunk {
			chunk[i].ctx.cancel()
		}
	}
}

// countAnswer counts an answer.
func (f *LocalMulticast) countAnswer() {
	if f.unanswered.Add(-1) == 0 && f.pending != nil {
		f.pending.remove(f.Reply, f)
	}
}

// deliveryFor is the message for one by itself.
func (f *LocalMulticast) deliveryFor(view int) Delivery {
	d := Delivery{Actor: f.Actor, Port: f.Port, From: f.From, Raw: f.Raw, Deadline: f.Deadline, trace: f.Trace}
	if f.Answer != nil {
		d.Answer = func(a Answer) { f.Answer(view, a) }
	}
	return d
}

func (f *LocalMulticast) turnAt(i int) *recipientTurn { return &f.turns[i/turnChunk][i%turnChunk] }

// enqueueMulticast enqueues the message for recipient i, and reports whether to wake the actor.
func (in *instance) enqueueMulticast(f *LocalMulticast, i int) (wake bool, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	to := in.slotByName(f.Port)
	if to == nil || in.refuses() || in.mailbox.queued >= int(in.limit) {
		return false, in.refusal(to, f.Port)
	}
	to.queue.pushMulticast(f, i)
	return in.appendRun(to, 1, 0), nil
}

// complete takes the answer, as an answerSink. It encodes values with pointers: other goroutines
// read the answer, and the actor may change their targets (ACT-14).
func (t *recipientTurn) complete(v any, err error) {
	a := Answer{Value: v, Err: err}
	if err == nil && v != nil && t.multicast.Answer != nil && !wire.Immutable(reflect.TypeOf(v)) {
		if raw, bad := a.Raw(); bad != nil {
			a = Answer{Err: answerError(t.ctx.in.id(), bad)}
		} else {
			a = EncodedAnswer(raw)
		}
	}
	t.sendAnswer(a)
}

func (t *recipientTurn) sendAnswer(a Answer) {
	t.multicast.countAnswer()
	if t.multicast.Answer != nil {
		t.multicast.Answer(t.view, a)
	}
}

// refuse reports that the mailbox refused the message.
func (t *recipientTurn) refuse(p *Proc, why error) {
	if t.multicast.Refused == nil {
		t.reject(p, "", why)
		return
	}
	t.multicast.countAnswer()
	t.multicast.Refused(t.view, why)
}

// reject reports that no handler runs the message; typ is its type, for people.
func (t *recipientTurn) reject(p *Proc, typ string, why error) {
	t.multicast.countAnswer()
	d := t.multicast.deliveryFor(t.view)
	d.typ = typ
	p.deadLetters.reject(&d, why)
}

func (l *typedQueue[M, R]) pushMulticast(f *LocalMulticast, i int) {
	push(l, queuedMessage[M, R]{remote: &f.batch, recipient: i})
}

// serveMulticast handles a multicast message.
func serveMulticast[M, R any](l *typedQueue[M, R], in *instance, t *recipientTurn) {
	if t.multicast.cancelled.Load() {
		t.complete(nil, errorf(CodeCanceled, in.id().String(), l.b.name, "the caller gave up"))
		return
	}
	m, err := copyFor[M](&l.b.method, in, t.multicast)
	if err != nil { // the sender's fault: the actor is left alone
		t.reject(in.proc, l.b.in, err)
		return
	}
	ctx := &t.ctx
	ctx.origin = origin{in, t.multicast.Trace}
	ctx.answer = t
	if !t.multicast.Deadline.IsZero() {
		ctx.deadline = in.proc.instant(t.multicast.Deadline)
	}
	in.currentCtx = ctx
	v, err := l.b.handle(in.actor, ctx, m)
	if err != nil {
		l.stats.failed.Add(1)
	}
	ctx.finish()
	switch {
	case ctx.deferred != nil:
	case err == nil && l.b.byValue:
		t.sendAnswer(Answer{Value: v})
	case err == nil:
		t.complete(v, nil)
	case t.multicast.Answer == nil:
		in.onUnawaitedError(&l.b.method, ctx, err)
	default:
		t.complete(nil, ranError(err))
	}
}

// copyFor returns the message for one recipient: no recipient can change another one's copy.
func copyFor[M any](b *method, in *instance, f *LocalMulticast) (m M, err error) {
	if to, is := any(&m).(*[]byte); is {
		if body, ok := wire.Bytes(f.Raw); ok {
			*to = bytes.Clone(body)
			return m, nil
		}
	}
	if read := f.decoded.Load(); read != nil {
		if m, ok := (*read).(M); ok {
			return m, nil
		}
	}
	m, err = argument[M](b, in.id(), &Delivery{Raw: f.Raw}, &in.proc.counts.unknown)
	if err == nil && b.shared {
		read := any(m)
		f.decoded.Store(&read)
	}
	return m, err
}
