package system

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// NamesInUse lists the names of live meshes and worlds, as their hosts report them, each with its
// holder. A name with several holders appears once for each. quiet ends the query after this long
// without another host's answer.
func NamesInUse(ctx context.Context, p *actor.Proc, quiet time.Duration) ([]NameTakenError, error) {
	hosts, err := agent.DiscoverListedHosts(ctx, p.Bus(), p.Space(), quiet)
	if err != nil {
		return nil, err
	}
	said := make([][]agent.State, len(hosts))
	errs := make([]error, len(hosts))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxHostsAsked)
	for i, h := range hosts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			said[i], errs[i] = agent.Get.Call(ctx, agent.Of(h.ID.Proc()).Via(p), agent.GetRequest{})
		})
	}
	wg.Wait()
	var out []NameTakenError
	seen := map[string]bool{}
	for i, states := range said {
		if errs[i] != nil {
			err = errors.Join(err, fmt.Errorf("cannot list the procs of host %s: %w", hosts[i].Label, errs[i]))
		}
		kinds := map[string]string{} // by mesh; the state of a mesh's first rank describes the mesh
		for _, s := range states {
			if s.Mesh != nil {
				kinds[s.ID] = kindOf(*s.Mesh)
			}
			if kinds[s.ID] == "" || s.Status.Phase.Terminal() || seen[s.ID] {
				continue
			}
			if id, bad := subjects.ParseMeshID(s.ID); bad == nil {
				seen[s.ID] = true
				out = append(out, NameTakenError{Name: id.Label(), Kind: kinds[s.ID], Holder: s.ID})
			}
		}
	}
	return out, err
}

// Kinds of name holders.
const (
	kindMesh    = "mesh"
	kindWorld   = "world"
	kindProgram = "program"
)

func kindOf(m agent.Mesh) string {
	if m.World != nil {
		return kindWorld
	}
	return kindMesh
}
