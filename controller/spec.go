package controller

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// minLease is the shortest one: a third of it is how long a renewal may take.
const minLease = time.Second

// Spec describes the mesh of a controller: a proc mesh, or an actor mesh on (a region of) one. It
// is a value of the caller's process and never travels.
type Spec struct {
	Procs      agent.Mesh       // the proc mesh; of Hosts, one rank on each
	Hosts      bool             // a mesh of hosts, which are given to its controller (Hold); of the rest it has Region, Name and Presence
	Actors     *agent.ActorSpec // set: an actor mesh on Region of it
	Region     shape.Region     // of Procs; the whole of it for a proc mesh
	Lease      time.Duration    // of the ranks; 0: supervision.lease-ttl, less: none
	Policy     Policy           // what becomes of ranks that fail
	Name       string           // what reports call the mesh; "": its label
	Epoch      uint64           // how many owners the mesh has had, with this one; 0: 1
	TakeOver   bool             // the mesh is there, and is taken over: see TakeOver
	KeepOnStop func() bool      // asked when the controller stops: its mesh goes on, for another owner follows; nil: it ends

	// OnRankFailed gets a rank that failed for good after the mesh came up, and the actor that made
	// the mesh (the zero ID: no actor). It runs on the controller's turn and reports whether the
	// program handles the failure. If not, the controller fails. nil: the program handles all.
	OnRankFailed func(owner subjects.ActorID, e actor.Event) (handled bool)

	Presence *presence.Watcher // knows how hosts are; nil: their silence means nothing
	Renewer  *LeaseRenewer     // renews the leases of a mesh of procs, together with those of others; nil: the controller does
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
		return fmt.Errorf("mesh %s: region %s leaves the extent %s", s.id(), s.Region, s.Procs.Extent)
	case s.Hosts && (s.Procs.PerHost != 1 || s.Actors != nil || s.Region.NumRanks() != s.Procs.Extent.NumRanks()):
		return fmt.Errorf("mesh %s: want one rank on each of its hosts, all of them and no actors", s.id())
	case s.TakeOver && s.Epoch < 2:
		return fmt.Errorf("mesh %s: taken over in epoch %d: want a later one than its owner has", s.id(), s.Epoch)
	case s.Lease > 0 && s.Lease < minLease:
		return fmt.Errorf("mesh %s: lease %s, want at least %s, 0 for the default, or less than 0 for none", s.id(), s.Lease, minLease)
	}
	if err := s.Policy.check(s); err != nil {
		return fmt.Errorf("mesh %s: %w", s.id(), err)
	}
	return nil
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
	return agent.Of(a.target.Via.LatestGeneration(a.target.Placement.Proc(base))).Via(a.target.Via)
}

// Placement returns the placement of a proc mesh for casts.
func Placement(m agent.Mesh) cast.Placement {
	return cast.Placement{Mesh: m.ID, Extent: m.Extent, PerHost: m.PerHost, PerProcess: m.PerProcess}
}
