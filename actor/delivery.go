package actor

import (
	"bytes"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Delivery is a message on its way to handlers of this process, unless it is a typed message of
// their own proc. It comes from another proc or from a plain client, or its sender knows only the
// actor's name. A cast is one Delivery to many actors. Do not change it once it is delivered.
//
//	link or colocated proc ─ inbox.receive ─┐
//	plain client ──────── Foreign.Deliver ──┼─▶ instance.enqueue ─▶ typedQueue.serve ─▶ handler
//	cast ──────────────── Casts.DeliverAll ─┘
//
// Each recipient has a request, with the Context of its handler. Plain messages of one packet need
// none: they enter the mailbox together, as one Delivery with many bodies.
type Delivery struct {
	Actor, Port string           // the target within each proc
	From        subjects.ActorID // the sender; zero for a plain client
	Sender      subjects.Sender  // of its subject; zero: this process
	Deadline    time.Time        // zero = none
	Reply       string           // the port that wants the answer, as text; "": see Answer
	Raw         []byte           // the message, encoded; decoded on the actor's turn
	Trace       *wire.Trace      // nil: none
	Span        Span             // that of the message in this process; nil: its handler begins one

	// Point returns the place of a rank in the view of the cast. It is called on its actor's turn.
	// nil: the message is not a cast.
	Point func(view int) shape.Point
	// Answer receives the outcome of each rank exactly once, on any goroutine; it must not block.
	// nil: the sender does not wait, or waits at a port of another proc.
	Answer func(view int, a Answer)
	// Refused is called for each refused rank before DeliverAll returns. nil: the rank's answer is
	// the reason, or the sender gets a dead letter.
	Refused func(view int, why error)

	format     wire.Format    // of Raw
	value      any            // the message itself, when local
	local      bool           // the message never left the proc
	onControl  bool           // it came by the control connection
	shared     bool           // several handlers get it
	credited   bool           // of SendWait in another process: it enters even a full mailbox
	bodies     []link.BodyRef // set: Raw is the packet with these messages, which differ in nothing else
	single     [1]link.BodyRef
	replyTo    *replyTo            // the waiting port; nil: see Answer
	requests   *request            // those of all recipients; nil: there are bodies
	unanswered atomic.Int64        // recipients without an answer
	pending    *pendingRequests    // holds it while it can be cancelled; nil: it cannot
	decoded    atomic.Pointer[any] // the decoded message, if its recipients can share it
}

// request is a Delivery at one recipient, with the Context of its handler.
type request struct {
	*Delivery
	view     int                    // the recipient's rank in the view of the cast
	onCancel atomic.Pointer[func()] // called on cancellation of a Deferred
	next     *request               // that of the next recipient
	ctx      Context
}

// replyTo is a port that waits for an answer.
type replyTo struct {
	port subjects.PortID
	peer *link.Peer // of its process; nil: not known

	p     *Proc // the answering proc
	batch bool  // other answers are about to follow
	// the answer is stored for a repeated request on the control connection (ACT-12)
	storeAnswer bool
}

// newRequest makes a request with a Delivery of its own, as one allocation.
func newRequest() *request {
	q := &struct {
		request
		own Delivery
	}{}
	q.bind(&q.own)
	return &q.request
}

// newRequestAt is newRequest for a request of a port in another proc.
func newRequestAt(to replyTo) *request {
	q := &struct {
		request
		own Delivery
		to  replyTo
	}{to: to}
	q.bind(&q.own)
	q.replyTo = &q.to
	return &q.request
}

func (q *request) bind(d *Delivery) {
	q.Delivery = d
	d.requests = q
	d.unanswered.Store(1)
}

// begin prepares the Context of the handler; false if the caller has cancelled.
func (q *request) begin(in *instance) bool {
	ctx := &q.ctx
	ctx.origin = origin{in, q.Trace}
	ctx.answer = q
	ctx.delivery = q.Delivery
	if !q.Deadline.IsZero() {
		ctx.deadline = in.proc.instant(q.Deadline)
	}
	if !ctx.cancelled.Load() {
		return true
	}
	q.countAnswer()
	if q.Answer != nil {
		q.Answer(q.view, Answer{Err: errorf(CodeCanceled, in.id().String(), q.Port, "the caller gave up")})
	}
	return false
}

// awaitsAnswer reports whether the sender waits for the outcome.
func (q *request) awaitsAnswer() bool { return q.Answer != nil || q.replyTo != nil }

// complete reports the outcome to the sender, as an answerSink.
func (q *request) complete(v any, err error) {
	a := Answer{Value: v, Err: err}
	if q.Answer != nil {
		if q.shared && err == nil {
			a = q.detach(v)
		}
		q.countAnswer()
		q.Answer(q.view, a)
	} else if q.replyTo != nil {
		e, err := a.envelope()
		q.respond(&e, err)
	}
}

// detach returns an answer for other goroutines. It encodes values with pointers, because the actor
// may change their targets (ACT-14).
func (q *request) detach(v any) Answer {
	a := Answer{Value: v}
	if v == nil || wire.Immutable(reflect.TypeOf(v)) {
		return a
	}
	raw, err := a.Raw()
	if err != nil {
		return Answer{Err: answerError(q.ctx.in.id(), err)}
	}
	return EncodedAnswer(raw)
}

// respond sends the encoded answer to the waiting port, or the error of encoding it.
func (q *request) respond(e *wire.Envelope, err error) {
	q.countAnswer()
	to := q.replyTo
	if to.storeAnswer && err == nil && e.Kind == wire.Value {
		q.storeAnswer(e.CopyBody())
	}
	to.p.outbox.sendAnswer(q.Actor, to, e, err)
}

// countAnswer counts an answer. After the last one the message cannot be cancelled any more.
func (d *Delivery) countAnswer() {
	if d.unanswered.Add(-1) == 0 && d.pending != nil {
		d.pending.remove(d)
	}
}

// isLastRecipient reports whether Raw is the memory of the running recipient alone: it came from
// another process, and all other recipients have answered. A message of this process may leave
// again.
func (d *Delivery) isLastRecipient() bool {
	return d.unanswered.Load() == 1 && d.Sender != (subjects.Sender{})
}

// withdraw keeps handlers from running.
func (d *Delivery) withdraw() {
	for q := d.requests; q != nil; q = q.next {
		q.ctx.cancelled.Store(true)
	}
}

// cancel ends the contexts of running handlers, and keeps the others from running.
func (d *Delivery) cancel() {
	for q := d.requests; q != nil; q = q.next {
		q.ctx.cancel()
		if quit := q.onCancel.Load(); quit != nil {
			(*quit)()
		}
	}
}

// refuse reports that the mailbox refused the message.
func (q *request) refuse(p *Proc, why error) {
	if q.Refused == nil {
		p.deadLetters.reject(q, "", why)
		return
	}
	q.countAnswer()
	q.Refused(q.view, why)
}

// keep makes a Delivery own the first n of its bodies. If the packet is mostly for others, it
// copies its own part.
func (d *Delivery) keep(n int) {
	all := d.bodies[:n]
	d.bodies = append(d.single[:0], all...)
	from := all[0].Offset
	to := all[n-1].Offset + all[n-1].Size
	if 2*int(to-from) >= len(d.Raw) {
		return
	}
	d.Raw = bytes.Clone(d.Raw[from:to])
	for i := range d.bodies {
		d.bodies[i].Offset -= from
	}
}

// count returns the number of messages behind one place in a queue.
func (d *Delivery) count() int {
	if d == nil {
		return 1
	}
	return max(1, len(d.bodies))
}

// rejectBodies notifies the sender that no handler runs the messages [from, to).
func (d *Delivery) rejectBodies(p *Proc, from, to int, typ string, why *Error) {
	for range to - from {
		p.deadLetters.giveBack(d, typ, why)
	}
}
