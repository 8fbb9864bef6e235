package inspect

import (
	"context"
	"errors"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// Actor is one actor of one rank. Its JSON names are stable.
type Actor struct {
	Rank      int      `json:"rank"`
	Point     string   `json:"point"`
	Actor     string   `json:"actor"`
	Type      string   `json:"type,omitempty"`
	Status    string   `json:"status"`
	Reason    string   `json:"reason,omitempty"`
	Queued    int      `json:"queued"`
	Handled   uint64   `json:"handled"`
	Current   string   `json:"current,omitempty"` // endpoint of the running handler
	Endpoints []string `json:"endpoints,omitempty"`
}

// Actors asks every proc of a region for its actors; all includes its own agents. The error names
// procs without an answer and comes with the records of the others.
func Actors(ctx context.Context, procs mesh.ProcMesh, all bool) ([]Actor, error) {
	found, err := procs.Actors(ctx)
	return actorsIn(found, procs, all, err)
}

// actorsIn lists the actors in the answers of procs, unless err is more than missing answers.
func actorsIn(
	found shape.ValueMesh[[]agent.State], procs mesh.ProcMesh, all bool, err error,
) (out []Actor, _ error) {
	if err != nil {
		if _, partial := errors.AsType[*cast.CoverageError](err); !partial {
			return nil, err
		}
	}
	for view, states := range found.Values() {
		for _, s := range states {
			if s.Actor == nil || !s.Actor.Managed && !all {
				continue
			}
			base, _ := procs.Region().BaseRank(view) // a rank of the region
			out = append(out, newActor(s, base, Point(procs.Describe().Extent, base)))
		}
	}
	return out, err
}

// newActor converts the state of an actor.
func newActor(s agent.State, rank int, point string) Actor {
	return Actor{
		Rank: rank, Point: point, Actor: s.ID, Type: s.Actor.Type,
		Status: s.Status.Phase.String(), Reason: s.Status.Reason, Queued: s.Actor.Queued,
		Handled: s.Actor.Handled, Current: s.Actor.Current, Endpoints: s.Actor.Endpoints,
	}
}
