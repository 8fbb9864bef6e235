package raw

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/remote"
	"github.com/castnet-io/castnet/bench/server"
)

// The subjects a receiver listens on.
const (
	tellSubject  = "bench.tell"
	partSubject  = "bench.part" // of a message, before its last
	askSubject   = "bench.ask"
	countSubject = "bench.count"
)

const (
	// answered is how long an answer may take before the question, or the answer, counts as lost.
	answered = 2 * time.Second
	// absent is the pause before a receiver that is not there is asked again.
	absent = 50 * time.Millisecond
)

// Library is NATS on that server.
func Library(o server.Options) remote.Library {
	return remote.Library{
		Receive: func(ctx context.Context) (remote.Receiver, error) { return newReceiver(ctx, o) },
		Send: func(ctx context.Context, address string) (remote.Sender,
			error) {
			return newSender(ctx, o, address)
		},
	}
}

// end is a connection and the server it is to.
type end struct {
	server *server.Server
	nc     *nats.Conn
}

func open(ctx context.Context, o server.Options) (e end, err error) {
	e.server, err = server.Open(ctx, o)
	if err != nil {
		return e, err
	}
	e.nc, err = e.server.Connect()
	if err != nil {
		e.server.Close()
	}
	return e, err
}

func (e end) Close(context.Context) error {
	e.nc.Close()
	e.server.Close()
	return nil
}

type receiver struct {
	end
	told atomic.Int64
}

func newReceiver(ctx context.Context, o server.Options) (*receiver, error) {
	e, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &receiver{end: e}
	if err := r.listen(ctx); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	return r, nil
}

// listen subscribes, each subject with no bound on what may wait.
func (r *receiver) listen(ctx context.Context) error {
	for subject, handle := range map[string]nats.MsgHandler{
		tellSubject:  func(*nats.Msg) { r.told.Add(1) },
		partSubject:  func(*nats.Msg) {},
		askSubject:   func(m *nats.Msg) { respond(m, m.Data) },
		countSubject: func(m *nats.Msg) { respond(m, strconv.AppendInt(nil, r.told.Load(), 10)) },
	} {
		sub, err := r.nc.Subscribe(subject, handle)
		if err != nil {
			return err
		}
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			return err
		}
	}
	return r.nc.FlushWithContext(ctx)
}

func respond(m *nats.Msg, answer []byte) {
	if err := m.Respond(answer); err != nil {
		fmt.Fprintf(os.Stderr, "bench: respond: %v\n", err)
	}
}

// Address is that of the server: subjects are the same for all.
func (r *receiver) Address() string { return r.server.URL() }

type sender struct{ end }

// newSender connects to the server the receiver is on, unless it has a server of its own.
func newSender(ctx context.Context, o server.Options, address string) (*sender, error) {
	if o.ConfigFile == "" {
		o.URL = address
	}
	e, err := open(ctx, o)
	return &sender{e}, err
}

// Tell publishes. A body above the server's limit leaves as several messages. The receiver counts the
// last.
func (s *sender) Tell(_ context.Context, m []byte) error {
	for limit := int(s.nc.MaxPayload()); len(m) > limit; m = m[limit:] {
		if err := s.nc.Publish(partSubject, m[:limit]); err != nil {
			return err
		}
	}
	return s.nc.Publish(tellSubject, m)
}

func (s *sender) Flush(ctx context.Context) error { return s.nc.FlushWithContext(ctx) }

// Ask requests. A body above the server's limit is asked in parts, one after another.
func (s *sender) Ask(_ context.Context, m []byte) ([]byte, error) {
	limit := int(s.nc.MaxPayload())
	if len(m) <= limit {
		return s.ask(m)
	}
	answer := make([]byte, 0, len(m))
	for part := range slices.Chunk(m, limit) {
		a, err := s.ask(part)
		if err != nil {
			return nil, err
		}
		answer = append(answer, a...)
	}
	return answer, nil
}

func (s *sender) ask(m []byte) ([]byte, error) {
	answer, err := s.nc.Request(askSubject, m, local.Patience)
	if err != nil {
		return nil, err
	}
	return answer.Data, nil
}

// Count asks until there is an answer: a receiver that its server has cut off, because it did not
// read fast enough, comes back, and what was under way to it does not.
func (s *sender) Count(ctx context.Context) (int, error) {
	for {
		count, err := s.countOnce(ctx)
		if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, context.DeadlineExceeded) {
			return count, err
		}
		select {
		case <-time.After(absent):
		case <-ctx.Done():
			return 0, err
		}
	}
}

func (s *sender) countOnce(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	answer, err := s.nc.RequestWithContext(ctx, countSubject, nil)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(answer.Data))
}
