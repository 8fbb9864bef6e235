package builtin

import "github.com/castnet-io/castnet/actor"

var (
	echoType = actor.NewType[*echo, actor.None]("echo")
	echoBack = actor.NewEndpoint[*echo, any, any]("echo")
)

// echo answers with what it was sent.
type echo struct{}

func newEcho(*actor.Context, actor.None) (*echo, error) { return &echo{}, nil }

func (*echo) back(_ *actor.Context, v any) (any, error) { return v, nil }
