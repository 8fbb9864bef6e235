package actor

import (
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Delivery is one message on its way into a mailbox. Packages that extend the runtime (cast) make
// their own; users never see one.
type Delivery struct {
	Actor, Port string           // the target within the proc
	From        subjects.ActorID // the sender; zero for a foreign one
	Point       shape.Point      // the target's point in the view of the cast; zero for a direct message
	Deadline    time.Time        // zero = none
	Reply       string           // the port that wants the answer, as text; "" = see Answer

	Local  bool        // the message never left the process and is Value
	Value  any         // valid when Local
	Raw    []byte      // else its encoding; decoded on the actor's turn
	Format wire.Format // of Raw

	// Answer receives the outcome exactly once, on any goroutine, and must not block. nil: the
	// sender does not wait.
	Answer func(Answer)

	trace     *wire.Trace // nil: none
	typ       string      // of the message, for people, once it is known
	replyTo   *replyTo    // set for a request from another proc
	onControl bool        // it came by the control connection
}

// Answer is the outcome of one delivery.
type Answer struct {
	Value any
	Err   error

	onControl bool // it came by the control connection
}

// complete reports the outcome to the sender.
func (d *Delivery) complete(v any, err error) {
	if d.Answer != nil {
		d.Answer(Answer{Value: v, Err: err})
	} else if w := d.replyTo; w != nil {
		d.unregisterCancel()
		if w.storeAnswer && err == nil {
			if body, err := wire.AppendMarshal(nil, v); err == nil {
				d.storeAnswer(body)
			}
		}
		w.p.outbox.sendAnswer(d.Actor, w.port, Answer{Value: v, Err: err}, nil)
	}
}

// awaitsAnswer reports whether the sender waits for the outcome.
func (d *Delivery) awaitsAnswer() bool { return d.Answer != nil || d.replyTo != nil }

// completeWith is complete for the answer of a handler. If more answers are about to follow, it may
// wait for those; gathers reports whether it does.
func completeWith[R any](d *Delivery, v R, more bool) (gathers bool) {
	w := d.replyTo
	if d.Answer != nil || w == nil {
		d.complete(v, nil)
		return false
	}
	a, err := encode(w.p, v)
	d.completeEncoded(a, err, more)
	return more
}

// completeEncoded is completeWith for an encoded answer, or for an encoding error.
func (d *Delivery) completeEncoded(a encodedMessage, err error, more bool) {
	w := d.replyTo
	d.unregisterCancel()
	e := wire.Envelope{Kind: wire.Value, Bytes: a.bytes, Body: a.body}
	if w.storeAnswer && err == nil {
		d.storeAnswer(e.CopyBody())
	}
	w.port.batch = more
	w.p.outbox.sendEncodedAnswer(d.Actor, w.port, e, err)
	w.p.outbox.releaseBuf(a)
}
