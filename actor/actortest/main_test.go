package actortest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/actor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Endpoints of a ledger. A test of its clients needs only these declarations.
var (
	ledgers = actor.NewType[*Ledger, string]("ledger")
	book    = actor.NewEndpoint[*Ledger, int, int]("book")
	strike  = actor.NewEndpoint[*Ledger, int, actor.None]("strike")
)

// Ledger is never constructed.
type Ledger struct{}

// Endpoints of a till.
var (
	tills   = actor.NewType[*Till, actor.Ref[*Ledger]]("till")
	deposit = actor.NewEndpoint[*Till, int, int]("deposit")
	tell    = actor.NewEndpoint[*Till, int, actor.None]("tell")
	later   = actor.NewEndpoint[*Till, time.Duration, actor.None]("later")
	open    = actor.NewEndpoint[*Till, string, actor.None]("open")
	do      = actor.NewEndpoint[*Till, func(*actor.Context, *Till) error, actor.None]("do")
)

// Till is the actor under test: it books its payments.
type Till struct{ ledger actor.Ref[*Ledger] }

func newTill(_ *actor.Context, ledger actor.Ref[*Ledger]) (*Till, error) {
	if !ledger.ID().IsValid() {
		return nil, errors.New("no ledger")
	}
	return &Till{ledger}, nil
}

func (t *Till) deposit(ctx *actor.Context, n int) (int, error) { return book.Call(ctx, t.ledger, n) }

func (t *Till) tell(ctx *actor.Context, n int) (actor.None, error) {
	return actor.None{}, strike.Send(ctx, t.ledger, n)
}

func (t *Till) later(ctx *actor.Context, d time.Duration) (actor.None, error) {
	_, err := strike.SendAfter(ctx, d, t.ledger, 1)
	return actor.None{}, err
}

func (t *Till) open(ctx *actor.Context, name string) (actor.None, error) {
	ref, err := actor.SpawnChild(ctx, ledgers, ledgers.Name(), name)
	if err != nil {
		return actor.None{}, err
	}
	return actor.None{}, strike.Send(ctx, ref, len(name))
}

func (t *Till) do(ctx *actor.Context, f func(*actor.Context, *Till) error) (actor.None, error) {
	return actor.None{}, f(ctx, t)
}

func tillDef() actor.Def {
	return tills.Define(newTill, deposit.Handle((*Till).deposit), tell.Handle((*Till).tell),
		later.Handle((*Till).later),
		open.Handle((*Till).open), do.Handle((*Till).do))
}

// play runs a test within a test and returns its failures. Its waits use a bubble's clock or the
// real one.
func play(ctx context.Context, body func(testing.TB)) (failures []string) {
	ctx, cancel := context.WithCancel(ctx)
	p := &player{ctx: ctx}
	inside := func(f func()) { // FailNow ends a goroutine
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
	inside(func() { body(p) })
	cancel()
	for _, f := range slices.Backward(p.cleanups) {
		inside(f)
	}
	return p.failures
}

type player struct {
	testing.TB // nil: what is not below is not used
	ctx        context.Context
	cleanups   []func()

	mu       sync.Mutex
	failures []string
}

func (p *player) Helper()                  {}
func (p *player) Name() string             { return "player" }
func (p *player) Context() context.Context { return p.ctx }
func (p *player) Cleanup(f func())         { p.cleanups = append(p.cleanups, f) }
func (p *player) Log(...any)               {}
func (p *player) FailNow()                 { runtime.Goexit() }

func (p *player) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, fmt.Sprintf(format, args...))
}

func (p *player) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	p.FailNow()
}
