package actortest

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Received is a message received by a probe.
type Received[M, R any] struct {
	Value  M
	From   subjects.ActorID // the sender; the zero ID for a plain NATS client
	To     subjects.ActorID // the probe
	IsCall bool             // the sender waits for an answer (Call), else it does not (Post)

	answer func(R, error) // nil: it has been given
}

// Answer answers a held message (Recorder.Hold); the first answer counts. It may be called on any
// goroutine, and does nothing for other messages.
func (m Received[M, R]) Answer(v R, err error) {
	if m.answer != nil {
		m.answer(v, err)
	}
}

// Recorder records the messages to one endpoint of a probe, in the order of arrival (KIT-3).
//
// Reply sets the answers to calls. Without Reply the answer is empty if the endpoint has none
// (actor.None), else an error.
type Recorder[M, R any] struct {
	rig     *Rig
	name    string
	arrived chan struct{} // holds one: something came

	mu      sync.Mutex // guards the fields below
	queue   []Received[M, R]
	dropped bool // a message was dropped
	hold    bool
	reply   func(M) (R, error) // nil: Reply was not called
}

func newRecorder[M, R any](r *Rig, name string) *Recorder[M, R] {
	return &Recorder[M, R]{rig: r, name: name, arrived: make(chan struct{}, 1)}
}

// Reply sets the answers to messages from now on. f runs on the probe's turn; an error is the
// answer, and the probe lives. It may be called on any goroutine.
func (rec *Recorder[M, R]) Reply(f func(M) (R, error)) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.hold = false
	rec.reply = f
}

// Hold keeps back the answers of messages from now on: the test gives them by Received.Answer. It
// may be called on any goroutine.
func (rec *Recorder[M, R]) Hold() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.hold = true
}

// record records a message, on the probe's turn, and answers it.
func (rec *Recorder[M, R]) record(ctx *actor.Context, m M) (R, error) {
	_, asked := ctx.Deadline() // every call has one, and no post
	got := Received[M, R]{Value: m, From: ctx.Sender(), To: ctx.Self(), IsCall: asked}
	rec.mu.Lock()
	hold, reply := rec.hold && asked, rec.reply
	rec.mu.Unlock()
	if hold {
		got.answer = rec.holdReply(actor.Defer[R](ctx), got.From)
	}
	rec.enqueue(got)
	var none R
	switch {
	case hold:
		return none, nil
	case reply != nil:
		return reply(m)
	case asked && reflect.TypeFor[R]() != reflect.TypeFor[actor.None]():
		return none, fmt.Errorf("actortest: no answer is set for %s: call Reply or Hold of its recorder",
			rec.name)
	}
	return none, nil
}

// holdReply returns the function that gives a held answer.
func (rec *Recorder[M, R]) holdReply(d *actor.Deferred[R], from subjects.ActorID) func(R, error) {
	h := &rec.rig.shared.held
	p := &heldReply{from: from}
	answer := func(v R, err error) {
		if h.claim(p) {
			d.Reply(v, err)
		}
	}
	p.cancel = func() {
		var none R
		answer(none, errTestEnded)
	}
	h.add(p)
	return answer
}

func (rec *Recorder[M, R]) enqueue(got Received[M, R]) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.queue) == maxKept {
		if !rec.dropped {
			rec.dropped = true
			rec.rig.t.Errorf("actortest: %d messages to %s wait in the recorder: the rest is dropped",
				maxKept, rec.name)
		}
		return
	}
	rec.queue = append(rec.queue, got)
	select {
	case rec.arrived <- struct{}{}:
	default:
	}
}

// Next takes the next message, and waits until there is one.
func (rec *Recorder[M, R]) Next() Received[M, R] {
	rec.rig.t.Helper()
	late := time.NewTimer(Timeout)
	defer late.Stop()
	for {
		if got, ok := rec.pop(); ok {
			return got
		}
		select {
		case <-rec.arrived:
		case <-late.C:
			rec.rig.t.Fatalf("actortest: want a message to %s, got none within %s", rec.name, Timeout)
		}
	}
}

func (rec *Recorder[M, R]) pop() (got Received[M, R], ok bool) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.queue) == 0 {
		return got, false
	}
	got, rec.queue[0] = rec.queue[0], got // it does not keep what was taken
	rec.queue = rec.queue[1:]
	return got, true
}

// All settles the rig and takes all recorded messages.
func (rec *Recorder[M, R]) All() []Received[M, R] {
	rec.rig.t.Helper()
	rec.rig.Settle()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	all := rec.queue
	rec.queue = nil
	return all
}

// None settles the rig; an untaken message fails the test.
func (rec *Recorder[M, R]) None() {
	rec.rig.t.Helper()
	rec.rig.Settle()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if n := len(rec.queue); n > 0 {
		rec.rig.t.Fatalf("actortest: want no more messages to %s, got %d; the first from %s: %+v", rec.name,
			n, rec.queue[0].From, rec.queue[0].Value)
	}
}
