package actor_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
)

func ExampleOpenOnce() {
	ctx := context.Background()
	p, done, err := proc(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	port := actor.OpenOnce[string](p)
	for _, text := range []string{"first come", "first served"} {
		err := port.Ref().Send(ctx, text) // Ref may be sent in a message, to any proc
		fmt.Println("too late:", errors.Is(err, actor.ErrPortGone))
	}
	text, err := port.Recv(ctx)
	fmt.Println(text, err)
	// Output:
	// too late: false
	// too late: true
	// first come <nil>
	// closed: <nil>
}

func ExampleOpenAccumulator() {
	ctx := context.Background()
	p, done, err := proc(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	// Two workers report their progress; the watermark is the lower one.
	port, err := actor.OpenAccumulator(p, actor.Watermark[string, int]("left", "right"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer port.Close()
	says := func(worker string, row int, time uint64) {
		if err := port.Ref().Send(ctx, actor.Marks[string, int]{worker: {Value: row, Time: time}}); err != nil {
			fmt.Println(err)
		}
	}
	says("left", 10, 1)
	fmt.Println("reached by both:", port.Latest().Low.OK)
	says("right", 7, 1)
	says("left", 20, 2)
	state, err := port.Recv(ctx) // three updates, one receive
	fmt.Println("reached by both:", state.Low.Value, err)
	// Output:
	// reached by both: false
	// reached by both: 7 <nil>
	// closed: <nil>
}

func ExampleOpenRelay() {
	ctx := context.Background()
	p, done, err := proc(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	sum := actor.Sum[int]()
	total, err := actor.OpenAccumulator(p, sum)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer total.Close()
	// On another proc the relay would save messages: of five answers one goes on.
	relay, err := actor.OpenRelay(p, total.Ref(), sum.Reducer(), actor.RelayOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 10 {
		if err := relay.Ref().Send(ctx, n); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("close:", relay.Close(), "sum:", total.Latest())
	// Output:
	// close: <nil> sum: 45
	// closed: <nil>
}
