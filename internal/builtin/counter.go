package builtin

import (
	"fmt"

	"github.com/castnet-io/castnet/actor"
)

var (
	counterType = actor.NewType[*counter, int64]("counter")
	add         = actor.NewEndpoint[*counter, int64, int64]("add")
	get         = actor.NewEndpoint[*counter, actor.None, int64]("get")
	reset       = actor.NewEndpoint[*counter, actor.None, int64]("reset")
)

// counter counts from start.
type counter struct{ start, n int64 }

func newCounter(_ *actor.Context, start int64) (*counter, error) { return &counter{start, start}, nil }

func (c *counter) add(_ *actor.Context, delta int64) (int64, error) {
	sum := c.n + delta
	if (sum > c.n) != (delta > 0) && delta != 0 { // BLT-2
		return 0, fmt.Errorf("%d + %d does not fit in 64 bits", c.n, delta)
	}
	c.n = sum
	return c.n, nil
}

func (c *counter) get(*actor.Context, actor.None) (int64, error) { return c.n, nil }

func (c *counter) reset(*actor.Context, actor.None) (int64, error) {
	c.n = c.start
	return c.n, nil
}
