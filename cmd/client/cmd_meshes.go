package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// meshRecord is a mesh or world. Its JSON names are stable.
type meshRecord struct {
	Mesh    string     `json:"mesh"`
	Label   string     `json:"label"`
	Kind    string     `json:"kind"` // mesh or world
	Extent  string     `json:"extent"`
	Ranks   int        `json:"ranks"`
	Running int        `json:"running"`
	Phase   string     `json:"phase"`
	Hosts   []string   `json:"hosts"`
	Owner   owner      `json:"owner"`
	Since   *time.Time `json:"since,omitempty"` // start of its first rank
}

// owner is the owner of a mesh.
type owner struct {
	Kind  string `json:"kind"` // program, system, or none: no answer
	ID    string `json:"id"`
	Epoch uint64 `json:"epoch,omitempty"`
	Why   string `json:"reason,omitempty"` // why there is none
}

const (
	ownedByProgram = "program"
	ownedBySystem  = "system"
	ownedByNobody  = "none"
)

func (a *app) meshesCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "meshes",
		Short: "List all meshes and worlds, and who owns them",
		Long: `List live meshes and worlds; with --all also ended ones that their hosts remember. The owner is a
program, with which the mesh ends, or the system, which owns worlds and detached meshes. The owner is
none if it does not answer: then the mesh ends with its lease. If a host does not answer, the meshes
with a rank on it are unknown, and the exit code is 4.

JSON: mesh, label, kind (mesh or world), extent, ranks, running, phase, hosts, owner (kind: program,
system or none; id, epoch, reason), since.`,
		Example: "  castnet meshes\n  castnet meshes -o json",
		Args:    wantArgs(0, 0),
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "also meshes that have ended")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return a.withNetTimeout(c.Context(), func(ctx context.Context, net *mesh.Net) error {
			records, missing, err := listMeshes(ctx, net, all)
			if err != nil {
				return err
			}
			if len(records) == 0 && missing == nil {
				a.notef("no meshes: `castnet up` starts one")
			}
			return errors.Join(a.showMeshes(records), missing)
		})
	}
	return c
}

// listMeshes asks hosts for meshes, the system controller for its own, and owners for a sign of
// life. missing names hosts without an answer.
func listMeshes(ctx context.Context, net *mesh.Net, all bool) (records []meshRecord, missing, err error) {
	inv, err := net.Inventory(ctx)
	if err != nil {
		return nil, nil, err
	}
	states := slices.DeleteFunc(inv.Meshes, func(m mesh.MeshState) bool { return !all && !hasLiveRank(m) })
	detached, err := net.Detached(ctx)
	if err != nil && !errors.Is(err, system.ErrNoController) {
		return nil, nil, err
	}
	records = make([]meshRecord, len(states))
	within, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i, m := range states {
		records[i] = newMeshRecord(m)
		if !hasLiveRank(m) {
			records[i].Owner.Kind, records[i].Owner.Why = ownedByNobody, "it has ended"
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			records[i].Owner.inspect(within, net, m.Procs.Describe(), detached)
		})
	}
	wg.Wait()
	slices.SortStableFunc(records, func(x, y meshRecord) int { return cmp.Compare(x.Mesh, y.Mesh) })
	return records, inv.Err(), nil
}

// inspect pings the owner.
func (o *owner) inspect(ctx context.Context, net *mesh.Net, m agent.Mesh, detached []system.DetachedState) {
	if m.World != nil {
		o.Kind = ownedBySystem
		ref, err := system.Find(ctx, net.Proc())
		o.ID = ref.ID().String()
		if err != nil {
			o.Kind = ownedByNobody
			o.ID = ""
			o.Why = err.Error()
		}
		return
	}
	o.Kind = ownedByProgram
	for _, d := range detached {
		if d.Mesh == m.ID {
			o.Kind = ownedBySystem
			o.ID = d.Claim.Owner.String()
			o.Epoch = d.Claim.Epoch
			return
		}
	}
	if _, err := agent.Ping.Call(ctx, agentRef(net, m.Owner), actor.None{}); err != nil {
		o.Kind, o.Why = ownedByNobody, errorText(err)
	}
}

func agentRef(net *mesh.Net, id subjects.ActorID) actor.Ref[agent.Agent] {
	return actor.RefOf[agent.Agent](id).Via(net.Proc())
}

func newMeshRecord(m mesh.MeshState) meshRecord {
	desc := m.Procs.Describe()
	r := meshRecord{
		Mesh: desc.ID.String(), Label: desc.ID.Label(), Kind: "mesh", Extent: desc.Extent.String(), Ranks: desc.Extent.NumRanks(),
		Hosts: []string{}, Owner: owner{ID: desc.Owner.String()},
	}
	if desc.World != nil {
		r.Kind = "world"
	}
	by := map[int]agent.Status{}
	newest := map[int]int{}
	for _, s := range m.States {
		if gen, known := newest[s.Rank]; known && gen > s.Gen {
			continue
		}
		by[s.Rank], newest[s.Rank] = s.Status, s.Gen
		if s.Claim != nil && s.Claim.Owner == desc.Owner {
			r.Owner.Epoch = s.Claim.Epoch
		}
	}
	for _, s := range by {
		if s.Phase == agent.Running {
			r.Running++
		}
	}
	for rank := range r.Ranks {
		if _, known := by[rank]; !known {
			by[rank] = agent.Status{Phase: agent.NotExist}
		}
	}
	phase := overallPhase(by)
	for _, s := range by {
		if phase == agent.Running && s.Phase == agent.Unknown { // no answer from its host
			phase = agent.Unknown
		}
	}
	r.Phase = phase.String()
	for at := range desc.Hosts {
		if h, err := m.Procs.Host(at * desc.PerHost); err == nil {
			r.Hosts = append(r.Hosts, h.String())
		}
	}
	if at := startTime(m); !at.IsZero() {
		r.Since = &at
	}
	return r
}

func (a *app) showMeshes(records []meshRecord) error {
	columns := []string{"mesh", "kind", "extent", "running", "hosts", "owner", "phase", "age"}
	return showRecords(a, records, columns, func(r meshRecord) []string {
		var hosts []string
		for _, h := range r.Hosts {
			hosts = append(hosts, hostLabel(h))
		}
		since := "-"
		if r.Since != nil {
			since = formatAge(time.Since(*r.Since))
		}
		return []string{
			r.Mesh, r.Kind, r.Extent, fmt.Sprintf("%d/%d", r.Running, r.Ranks), orDash(shorten(strings.Join(hosts, ","), 40)), a.ownerText(r.Owner),
			a.paintStatus(r.Phase), since,
		}
	})
}

// ownerText formats an owner: a program by its label.
func (a *app) ownerText(o owner) string {
	id, err := subjects.ParseActorID(o.ID)
	if o.Kind == ownedByNobody {
		return a.paint(red, o.Kind)
	}
	if o.Kind == ownedByProgram && err == nil {
		return id.Proc.Mesh.String()
	}
	return o.Kind
}
