package target

import (
	"context"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// Request are the common arguments of `call` and `cast`, parsed before anything is sent.
type Request struct {
	Target   Target
	Actor    string
	Endpoint actor.Endpoint[any, any, any]
	Message  any
	Body     string // the message as typed
}

// ParseRequest parses MESH[region] ACTOR ENDPOINT [JSON].
func ParseRequest(args []string) (Request, error) {
	to, err := Parse(args[0])
	if err != nil {
		return Request{}, err
	}
	if err := subjects.CheckName("actor", args[1]); err != nil {
		return Request{}, err
	}
	q := Request{Target: to, Actor: args[1], Endpoint: actor.NewEndpoint[any, any, any](args[2])}
	if err := q.Endpoint.Err(); err != nil {
		return Request{}, err
	}
	if len(args) == 4 {
		q.Body = strings.TrimSpace(args[3])
		q.Message, err = ParseValue("message", args[3])
	}
	return q, err
}

// Resolve looks up the target and the actor.
func (q Request) Resolve(ctx context.Context, net *mesh.Net) (Resolved, mesh.ActorMesh[any], error) {
	p, err := q.Target.Resolve(ctx, net)
	if err != nil {
		return Resolved{}, mesh.ActorMesh[any]{}, err
	}
	m, err := p.Actors(ctx, q.Actor)
	return p, m, err
}
