package actor

import (
	"time"

	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
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

	// Answer is told the outcome exactly once, on any goroutine; it must not block. nil: nobody
	// waits.
	Answer func(Answer)

	typ    string  // of the message, for people, once it is known
	wanted *wanted // set for a message of another proc that wants an answer
	urged  bool    // it came by the control lane
}

// Answer is the outcome of one delivery.
type Answer struct {
	Value any
	Err   error

	overtook bool // it came by the control lane
}

// settle reports the outcome to whoever waits.
func (d *Delivery) settle(v any, err error) {
	switch w := d.wanted; {
	case d.Answer != nil:
		d.Answer(Answer{Value: v, Err: err})
	case w != nil:
		d.forget()
		if w.kept && err == nil {
			if body, err := wire.AppendMarshal(nil, v); err == nil {
				d.keep(body)
			}
		}
		w.p.answer(d.Actor, w.home, Answer{Value: v, Err: err}, nil)
	}
}

// waits reports whether somebody waits for the outcome.
func (d *Delivery) waits() bool { return d.Answer != nil || d.wanted != nil }

// settleWith is settle for the answer of a handler. more says that others are about to follow: then it may wait
// for those, and gathers says that it does.
func settleWith[R any](d *Delivery, v R, more bool) (gathers bool) {
	w := d.wanted
	if d.Answer != nil || w == nil {
		d.settle(v, nil)
		return false
	}
	d.forget()
	e := wire.Envelope{Kind: wire.Value}
	a, err := encode(w.p, v)
	e.Bytes, e.Body = a.bytes, a.body
	if w.kept && err == nil {
		d.keep(e.Whole())
	}
	w.home.gather = more
	w.p.answerAs(d.Actor, w.home, e, err)
	w.p.giveBack(a)
	return more
}
