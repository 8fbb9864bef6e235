package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
)

// parade is ranks of one process under casts, posts, stops and kills of many senders, and the
// expected results.
type parade struct {
	procs []*actor.Proc

	sent, handled, refused atomic.Int64 // messages without an answer
	casts                  sync.WaitGroup
	answered               atomic.Int64
	lost                   atomic.Int64 // of these, those that no handler ran

	mu    sync.Mutex // guards wrong
	wrong []string
}

// marcher is a rank of the parade.
type marcher struct {
	*parade
	inside atomic.Int64
	last   map[int]int64 // the newest message of each sender
}

// command is a message to a marcher.
type command struct {
	Sender int
	N      int64 // counts the messages of the sender
	What   string
	Cast   bool
}

var (
	marcherType = actor.NewType[*marcher, int]("marcher")
	march       = actor.NewEndpoint[*marcher, command, int64]("march")
	turn        = actor.NewEndpoint[*marcher, command, int64]("turn") // the same by another queue
)

func (p *parade) complain(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.wrong) < 20 {
		p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
	}
}

func (m *marcher) march(ctx *actor.Context, o command) (int64, error) {
	if m.inside.Add(1) != 1 {
		m.complain("%s: two goroutines", ctx.Self())
	}
	defer m.inside.Add(-1)
	if last := m.last[o.Sender]; last >= o.N {
		m.complain("%s: %d of %d after %d", ctx.Self(), o.N, o.Sender, last)
	}
	m.last[o.Sender] = o.N
	if !o.Cast {
		m.handled.Add(1)
	}
	switch o.What {
	case "panic":
		panic("random")
	case "exit":
		runtime.Goexit()
	case "error":
		return 0, errors.New("random")
	case "stop":
		ctx.Stop("random")
	case "work":
		for range 500 {
			runtime.Gosched()
		}
	case "defer":
		answer := actor.Defer[int64](ctx)
		ctx.Go(func(context.Context) func(*actor.Context) {
			return func(*actor.Context) {
				if m.inside.Add(1) != 1 {
					m.complain("%s: two goroutines", ctx.Self())
				}
				defer m.inside.Add(-1)
				answer.Reply(o.N, nil)
			}
		})
	}
	return o.N, nil
}

// undelivered reports whether an error means that no handler ran.
func undelivered(err error) bool {
	known, ok := errors.AsType[*actor.Error](err)
	return ok && known.Undeliverable()
}

// spawn starts a rank, unless it runs.
func (p *parade) spawn(ctx context.Context, rank int) {
	_, _ = p.procs[rank].Spawn(ctx, actor.SpawnSpec{Type: "marcher", Name: "marcher", Params: rank, NoWait: rank%2 == 0})
}

// cast sends a command to a random interval of the ranks; a rank may have a second fate at no time.
func (p *parade) cast(t *testing.T, port string, o command, r *rand.Rand) {
	o.Cast = true
	raw, err := wire.Marshal(o)
	if err != nil {
		p.complain("%v", err)
		return
	}
	first := r.IntN(len(p.procs))
	var to []actor.LocalRecipient
	for rank := first; rank < len(p.procs) && len(to) < 1+r.IntN(len(p.procs)); rank++ {
		to = append(to, actor.LocalRecipient{Proc: p.procs[rank], View: rank})
	}
	fates := make([]atomic.Int32, len(p.procs))
	client := p.procs[0].ID().Actor("client")
	d := &actor.Delivery{Actor: "marcher", Port: port, From: client, Raw: raw,
		Answer: func(rank int, a actor.Answer) {
			if fates[rank].Add(1) != 1 {
				p.complain("rank %d: two answers to %d of %d", rank, o.N, o.Sender)
				return
			}
			p.answered.Add(1)
			if undelivered(a.Err) {
				p.lost.Add(1)
			} else if a.Err == nil && a.Value != o.N {
				p.complain("rank %d: answer %v to %d", rank, a.Value, o.N)
			}
			p.casts.Done()
		}}
	if r.IntN(20) == 0 {
		d.Reply = client.Port(fmt.Sprintf("_0c%dn%d", o.Sender, o.N)).String()
	}
	var own sync.WaitGroup
	own.Add(len(to))
	p.casts.Add(len(to))
	answer := d.Answer
	d.Answer = func(rank int, a actor.Answer) {
		answer(rank, a)
		own.Done()
	}
	p.procs[0].Casts().DeliverAll(d, to)
	if d.Reply != "" {
		p.procs[0].Casts().CancelRequest(p.procs[0].ID(), d.Reply)
	}
	if r.IntN(8) == 0 { // else most find full mailboxes
		own.Wait()
	}
}

// step takes one random action as a sender.
func (p *parade) step(t *testing.T, w int, n int64, r *rand.Rand) {
	o := command{Sender: w, N: n}
	if r.IntN(500) == 0 {
		o.What = []string{"panic", "exit", "error", "stop", "work", "work", "defer", "defer"}[r.IntN(8)]
	}
	endpoint := march
	if r.IntN(4) == 0 {
		endpoint = turn
	}
	rank := r.IntN(len(p.procs))
	switch dice := r.IntN(1000); {
	case dice < 300:
		p.cast(t, endpoint.Name(), o, r)
	case dice < 800:
		p.sent.Add(1)
		ref := actor.RefOf[*marcher](p.procs[rank].ID().Actor("marcher")).Via(p.procs[0])
		if endpoint.Send(t.Context(), ref, o) != nil {
			p.refused.Add(1)
		}
	case dice < 994:
		p.spawn(t.Context(), rank)
	case dice < 997:
		p.procs[rank].StopActor("marcher", "random")
	default:
		p.procs[rank].KillActor("marcher", "random")
	}
}

// Casts and posts of one sender are handled in its order by one goroutine, and each has one fate,
// whatever happens to the actors.
func TestModel_castsHaveOneFateInOrder_DEL3(t *testing.T) {
	t.Parallel()
	const ranks, senders = 24, 4
	steps := int64(1_000_000)
	if raceEnabled || !testkit.Long() {
		steps = 40_000
	}
	p := &parade{}
	def := marcherType.Define(
		func(*actor.Context, int) (*marcher, error) { return &marcher{parade: p, last: map[int]int64{}}, nil },
		march.Handle((*marcher).march), turn.Handle((*marcher).march))
	for rank := range ranks {
		if rank == 0 {
			p.procs = append(p.procs, alone(t, def))
		} else {
			p.procs = append(p.procs, row(t, p.procs[0], uint32(rank), def))
		}
		p.spawn(t.Context(), rank)
	}
	var all sync.WaitGroup
	for w := range senders {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 43))
			for n := range steps / senders {
				p.step(t, w, n+1, r)
			}
		})
	}
	all.Wait()
	done := make(chan struct{})
	go func() { p.casts.Wait(); close(done) }()
	testkit.Next(t, done)
	require.Empty(t, p.wrong)
	require.NotZero(t, p.lost.Load())
	require.Less(t, p.lost.Load(), p.answered.Load()/2)
	ctx, cancel := context.WithTimeout(t.Context(), 3*testkit.Patience)
	defer cancel()
	for rank := len(p.procs) - 1; rank >= 0; rank-- { // those that stop handle their mail
		require.NoError(t, p.procs[rank].Close(ctx))
	}
	bounced := int64(0)
	for _, of := range p.procs {
		bounced += int64(of.Stats().Bounced)
	}
	require.Equal(t, p.sent.Load(), p.handled.Load()+p.refused.Load()+bounced,
		"posts: %d handled, %d refused, %d returned", p.handled.Load(), p.refused.Load(), bounced)
}
