package actor_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/subjects"
)

// Endpoints of a till: clients need only these.
var (
	till    = actor.NewType[*Till, int64]("till")
	deposit = actor.NewEndpoint[*Till, int64, int64]("deposit")
	total   = actor.NewEndpoint[*Till, actor.None, int64]("total")
	count   = actor.NewEndpoint[*Till, actor.None, string]("count")
)

// Till is the implementation.
type Till struct{ cents int64 }

func newTill(_ *actor.Context, cents int64) (*Till, error) { return &Till{cents}, nil }

func (t *Till) deposit(_ *actor.Context, cents int64) (int64, error) {
	if cents < 0 {
		return 0, errors.New("this till only takes")
	}
	t.cents += cents
	return t.cents, nil
}

func (t *Till) total(*actor.Context, actor.None) (int64, error) { return t.cents, nil }

// count works off the actor's turn, and answers when it is done.
func (t *Till) count(ctx *actor.Context, _ actor.None) (string, error) {
	answer, cents := actor.Defer[string](ctx), t.cents
	ctx.Go(func(context.Context) func(*actor.Context) {
		text := fmt.Sprintf("%d cents", cents) // what takes long
		return func(*actor.Context) { answer.Reply(text, nil) }
	})
	return "", nil
}

// proc starts a server and a proc for an example. Programs get theirs from mesh.Connect.
func proc(ctx context.Context) (p *actor.Proc, done func(), err error) {
	srv, err := embed.Start(ctx, embed.Options{DontListen: true})
	if err != nil {
		return nil, nil, err
	}
	b, err := bus.Open(ctx, bus.Options{Server: srv})
	if err != nil {
		return nil, nil, err
	}
	id, err := subjects.NewHostID("example")
	if err != nil {
		return nil, nil, err
	}
	registry, err := actor.NewRegistry(till.Define(newTill,
		deposit.Handle((*Till).deposit), total.Handle((*Till).total), count.Handle((*Till).count)))
	if err != nil {
		return nil, nil, err
	}
	p, err = actor.NewProc(ctx, actor.Options{ID: id.Proc(), Bus: b, Registry: registry})
	return p, func() {
		fmt.Println("closed:", errors.Join(p.Close(ctx), b.Close(ctx)))
		srv.Shutdown()
	}, err
}

func ExampleEndpoint_Call() {
	ctx := context.Background()
	p, done, err := proc(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	ref, err := actor.Spawn(ctx, p, till, "till", 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		if err := deposit.Send(ctx, ref, 5); err != nil { // tell
			fmt.Println(err)
		}
	}
	n, err := total.Call(ctx, ref, actor.None{}) // ask and wait
	fmt.Println(n, err)
	_, err = deposit.Call(ctx, ref, -5)
	fmt.Println(err)
	// Output:
	// 115 <nil>
	// this till only takes
	// closed: <nil>
}

func ExampleDefer() {
	ctx := context.Background()
	p, done, err := proc(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	ref, err := actor.Spawn(ctx, p, till, "till", 42)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := count.Call(ctx, ref, actor.None{})
	fmt.Println(text, err)
	// Output:
	// 42 cents <nil>
	// closed: <nil>
}
