package mesh_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
)

// The procs run the tests' own binary: TestMain makes it a proc when a host launched it.
func TestMain(m *testing.M) {
	host.Main(defs()...)
	if os.Getenv(programVariable) != "" {
		os.Exit(unhandledMain())
	}
	testkit.Main(m)
}

// defs are the actor types of the tests' procs.
func defs() []actor.Def {
	return append(actortest.Actors(), actors(), haltings(), keepers(), speakers(), bosses(), gateds(), mesh.Def(),
		host.HostActorDef(host.Options{}))
}

var (
	counter = actor.NewType[*Counter, int64]("counter")
	add     = actor.NewEndpoint[*Counter, int64, int64]("add")
	crash   = actor.NewEndpoint[*Counter, actor.None, actor.None]("crash")
	hold    = actor.NewEndpoint[*Counter, time.Duration, actor.None]("hold")
	wait    = actor.NewEndpoint[*Counter, time.Duration, actor.None]("wait")
	say     = actor.NewEndpoint[*Counter, string, actor.None]("say")
	pass    = actor.NewEndpoint[*Counter, passing, int64]("pass")
	look    = actor.NewEndpoint[*Counter, []string, surroundings]("look")
	env     = actor.NewEndpoint[*Counter, actor.None, actor.Maybe[run]]("env")
)

// The constructor of halting returns at once, but on rank 1 only after its parameter, even when it
// is asked to end.
var halting = actor.NewType[*Counter, time.Duration]("halting")

func haltings() actor.Def {
	return halting.Define(func(ctx *actor.Context, d time.Duration) (*Counter, error) {
		if ctx.Point().Rank() == 1 {
			time.Sleep(d)
		}
		return &Counter{}, nil
	})
}

// The constructor of gated waits for a file, but on rank 0. Beside it, a second file says so.
var gated = actor.NewType[*Counter, string]("gated")

func gateds() actor.Def {
	return gated.Define(func(ctx *actor.Context, gate string) (*Counter, error) {
		if ctx.Point().Rank() == 0 {
			return &Counter{}, nil
		}
		err := os.WriteFile(gate+".waits", nil, 0o600)
		for opened := false; err == nil && !opened && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			_, missing := os.Stat(gate)
			opened = missing == nil
		}
		return &Counter{}, err
	})
}

// Counter counts.
type Counter struct{ n int64 }

func newCounter(ctx *actor.Context, start int64) (*Counter, error) {
	if start < 0 && ctx.Point().Rank() == 1 {
		return nil, fmt.Errorf("cannot count from %d", start)
	}
	return &Counter{start}, nil
}

func (c *Counter) add(_ *actor.Context, delta int64) (int64, error) {
	c.n += delta
	return c.n, nil
}

// runEnv is a variable that procs inherit.
var runEnv = mesh.NewEnv[run]("RUN")

// run names the first counter.
type run struct {
	ID   int
	Root actor.Ref[*Counter]
}

// env is the variable as the procs of this actor inherit it.
func (c *Counter) env(ctx *actor.Context, _ actor.None) (actor.Maybe[run], error) {
	r, ok, err := runEnv.Get(ctx)
	return actor.Maybe[run]{Value: r, OK: ok}, err
}

// surroundings are what a process finds about itself.
type surroundings struct {
	Arg0, Dir string
	CPUs      int
	Env       []string // the values of the variables asked for
}

func (c *Counter) look(_ *actor.Context, variables []string) (s surroundings, err error) {
	s = surroundings{Arg0: os.Args[0], CPUs: runtime.NumCPU()}
	for _, name := range variables {
		s.Env = append(s.Env, os.Getenv(name))
	}
	s.Dir, err = os.Getwd()
	return s, err
}

func (c *Counter) crash(*actor.Context, actor.None) (actor.None, error) { panic("crash test") }

func (c *Counter) say(ctx *actor.Context, what string) (actor.None, error) {
	fmt.Println(what, "from", ctx.Point().Rank())
	return actor.None{}, nil
}

// hold is busy for a duration, even when it is asked to end.
func (c *Counter) hold(_ *actor.Context, d time.Duration) (actor.None, error) {
	time.Sleep(d)
	return actor.None{}, nil
}

// keepBusy returns when an actor is in hold. A later stop finds it there, though stops overtake
// messages.
func (c *cluster) keepBusy(t *testing.T, ref actor.Ref[*Counter], d time.Duration) {
	t.Helper()
	require.NoError(t, hold.Send(t.Context(), ref, d))
	testkit.Until(t, "the actor is busy", func() bool {
		i, err := c.Proc().Inspect(t.Context(), ref.ID())
		return err == nil && i.Current == "hold"
	})
}

// wait makes its proc wait for a duration from now on.
func (c *Counter) wait(ctx *actor.Context, d time.Duration) (actor.None, error) {
	return actor.None{}, config.ProcReadyTimeout.Set(proc.Config(ctx), d)
}

// passing is a number for another counter to add; Rank -1: for all.
type passing struct {
	To   mesh.ActorMesh[*Counter]
	Rank int
}

// pass adds 1 to another counter. It knows the other mesh from the message alone.
func (c *Counter) pass(ctx *actor.Context, p passing) (int64, error) {
	if p.Rank < 0 {
		return cast.Reduce(ctx, p.To, add, 1, cast.Sum[int64]())
	}
	return add.Call(ctx, p.To.Via(mesh.NetOf(ctx)).Ref(p.Rank), 1)
}

func actors() actor.Def {
	return counter.Define(newCounter, look.Handle((*Counter).look), env.Handle((*Counter).env),
		pass.Handle((*Counter).pass),
		add.Handle((*Counter).add), crash.Handle((*Counter).crash), say.Handle((*Counter).say),
		wait.Handle((*Counter).wait), hold.Handle((*Counter).hold))
}
