package faults

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/integration/faults/history"
	"github.com/castnet-io/castnet/subjects"
)

var (
	recorderType = actor.NewType[*recorder, time.Duration]("recorder")
	take         = actor.NewEndpoint[*recorder, parcel, uint64]("take")
	measure      = actor.NewEndpoint[*recorder, []byte, int]("measure")

	senderType = actor.NewType[*sender, load]("sender")
	begin      = actor.NewEndpoint[*sender, actor.None, actor.None]("begin")
	sent       = actor.NewEndpoint[*sender, actor.None, actor.None]("sent")
	seal       = actor.NewEndpoint[*sender, actor.None, actor.None]("seal")
	progress   = actor.NewEndpoint[*sender, actor.None, progressReport]("progress")
)

// parcel is a message in the history.
type parcel struct {
	To  string // the actor it is addressed to
	N   uint64
	Sum uint32 // of Pad
	Pad []byte
}

// recorder records the messages that it handles.
type recorder struct {
	history *history.Log
	slow    time.Duration
}

func (w *workerRole) recorderDef() actor.Def {
	return recorderType.Define(func(_ *actor.Context, slow time.Duration) (*recorder, error) {
		return &recorder{w.history, slow}, nil
	}, take.Handle((*recorder).take), measure.Handle((*recorder).measure))
}

func (r *recorder) take(ctx *actor.Context, p parcel) (uint64, error) {
	s := history.Stream{From: ctx.Sender().String(), To: p.To}
	err := r.history.Add(history.Record{Kind: history.Handled, Stream: s, N: p.N, Note: ctx.Self().String()})
	if crc32.ChecksumIEEE(p.Pad) != p.Sum {
		err = errors.Join(err, r.history.Add(history.Record{Kind: history.Corrupt, Stream: s, N: p.N}))
	}
	if r.slow > 0 {
		time.Sleep(r.slow) // the work of a slow actor
	}
	return p.N, err
}

func (r *recorder) measure(_ *actor.Context, b []byte) (int, error) { return len(b), nil }

// sender sends its load from a task, so it receives dead letters meanwhile.
type sender struct {
	load     load
	history  *history.Log
	self     string
	rand     *rand.Rand
	numbers  map[subjects.ActorID]uint64 // of the last message to each
	count    *atomic.Int64
	over     bool                                    // the last message has been sent
	err      error                                   // why it could not send all
	waiting  []*actor.Deferred[actor.None]           // those who wait for the last message
	publish  func(subject string, data []byte) error // by NATS alone
	proc     *actor.Proc
	outcomes []castOutcome
}

// progressReport is the progress of a sender.
type progressReport struct {
	Sent    int
	Sending bool
	Casts   []castOutcome // once it is over
}

func (w *workerRole) senderDef() actor.Def {
	return senderType.Define(func(ctx *actor.Context, l load) (*sender, error) {
		if l.Deadline == 0 {
			l.Deadline = patience
		}
		return &sender{
			load: l, history: w.history, self: ctx.Self().String(), rand: rand.New(rand.NewPCG(l.Seed, 1)),
			numbers: map[subjects.ActorID]uint64{}, count: &atomic.Int64{},
			publish: w.bus.Data().Publish, proc: w.proc,
		}, nil
	}, begin.Handle((*sender).begin), sent.Handle((*sender).sent), seal.Handle((*sender).seal),
		progress.Handle((*sender).progress))
}

func (s *sender) begin(ctx *actor.Context, _ actor.None) (actor.None, error) {
	ctx.Go(func(life context.Context) func(*actor.Context) {
		err := s.sendAll(life)
		return func(*actor.Context) {
			s.over, s.err = true, err
			for _, d := range s.waiting {
				d.Reply(actor.None{}, err)
			}
		}
	})
	return actor.None{}, nil
}

// sent answers once the last message was sent.
func (s *sender) sent(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if s.over {
		return actor.None{}, s.err
	}
	s.waiting = append(s.waiting, actor.Defer[actor.None](ctx))
	return actor.None{}, nil
}

// seal records that all dead letters have arrived.
func (s *sender) seal(*actor.Context, actor.None) (actor.None, error) {
	return actor.None{}, s.history.Add(
		history.Record{Kind: history.Settled, Stream: history.Stream{From: s.self}})
}

func (s *sender) progress(*actor.Context, actor.None) (progressReport, error) {
	r := progressReport{Sent: int(s.count.Load()), Sending: !s.over}
	if s.over {
		r.Casts = s.outcomes
	}
	return r, nil
}

// HandleDeadLetter records a dead letter.
func (s *sender) HandleDeadLetter(_ *actor.Context, r actor.DeadLetter) error {
	if s.load.Casts != nil {
		return s.returned(r)
	}
	rec := history.Record{Kind: fate(r.Reason), Stream: history.Stream{From: s.self, To: r.Reason.Actor},
		Note: r.Reason.Error()}
	if p, ok := r.Message.(parcel); ok {
		rec.N = p.N
	}
	return s.history.Add(rec)
}

// fate returns the fate of a message from its error.
func fate(e *actor.Error) history.Kind {
	if e.Undeliverable() {
		return history.Undeliverable
	}
	return history.Indeterminate
}

func (s *sender) sendAll(ctx context.Context) error {
	began := time.Now()
	for i := range s.load.Messages {
		if s.load.For > 0 && time.Since(began) > s.load.For {
			return nil
		}
		if s.load.Rate > 0 {
			due := began.Add(time.Duration(i) * time.Second / time.Duration(s.load.Rate))
			if err := until(ctx, due); err != nil {
				return err
			}
		}
		if err := s.next(ctx, i); err != nil {
			return err
		}
		s.count.Add(1)
	}
	return nil
}

// next sends the next message.
func (s *sender) next(ctx context.Context, i int) error {
	if s.load.Casts != nil {
		return s.cast(ctx, i)
	}
	return s.send(ctx, s.load.To[i%len(s.load.To)])
}

// until waits for a moment.
func until(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends the next message to an actor, and records its known fate at once. An error is the
// test's own.
func (s *sender) send(ctx context.Context, to subjects.ActorID) error {
	s.numbers[to]++
	p := parcel{To: to.String(), N: s.numbers[to], Pad: s.payload()}
	p.Sum = crc32.ChecksumIEEE(p.Pad)
	stream := history.Stream{From: s.self, To: p.To}
	if err := s.history.Add(history.Record{Kind: history.Sent, Stream: stream, N: p.N}); err != nil {
		return err
	}
	if s.load.Mode == raw {
		return s.sendRaw(to, p)
	}
	err := s.deliver(ctx, actor.RefOf[*recorder](to), p)
	r := history.Record{Stream: stream, N: p.N}
	switch e, ok := errors.AsType[*actor.Error](err); {
	case err == nil && s.load.Mode == call:
		r.Kind = history.Answered
	case err == nil:
		return nil
	case !ok:
		return fmt.Errorf("want an *actor.Error: %w", err)
	default:
		r.Kind, r.Note = fate(e), e.Error()
	}
	return s.history.Add(r)
}

func (s *sender) deliver(ctx context.Context, to actor.Ref[*recorder], p parcel) error {
	ctx, cancel := context.WithTimeout(ctx, s.load.Deadline)
	defer cancel()
	switch s.load.Mode {
	case post:
		return take.Send(ctx, to, p)
	case wait:
		return take.SendWait(ctx, to, p)
	case call:
		n, err := take.Call(ctx, to, p)
		if err == nil && n != p.N {
			return fmt.Errorf("message %d was answered with %d", p.N, n)
		}
		return err
	}
	return fmt.Errorf("%q is no mode", s.load.Mode)
}

func (s *sender) payload() []byte {
	size := s.rand.IntN(256)
	if sizes := s.load.Sizes; len(sizes) > 0 {
		size = sizes[int(s.count.Load())%len(sizes)]
	}
	pad := make([]byte, size)
	for i := 0; i < size; i += 64 { // enough to find what was mixed up
		pad[i] = byte(s.rand.Uint32())
	}
	return pad
}
