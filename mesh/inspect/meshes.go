package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// MeshSummary is a mesh or world. Its JSON names are stable.
type MeshSummary struct {
	Mesh    string     `json:"mesh"`
	Label   string     `json:"label"`
	Kind    string     `json:"kind"` // mesh or world
	Extent  string     `json:"extent"`
	Ranks   int        `json:"ranks"`
	Running int        `json:"running"`
	Phase   string     `json:"phase"`
	Hosts   []string   `json:"hosts"`
	Owner   MeshOwner  `json:"owner"`
	Since   *time.Time `json:"since,omitempty"` // start of its first rank
}

// MeshOwner is the owner of a mesh.
type MeshOwner struct {
	Kind   string `json:"kind"` // program, system, or none: no answer
	ID     string `json:"id"`
	Epoch  uint64 `json:"epoch,omitempty"`
	Reason string `json:"reason,omitempty"` // why there is none
}

const (
	OwnerProgram = "program"
	OwnerSystem  = "system"
	OwnerNone    = "none"
)

// systemTimeout bounds the wait for the system controller. Another hostd takes over in less.
const systemTimeout = 5 * time.Second

// Meshes asks hosts for meshes, the system controller for its own, and owners for a sign of
// life. missing names hosts without an answer, and a system controller without one.
func Meshes(ctx context.Context, conn *mesh.Net, all bool) (records []MeshSummary, missing, err error) {
	inv, err := conn.Inventory(ctx)
	if err != nil {
		return nil, nil, err
	}
	records, err = MeshesOf(ctx, conn, inv, all)
	return records, errors.Join(inv.Err(), err), nil
}

// MeshesOf is Meshes with an Inventory that is known already. If the system controller does not
// answer, an error comes with the records, and its detached meshes seem to have no owner.
func MeshesOf(
	ctx context.Context, conn *mesh.Net, inv mesh.Inventory, all bool,
) (records []MeshSummary, err error) {
	left := func(m mesh.MeshState) bool { return !all && !m.Alive() }
	states := slices.DeleteFunc(slices.Clone(inv.Meshes), left)
	asking, asked := context.WithTimeout(ctx, systemTimeout)
	detached, err := conn.Detached(asking)
	asked()
	if errors.Is(err, system.ErrNoController) {
		err = nil
	} else if err != nil {
		err = fmt.Errorf("cannot ask the system controller for its meshes: %w", err)
	}
	records = make([]MeshSummary, len(states))
	within, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	askEach(states, func(i int, m mesh.MeshState) {
		records[i] = summarize(m)
		if m.Alive() {
			records[i].Owner.inspect(within, conn, m.Procs.Describe(), detached)
			return
		}
		records[i].Owner.Kind = OwnerNone
		records[i].Owner.Reason = "it has ended"
	})
	slices.SortStableFunc(records, func(x, y MeshSummary) int { return cmp.Compare(x.Mesh, y.Mesh) })
	return records, err
}

// inspect pings the owner.
func (o *MeshOwner) inspect(
	ctx context.Context, conn *mesh.Net, m agent.Mesh, detached []system.DetachedState,
) {
	if m.World != nil {
		o.Kind = OwnerSystem
		ref, err := system.Find(ctx, conn.Proc())
		o.ID = ref.ID().String()
		if err != nil {
			o.Kind = OwnerNone
			o.ID = ""
			o.Reason = err.Error()
		}
		return
	}
	o.Kind = OwnerProgram
	for _, d := range detached {
		if d.Mesh == m.ID {
			o.Kind = OwnerSystem
			o.ID = d.Claim.Owner.String()
			o.Epoch = d.Claim.Epoch
			return
		}
	}
	if _, err := agent.Ping.Call(ctx, agentRef(conn, m.Owner), actor.None{}); err != nil {
		o.Kind, o.Reason = OwnerNone, errorText(err)
	}
}

func agentRef(conn *mesh.Net, id subjects.ActorID) actor.Ref[agent.Agent] {
	return actor.RefOf[agent.Agent](id).Via(conn.Proc())
}

func summarize(m mesh.MeshState) MeshSummary {
	desc := m.Procs.Describe()
	r := MeshSummary{
		Mesh: desc.ID.String(), Label: desc.ID.Label(), Kind: "mesh", Extent: desc.Extent.String(),
		Ranks: desc.Extent.NumRanks(),
		Hosts: []string{}, Owner: MeshOwner{ID: desc.Owner.String()},
	}
	if desc.World != nil {
		r.Kind = "world"
	}
	by := map[int]agent.Status{}
	silent := false // a host does not answer
	for rank, s := range newestStates(m.States) {
		by[rank] = s.Status
		silent = silent || s.Status.Phase == agent.Unknown
		if s.Status.Phase == agent.Running {
			r.Running++
		}
		if s.Claim != nil && s.Claim.Owner == desc.Owner {
			r.Owner.Epoch = s.Claim.Epoch
		}
	}
	phase := overallPhase(by)
	if phase == agent.Running && silent {
		phase = agent.Unknown
	}
	r.Phase = phase.String()
	for at := range desc.Hosts {
		if h, err := m.Procs.Host(at * desc.PerHost); err == nil {
			r.Hosts = append(r.Hosts, h.String())
		}
	}
	if at := m.Started(); !at.IsZero() {
		r.Since = &at
	}
	return r
}
