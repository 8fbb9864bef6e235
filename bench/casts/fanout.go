package casts

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/bench/server"
)

// The subjects of casts with plain NATS: the last token is the verb, or the rank.
const (
	reduceSubject = "bench.cast.reduce"
	gatherSubject = "bench.cast.gather"
	postSubject   = "bench.cast.post"
	partSubject   = "bench.cast.part" // of a message, but for its last part
	castSubjects  = "bench.cast.*"
	rankSubject   = "bench.rank."
)

// maxPart is the largest message that the server takes.
const maxPart = 1 << 20

// answersIn is how many answers of a size fit into one reply.
func answersIn(size int) int { return max(1, maxPart/size) }

// Fanout is the ranks of plain NATS in one process.
type Fanout struct {
	nc     *nats.Conn
	closed chan struct{}
	cells  []*cell
	parts  []byte         // of the message that arrives, without its last part
	done   sync.WaitGroup // the goroutines of the cells
}

// cell is a rank.
type cell struct {
	rank int
	at   int // its place in the process
	in   chan *round
}

// round is one cast in this process.
type round struct {
	m    *nats.Msg
	left atomic.Int64 // ranks that have not answered
	sum  atomic.Int64 // of their answers, when they are summed up
	all  []byte       // or their answers in a row
}

// StartFanout starts a goroutine for each rank of the share.
func StartFanout(ctx context.Context, srv *server.Server, s Share) (*Fanout, error) {
	f, err := connect(srv)
	if err != nil {
		return nil, err
	}
	for at := range s.Each {
		c := &cell{s.First + at, at, make(chan *round, 2*MaxInFlight)}
		f.cells = append(f.cells, c)
		f.done.Go(c.run)
	}
	_, err = f.nc.Subscribe(castSubjects, f.take)
	if err == nil {
		err = f.nc.FlushWithContext(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(ctx))
	}
	return f, nil
}

// StartNaive subscribes for each rank of the share.
func StartNaive(ctx context.Context, srv *server.Server, s Share) (*Fanout, error) {
	f, err := connect(srv)
	if err != nil {
		return nil, err
	}
	for n := s.First; n < s.First+s.Each && err == nil; n++ {
		_, err = f.nc.Subscribe(rankSubject+strconv.Itoa(n),
			func(m *nats.Msg) { respond(m, number(int64(len(m.Data)))) })
	}
	if err == nil {
		err = f.nc.FlushWithContext(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(ctx))
	}
	return f, nil
}

func connect(srv *server.Server) (*Fanout, error) {
	nc, err := srv.Connect()
	if err != nil {
		return nil, err
	}
	f := &Fanout{nc: nc, closed: make(chan struct{})}
	f.nc.SetClosedHandler(func(*nats.Conn) { close(f.closed) })
	return f, nil
}

// Close lets what has arrived be handled, then ends the ranks.
func (f *Fanout) Close(ctx context.Context) error {
	if err := f.nc.Drain(); err != nil {
		f.nc.Close()
	}
	select {
	case <-f.closed:
	case <-ctx.Done():
		return fmt.Errorf("close a fanout: %w", context.Cause(ctx))
	}
	for _, c := range f.cells {
		close(c.in)
	}
	f.done.Wait()
	return nil
}

// take hands a cast to every rank, once it is whole.
func (f *Fanout) take(m *nats.Msg) {
	if m.Subject == partSubject {
		f.parts = append(f.parts, m.Data...)
		return
	}
	if f.parts != nil {
		m.Data = append(f.parts, m.Data...)
		f.parts = nil
	}
	r := &round{m: m}
	r.left.Store(int64(len(f.cells)))
	if m.Subject == gatherSubject {
		r.all = make([]byte, len(f.cells)*len(m.Data))
	}
	for _, c := range f.cells {
		c.in <- r
	}
	if m.Subject == postSubject {
		respond(m, nil)
	}
}

func (c *cell) run() {
	for r := range c.in {
		switch r.m.Subject {
		case postSubject:
			continue
		case reduceSubject:
			r.sum.Add(int64(len(r.m.Data)))
		case gatherSubject:
			size := len(r.m.Data)
			stamp(r.all[c.at*size:][:size], r.m.Data, c.rank)
		}
		if r.left.Add(-1) == 0 {
			r.answer()
		}
	}
}

// answer is the reply of the process, or its replies if the answers are too large for one.
func (r *round) answer() {
	if r.all == nil {
		respond(r.m, number(r.sum.Load()))
		return
	}
	size := len(r.m.Data)
	for reply := range slices.Chunk(r.all, size*answersIn(size)) {
		respond(r.m, reply)
	}
}

func number(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

func respond(m *nats.Msg, answer []byte) {
	if err := m.Respond(answer); err != nil {
		fmt.Fprintf(os.Stderr, "bench: respond: %v\n", err)
	}
}
