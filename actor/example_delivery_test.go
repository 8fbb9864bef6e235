package actor_test

import (
	"context"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/subjects"
)

var (
	log  = actor.NewType[*Log, actor.None]("log")
	line = actor.NewEndpoint[*Log, []byte, actor.None]("line")
	size = actor.NewEndpoint[*Log, actor.None, int]("size")
)

// Log counts lines.
type Log struct{ lines int }

func newLog(*actor.Context, actor.None) (*Log, error) { return &Log{}, nil }

func (l *Log) line(*actor.Context, []byte) (none actor.None, _ error) {
	l.lines++
	return none, nil
}
func (l *Log) size(*actor.Context, actor.None) (int, error) { return l.lines, nil }

// A stream goes to an actor in another proc. SendWait slows the sender down to its receiver's pace,
// and Flush waits until every line has arrived.
func ExampleProc_Flush() {
	ctx := context.Background()
	srv, err := embed.Start(ctx, embed.Options{DontListen: true})
	if err != nil {
		panic(err)
	}
	defer srv.Shutdown()
	proc := func(label string) *actor.Proc {
		id, err := subjects.NewHostID(label)
		if err != nil {
			panic(err)
		}
		b, err := bus.Open(ctx, bus.Options{Server: srv})
		if err != nil {
			panic(err)
		}
		registry, err := actor.NewRegistry(log.Define(newLog, line.Handle((*Log).line), size.Handle((*Log).size)))
		if err != nil {
			panic(err)
		}
		p, err := actor.NewProc(ctx, actor.Options{ID: id.Proc(), Bus: b, Registry: registry})
		if err != nil {
			panic(err)
		}
		return p
	}
	here, there := proc("here"), proc("there")
	defer func() {
		for _, p := range []*actor.Proc{here, there} {
			if err := p.Close(ctx); err != nil {
				panic(err)
			}
			if err := p.Bus().Close(ctx); err != nil {
				panic(err)
			}
		}
	}()

	ref, err := actor.Spawn(ctx, there, log, "log", actor.None{})
	if err != nil {
		panic(err)
	}
	for n := range 5000 { // more than a mailbox holds
		if err := line.SendWait(ctx, ref.Via(here), fmt.Append(nil, n)); err != nil {
			panic(err)
		}
	}
	if err := here.Flush(ctx); err != nil {
		panic(err)
	}
	n, err := size.Call(ctx, ref.Via(here), actor.None{})
	fmt.Println(n, err)
	// Output: 5000 <nil>
}
