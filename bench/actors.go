package main

import "github.com/castnet-io/castnet/actor"

var (
	worker = actor.NewType[*Worker, actor.None]("worker")
	echo   = actor.NewEndpoint[*Worker, []byte, []byte]("echo")
	size   = actor.NewEndpoint[*Worker, []byte, int64]("size")
)

// Worker answers what our side of a measurement asks.
type Worker struct{ parked int }

func newWorker(*actor.Context, actor.None) (*Worker, error) { return &Worker{}, nil }

func (*Worker) echo(_ *actor.Context, m []byte) ([]byte, error) { return m, nil }

func (*Worker) size(_ *actor.Context, m []byte) (int64, error) { return int64(len(m)), nil }

func actors() actor.Def {
	return worker.Define(newWorker, echo.Handle((*Worker).echo), size.Handle((*Worker).size),
		fail.Handle((*Worker).fail), park.Handle((*Worker).park), parked.Handle((*Worker).howMany))
}
