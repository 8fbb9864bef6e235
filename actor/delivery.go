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

	Local  bool        // the message never left the process and is Value
	Value  any         // valid when Local
	Raw    []byte      // else its encoding; decoded on the actor's turn
	Format wire.Format // of Raw

	// Answer is told the outcome exactly once, on any goroutine; it must not block. nil: nobody
	// waits.
	Answer func(Answer)
}

// Answer is the outcome of one delivery.
type Answer struct {
	Value any
	Err   error
}

// answer reports the outcome to whoever waits.
func (d *Delivery) answer(v any, err error) {
	if d.Answer != nil {
		d.Answer(Answer{Value: v, Err: err})
	}
}

// mail is the bounded queue of one actor. The zero value is empty. It is not safe for concurrent
// use: the instance's lock guards it.
type mail struct {
	items []Delivery
	head  int
}

// mailKept is how much room an empty queue keeps: a burst is not paid for ever.
const mailKept = 64

func (m *mail) len() int { return len(m.items) - m.head }

func (m *mail) push(d Delivery) { m.items = append(m.items, d) }

// pop takes the oldest message. The space before head is reused once it is half of the queue, so
// a queue that is never empty does not grow for ever.
func (m *mail) pop() Delivery {
	d := m.items[m.head]
	m.items[m.head] = Delivery{}
	m.head++
	if m.head*2 >= len(m.items) {
		n := copy(m.items, m.items[m.head:])
		clear(m.items[n:])
		m.items, m.head = m.items[:n], 0
	}
	if len(m.items) == 0 && cap(m.items) > mailKept {
		m.items = nil
	}
	return d
}
