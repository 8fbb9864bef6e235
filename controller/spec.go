package controller

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// minLease is the shortest lease. A renewal may take a third of it.
const minLease = time.Second

// Spec describes the mesh of a controller: a proc mesh, or an actor mesh on (a region of) one. It
// is a value of the caller's process and never travels.
type Spec struct {
	Procs         agent.Mesh       // the proc mesh; of Hosts, one rank on each
	Hosts         bool             // a mesh of hosts (HoldAllocation), with Procs, Region, Name and Presence only
	Actors        *agent.ActorSpec // set: an actor mesh on Region of Procs
	Region        shape.Region     // of Procs; the whole of it for a proc mesh
	Lease         time.Duration    // of the ranks; 0: supervision.lease-ttl, less: none
	RestartPolicy RestartPolicy    // reaction to failed ranks
	Name          string           // of the mesh, in events and reports; may be empty

	Epoch    uint64 // the number of owners that the mesh has had, with this one; 0: 1
	TakeOver bool   // take over the running mesh: see TakeOver
	Detached bool   // the system controller owns it: it keeps its hosts

	// KeepOnStop reports, when the controller stops, whether its mesh continues for another owner.
	// nil: the mesh ends.
	KeepOnStop func() bool

	// OnRankFailed gets a rank that failed for good after the mesh came up, and the actor that made
	// the mesh (the zero ID: no actor). It runs on the controller's turn and reports whether the
	// program handles the failure. If not, the controller fails. nil: the program handles all.
	OnRankFailed func(owner subjects.ActorID, e actor.Event) (handled bool)

	// OnOver runs once, on the controller's turn, some time after the mesh is over. nil: nothing does.
	OnOver func()

	Presence *presence.Watcher // reports the health of hosts; nil: the mesh ignores silent hosts
	Renewer  *LeaseRenewer     // renews the leases of all proc meshes together; nil: the controller renews
}

// id is the mesh's name as a resource.
func (s Spec) id() string {
	if s.Actors != nil {
		return s.Actors.Name
	}
	return s.Procs.ID.String()
}

// actors is the name of the actors; "" for a proc mesh.
func (s Spec) actors() string {
	if s.Actors == nil {
		return ""
	}
	return s.Actors.Name
}

// kind is the kind of events the mesh's ranks emit.
func (s Spec) kind() string {
	if s.Actors != nil {
		return actor.KindActor
	}
	return actor.KindProc
}

// check refuses an invalid Spec before anything starts.
func (s Spec) check() error {
	if err := s.Procs.Check(); err != nil {
		return err
	}
	switch {
	case s.Region.NumRanks() == 0:
		return fmt.Errorf("mesh %s: the region has no ranks", s.id())
	case !s.regionFits():
		return fmt.Errorf("mesh %s: region %s is outside extent %s", s.id(), s.Region, s.Procs.Extent)
	case s.Hosts && !s.isHostMesh():
		return fmt.Errorf("mesh %s: a host mesh wants one rank on every host and no actors", s.id())
	case s.TakeOver && s.Epoch < 2:
		return fmt.Errorf("mesh %s: takeover in epoch %d: want an epoch later than its owner's", s.id(), s.Epoch)
	case s.Lease > 0 && s.Lease < minLease:
		return fmt.Errorf("mesh %s: lease %s: want at least %s, 0 for the default, or less than 0 for none",
			s.id(), s.Lease, minLease)
	}
	if err := s.RestartPolicy.check(s); err != nil {
		return fmt.Errorf("mesh %s: %w", s.id(), err)
	}
	return nil
}

// isHostMesh reports whether the Spec describes one rank on every host.
func (s Spec) isHostMesh() bool {
	return s.Procs.PerHost == 1 && s.Actors == nil && s.Region.NumRanks() == s.Procs.Extent.NumRanks()
}

// regionFits reports whether the region's highest rank is one of the mesh.
func (s Spec) regionFits() bool {
	last, err := s.Region.BaseRank(s.Region.NumRanks() - 1)
	return err == nil && last < s.Procs.Extent.NumRanks()
}

// procAgents is the mesh of proc agents under an actor mesh.
type procAgents struct{ target cast.Target }

func (a procAgents) Target() (cast.Target, error) { return a.target, nil }

func (a procAgents) Ref(rank int) actor.Ref[agent.Agent] {
	base, err := a.target.Region.BaseRank(rank)
	if err != nil {
		return actor.ErrRef[agent.Agent](err)
	}
	p := a.target.Via
	return agent.Of(p.Members().LatestGeneration(a.target.Placement.Proc(base))).Via(p)
}

// Placement returns the placement of a proc mesh for casts.
func Placement(m agent.Mesh) cast.Placement {
	return cast.Placement{Mesh: m.ID, Extent: m.Extent, PerHost: m.PerHost, PerProcess: m.PerProcess}
}
