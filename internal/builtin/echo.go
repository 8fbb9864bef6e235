package builtin

import "github.com/castnet-io/castnet/actor"

var (
	echoType     = actor.NewType[*echo, actor.None]("echo")
	echoEndpoint = actor.NewEndpoint[*echo, any, any]("echo")
)

// echo replies with its message.
type echo struct{}

func newEcho(*actor.Context, actor.None) (*echo, error) { return &echo{}, nil }

func (*echo) echo(_ *actor.Context, v any) (any, error) { return v, nil }
