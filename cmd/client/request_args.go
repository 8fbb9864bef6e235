package main

import (
	"context"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// requestArgs are the common arguments of `call` and `cast`, parsed before anything is sent.
type requestArgs struct {
	target   target
	actor    string
	endpoint actor.Endpoint[any, any, any]
	message  any
	body     string // the message as typed
}

// parseRequestArgs parses MESH[region] ACTOR ENDPOINT [JSON].
func parseRequestArgs(args []string) (requestArgs, error) {
	to, err := parseTarget(args[0])
	if err != nil {
		return requestArgs{}, err
	}
	if err := subjects.CheckName("actor", args[1]); err != nil {
		return requestArgs{}, err
	}
	q := requestArgs{target: to, actor: args[1], endpoint: actor.NewEndpoint[any, any, any](args[2])}
	if err := q.endpoint.Err(); err != nil {
		return requestArgs{}, err
	}
	if len(args) == 4 {
		q.body = strings.TrimSpace(args[3])
		q.message, err = parseValue("message", args[3])
	}
	return q, err
}

// resolve looks up the target and the actor.
func (q requestArgs) resolve(ctx context.Context, net *mesh.Net) (resolvedTarget, mesh.ActorMesh[any], error) {
	p, err := q.target.resolve(ctx, net)
	if err != nil {
		return resolvedTarget{}, mesh.ActorMesh[any]{}, err
	}
	m, err := p.actors(ctx, q.actor)
	return p, m, err
}
