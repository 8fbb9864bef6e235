package mesh_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/proc"
)

// The tests' own binary is what their procs run: TestMain makes it a proc when a host launched it.
func TestMain(m *testing.M) {
	proc.Main(actors())
	if os.Getenv("CASTNET_TEST_EXIT") != "" {
		os.Exit(7)
	}
	goleak.VerifyTestMain(m)
}

var (
	counter = actor.NewType[*Counter, int64]("counter")
	add     = actor.NewEndpoint[*Counter, int64, int64]("add")
	crash   = actor.NewEndpoint[*Counter, actor.None, actor.None]("crash")
)

// Counter counts.
type Counter struct{ n int64 }

func newCounter(_ *actor.Context, start int64) (*Counter, error) { return &Counter{start}, nil }

func (c *Counter) add(_ *actor.Context, delta int64) (int64, error) {
	c.n += delta
	return c.n, nil
}

func (c *Counter) crash(*actor.Context, actor.None) (actor.None, error) { panic("crash test") }

func actors() actor.Def {
	return counter.Made(newCounter, add.By((*Counter).add), crash.By((*Counter).crash))
}
