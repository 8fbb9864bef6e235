package actor_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
)

// A failed till is followed by a new one, made from the same parameters under a new name.
func ExampleWithRestartPolicy() {
	ctx := context.Background()
	p, done, err := proc(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	policy := actor.RestartPolicy{Restart: actor.Permanent}
	first, err := actor.Spawn(ctx, p, till, "till", 100, actor.WithRestartPolicy(policy))
	if err != nil {
		fmt.Println(err)
		return
	}
	gone := make(chan actor.Down, 1)
	if _, err := p.Monitor(first.ID(), func(d actor.Down) { gone <- d }); err != nil {
		fmt.Println(err)
		return
	}
	// No caller waits for the answer, so the error fails the actor.
	if err := deposit.Send(ctx, first, -5); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("down:", (<-gone).Reason.Event.Reason)
	_, err = total.Call(ctx, first, actor.None{})
	fmt.Println("the old one has failed:", errors.Is(err, actor.ErrFailed))
	var cents int64
	for err != nil { // until the new one is there
		cents, err = total.Call(ctx, actor.Successor(first), actor.None{})
	}
	fmt.Println("the new one has", cents)
	// Output:
	// down: deposit: this till only takes
	// the old one has failed: true
	// the new one has 100
	// closed: <nil>
}
