package browser

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// roleVariable makes the test binary a program with a mesh; see runProgram.
const roleVariable = "CASTNET_BROWSER_PROGRAM"

var (
	trainerType = actor.NewType[*trainer, actor.None]("trainer")
	step        = actor.NewEndpoint[*trainer, int, int]("step")
	say         = actor.NewEndpoint[*trainer, string, actor.None]("say")
	barrier     = actor.NewEndpoint[*trainer, actor.None, actor.None]("barrier")
)

// trainer is the actor of a rank.
type trainer struct{}

func (*trainer) step(_ *actor.Context, n int) (int, error) { return n + 1, nil }

func (*trainer) say(_ *actor.Context, text string) (none actor.None, err error) {
	_, err = fmt.Println(text)
	return none, err
}

// barrier holds the ranks 2 and 3 until their caller gives up.
func (*trainer) barrier(ctx *actor.Context, _ actor.None) (none actor.None, err error) {
	if rank := ctx.Point().Rank(); rank == 2 || rank == 3 {
		<-ctx.Done()
	}
	return none, nil
}

func TestMain(m *testing.M) {
	proc.Main(trainerType.Define(
		func(*actor.Context, actor.None) (*trainer, error) { return &trainer{}, nil },
		step.Handle((*trainer).step), say.Handle((*trainer).say), barrier.Handle((*trainer).barrier),
	))
	if os.Getenv(roleVariable) != "" {
		if err := runProgram(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.Main(m)
}

// ranksPerHost is the extent of the mesh on each host.
const ranksPerHost = 8

// longCast is longer than any test.
const longCast = 20 * time.Minute

// runProgram has a mesh on two hosts until its stdin ends. It prints the ID of the mesh, the
// process of each rank, and of each failed rank the time at which its owner knew. A line of stdin begins a cast that two ranks hold.
func runProgram() error {
	ctx := context.Background()
	conn, err := mesh.Connect(ctx, mesh.Options{Label: "train", OnFailure: func(e actor.Event) {
		fmt.Println("failed", e.Rank, time.Now().UnixMicro())
	}})
	if err != nil {
		return err
	}
	hosts, err := conn.AwaitHosts(ctx, 2)
	if err != nil {
		return err
	}
	procs, err := hosts.Spawn(ctx, "train", shape.Of("gpu", ranksPerHost))
	if err != nil {
		return err
	}
	trainers, err := mesh.Spawn(ctx, procs, trainerType, "trainers", actor.None{})
	if err != nil {
		return err
	}
	states, err := procs.States(ctx)
	if err != nil {
		return err
	}
	fmt.Println("mesh", procs.ID())
	for rank, s := range states.All() {
		fmt.Println("process", rank.Rank(), s.Proc.PID)
	}
	casting, stop := context.WithTimeout(ctx, longCast)
	over := make(chan struct{})
	casts := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); casts++ {
		go func() {
			_, _ = cast.Gather(casting, trainers, barrier, actor.None{}) // its coverage is on the page
			over <- struct{}{}
		}()
	}
	stop()
	for range casts {
		<-over
	}
	return conn.Close(ctx)
}
