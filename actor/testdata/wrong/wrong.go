// Package wrong holds what must not compile. A "want" comment is the compiler's complaint.
package wrong

import (
	"context"

	"github.com/castnet-io/castnet/actor"
)

type Counter struct{ n int64 }

type Lamp struct{ on bool }

func newCounter(*actor.Context, int64) (*Counter, error) { return &Counter{}, nil }

func (c *Counter) add(*actor.Context, int64) (int64, error) { return c.n, nil }

func (l *Lamp) toggle(*actor.Context, actor.None) (bool, error) { return l.on, nil }

var (
	counter = actor.NewType[*Counter, int64]("counter")
	add     = actor.NewEndpoint[*Counter, int64, int64]("add")
	toggle  = actor.NewEndpoint[*Lamp, actor.None, bool]("toggle")
)

var right = counter.Define(newCounter, add.Handle((*Counter).add))

var (
	_ = counter.Define(newCounter, toggle.Handle((*Lamp).toggle)) // want cannot use .*Method\[\*Lamp\]
	_ = add.Handle((*Lamp).toggle)                                // want cannot use
	_ = counter.Define((*Counter).add)                            // want cannot use
)

func verbs(ctx context.Context, p *actor.Proc, c actor.Ref[*Counter], l actor.Ref[*Lamp],
	numbers actor.PortRef[int]) {
	_, _ = add.Call(ctx, c, 1)
	_, _ = add.Call(ctx, c, "one")      // want cannot use "one"
	_, _ = add.Call(ctx, l, 1)          // want cannot use l
	_ = add.Send(ctx, c, 1.5)           // want cannot use 1.5
	_ = toggle.Send(ctx, c, struct{}{}) // want cannot use c
	var answer string
	answer, _ = add.Call(ctx, c, 1) // want cannot (use|assign)
	_ = answer
	_, _ = actor.Spawn(ctx, p, counter, "counter", "zero") // want (cannot use|does not match|mismatched)
	_ = numbers.Send(ctx, "one")                           // want cannot use "one"
	var lamp actor.Ref[*Lamp] = c                          // want cannot use c
	_ = lamp
}
