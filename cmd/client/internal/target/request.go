package target

import (
	"context"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
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

// Resolve looks up the actors of the target. A target may be a union of regions, whose ranks keep
// their numbers in the mesh.
func (q Request) Resolve(ctx context.Context, conn *mesh.Net) (Resolved, cast.Mesh[any], error) {
	whole, err := Target{Name: q.Target.Name}.Resolve(ctx, conn)
	if err != nil {
		return Resolved{}, nil, err
	}
	s, err := shape.ParseSelection(whole.Base, q.Target.Region)
	if err == nil && !s.IsEmpty() {
		if _, union := s.Region(); union != nil {
			m, err := whole.Actors(ctx, q.Actor)
			return whole, cast.Select(m, s), err
		}
	}
	p, err := q.Target.ResolveIn(whole.whole)
	if err != nil {
		return Resolved{}, nil, err
	}
	m, err := p.Actors(ctx, q.Actor)
	return p, m, err
}
