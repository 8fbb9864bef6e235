package main

import (
	"context"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// question is what `call` and `cast` have in common: whom to ask what. It is read before anything
// is sent.
type question struct {
	to       target
	actor    string
	endpoint actor.Endpoint[any, any, any]
	message  any
	body     string // the message as it was written
}

// parseQuestion reads MESH[region] ACTOR ENDPOINT [JSON].
func parseQuestion(args []string) (question, error) {
	to, err := parseTarget(args[0])
	if err != nil {
		return question{}, err
	}
	if err := subjects.CheckName("actor", args[1]); err != nil {
		return question{}, err
	}
	q := question{to: to, actor: args[1], endpoint: actor.NewEndpoint[any, any, any](args[2])}
	if err := q.endpoint.Err(); err != nil {
		return question{}, err
	}
	if len(args) == 4 {
		q.body = strings.TrimSpace(args[3])
		q.message, err = parseValue("message", args[3])
	}
	return q, err
}

// find looks up whom to ask.
func (q question) find(ctx context.Context, net *mesh.Net) (place, mesh.ActorMesh[any], error) {
	p, err := q.to.find(ctx, net)
	if err != nil {
		return place{}, mesh.ActorMesh[any]{}, err
	}
	m, err := p.actors(ctx, q.actor)
	return p, m, err
}
