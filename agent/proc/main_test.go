package proc_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/internal/testkit"
)

// Workers run the tests' own binary: TestMain makes it one when a test launched it.
func TestMain(m *testing.M) {
	if os.Getenv("PROC_TEST_MALFORMED") != "" {
		proc.Main(actor.NewType[*counter, int64]("two words").Define(newCounter))
	}
	proc.Main(counterDef())
	testkit.Main(m)
}

var (
	counterType = actor.NewType[*counter, int64]("counter")
	add         = actor.NewEndpoint[*counter, int64, int64]("add")
	point       = actor.NewEndpoint[*counter, actor.None, string]("point")
	crash       = actor.NewEndpoint[*counter, actor.None, actor.None]("crash")
	hang        = actor.NewEndpoint[*counter, actor.None, actor.None]("hang")
)

// counter counts.
type counter struct {
	n     int64
	point string
}

// newCounter takes a while for a start of 1000, and refuses a negative one.
func newCounter(ctx *actor.Context, start int64) (*counter, error) {
	switch {
	case start < 0:
		return nil, errors.New("cannot count from below zero")
	case start == 1000:
		t := time.NewTimer(300 * time.Millisecond)
		defer t.Stop()
		<-t.C
	}
	return &counter{start, ctx.Point().String()}, nil
}

func (c *counter) add(_ *actor.Context, delta int64) (int64, error) {
	c.n += delta
	return c.n, nil
}

func (c *counter) where(*actor.Context, actor.None) (string, error) { return c.point, nil }

func (c *counter) crash(*actor.Context, actor.None) (actor.None, error) { panic("crash test") }

func (c *counter) hang(*actor.Context, actor.None) (actor.None, error) { select {} }

func counterDef() actor.Def {
	return counterType.Define(newCounter, add.Handle((*counter).add), point.Handle((*counter).where),
		crash.Handle((*counter).crash), hang.Handle((*counter).hang))
}
