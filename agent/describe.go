package agent

import (
	"reflect"
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

// EndpointStats presents the metrics of the actors of a type for discovery. Times are sampled from
// one message in 64. The data of the endpoint GetMetrics are all metrics of the process.
func EndpointStats(r actor.Registry, typeName string, m MeshMetrics,
	subject func(endpoint string) string) (out []micro.Stats) {
	for _, e := range r.Describe(typeName) {
		s := micro.Stats{Name: e.Name, Subject: subject(e.Name)}
		did := m.endpoint(typeName, e.Name)
		s.Requests = did.Handled
		s.Errors = did.Failed
		s.AverageTime = did.Ran.Mean
		s.ProcessingTime = did.Ran.Mean * time.Duration(did.Handled)
		if e.Out == reflect.TypeFor[Metrics]() {
			s.Data = m
		}
		out = append(out, s)
	}
	return out
}
