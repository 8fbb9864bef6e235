package agent

import (
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/micro"
)

// DescribeEndpoints describes the endpoints of an actor type for discovery. Function subject
// returns the subject of an endpoint.
func DescribeEndpoints(r actor.Registry, typeName string,
	subject func(endpoint string) string) (out []micro.Endpoint) {
	schemas := EndpointSchemas(r, typeName)
	for _, e := range r.Describe(typeName) {
		out = append(out, micro.Endpoint{Name: e.Name, Subject: subject(e.Name), Metadata: map[string]string{
			"type": typeName, "in": e.In.String(), "out": e.Out.String(), "in-schema": schemas[e.Name].In,
			"out-schema": schemas[e.Name].Out,
			"reducers":   strings.Join(e.Reducers, ","), "direction": Direction(e.Out.String()),
		}})
	}
	return out
}

// EndpointSchemas returns the schemas of an actor type's endpoints by name.
func EndpointSchemas(r actor.Registry, typeName string) map[string]Schema {
	out := map[string]Schema{}
	for _, e := range r.Describe(typeName) {
		out[e.Name] = Schema{In: micro.Schema(e.In), Out: micro.Schema(e.Out)}
	}
	return out
}

// Direction returns in which direction values flow, given the Go type of the replies.
func Direction(out string) string {
	if out == "struct {}" {
		return "in"
	}
	return "in,out"
}

// EndpointStats sums the statistics of all actors of a type, for discovery. Times are sampled from
// one message in 64.
func EndpointStats(r actor.Registry, typeName string, actors []actor.Info,
	subject func(endpoint string) string) (out []micro.Stats) {
	for _, e := range r.Describe(typeName) {
		s := micro.Stats{Name: e.Name, Subject: subject(e.Name)}
		for _, a := range actors {
			for _, did := range a.Endpoints {
				if a.Type == typeName && did.Name == e.Name {
					s.Requests += did.Handled
					s.Errors += did.Failed
					s.ProcessingTime += did.Ran.Mean * time.Duration(did.Handled)
				}
			}
		}
		if s.Requests > 0 {
			s.AverageTime = s.ProcessingTime / time.Duration(s.Requests)
		}
		out = append(out, s)
	}
	return out
}
