package worlds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// Living are the names of the meshes and worlds that live, as their hosts say, each with who has it. One that several have
// is there as often. quiet is how long no further host may answer.
func Living(ctx context.Context, p *actor.Proc, quiet time.Duration) ([]NameTakenError, error) {
	hosts, err := agent.ListedHosts(ctx, p.Bus(), p.Space(), quiet)
	if err != nil {
		return nil, err
	}
	said, errs := make([][]agent.State, len(hosts)), make([]error, len(hosts))
	var wg sync.WaitGroup
	slots := make(chan struct{}, hostsAtOnce)
	for i, h := range hosts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			said[i], errs[i] = agent.Get.Call(ctx, agent.Of(h.ID.Proc()).Via(p), agent.Query{})
		})
	}
	wg.Wait()
	var out []NameTakenError
	seen := map[string]bool{}
	for i, states := range said {
		if errs[i] != nil {
			err = errors.Join(err, fmt.Errorf("ask host %s for its procs: %w", hosts[i].Label, errs[i]))
		}
		kinds := map[string]string{} // of meshes that it describes, each on the first of its ranks
		for _, s := range states {
			if s.Mesh != nil {
				kinds[s.ID] = kindOf(*s.Mesh)
			}
			if id, bad := subjects.ParseMeshID(s.ID); bad == nil && kinds[s.ID] != "" && !s.Status.Phase.Terminal() && !seen[s.ID] {
				seen[s.ID] = true
				out = append(out, NameTakenError{Name: id.Label(), Kind: kinds[s.ID], Holder: s.ID})
			}
		}
	}
	return out, err
}

// What has a name, to people.
const (
	kindMesh  = "mesh"
	kindWorld = "world"
)

func kindOf(m agent.Mesh) string {
	if m.World != nil {
		return kindWorld
	}
	return kindMesh
}

// Holder is a *NameTakenError when the system controller has a world of a name, or a detached mesh. It is one request, which
// the server answers where there is no system controller.
func Holder(ctx context.Context, p *actor.Proc, name string) error {
	fail := func(err error) error {
		return fmt.Errorf("ask the system controller for the name %s: %w", name, err)
	}
	where, err := holders()
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, nameWithin)
	defer cancel()
	subject := p.Space().Port(where.Actor("name").Port("holder"), p.ID().Process().String())
	m, err := p.Bus().Control().Request(ctx, bus.Msg{Subject: subject, Data: []byte(name)})
	switch {
	case errors.Is(err, bus.ErrNoResponders):
		return nil
	case err != nil:
		return fail(err)
	case len(m.Data) == 0:
		return nil
	}
	taken := new(NameTakenError)
	if err := json.Unmarshal(m.Data, taken); err != nil || taken.Name != name {
		return fail(fmt.Errorf("it says %.80q: want who has it", m.Data))
	}
	return taken
}

// holders is where the system controller is asked, whichever acts. Nobody who takes a name listens there.
func holders() (subjects.ProcID, error) {
	where, err := nobody("system")
	where.Rank = 1
	return where, err
}

// holder is who has the name of a record.
func (r Record) holder() *NameTakenError {
	if d := r.Detached; d != nil {
		return &NameTakenError{r.Name, kindMesh, d.Mesh.String()}
	}
	mesh, _ := subjects.ParseMeshID(r.Mesh) // none: nobody has said it
	return &NameTakenError{r.Name, kindWorld, (&world{mesh: mesh}).meshText(r.Name)}
}
