package system

import (
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// caller waits for a reply; nil: no caller does.
type caller interface{ reply(value any, err error) }

// Events of the core. tick reports that time has passed.
type (
	upsert struct {
		from caller
		UpsertRequest
		mesh subjects.MeshID // of the world, if it is new
	}
	join struct {
		from caller
		JoinRequest
	}
	leave struct {
		from caller
		LeaveRequest
	}
	heartbeat struct {
		from caller
		HeartbeatRequest
	}
	// hostSeen is a sign of life of a host. hostLost reports its end.
	hostSeen struct{ host subjects.HostID }
	hostLost struct {
		host subjects.HostID
		why  string
	}
	// shareReport is a host's report of its share of a mesh; ranks are those of the world.
	shareReport struct {
		host subjects.HostID
		mesh subjects.MeshID
		gen  int
		now  agent.Overlay
	}
	// inventory is all shares of worlds on a host.
	inventory struct {
		host        subjects.HostID
		incarnation string
		shares      []heldShare
	}
	// undelivered reports that a message to the proc was returned.
	undelivered struct{ proc subjects.ProcID }
	stop        struct {
		from caller
		StopRequest
	}
	// memberStopped is the reply of a host or a proc to a stopShare.
	memberStopped struct {
		world            string
		who              memberRef
		stopped, aborted int
		killed           []string // procs among the aborted, with their ends
	}
	detach struct {
		from caller
		by   subjects.Sender // zero: in this process
		DetachRequest
	}
	adopt struct {
		from caller
		by   subjects.Sender // as in detach
		AdoptRequest
	}
	confirm struct {
		from caller
		AdoptRequest
	}
	// takeResult is the result of taking over a detached mesh in an epoch.
	takeResult struct {
		mesh     subjects.MeshID
		epoch    uint64
		err      error
		retrying bool
	}
	// detachedEnd reports that a detached mesh has ended, or that another owner claims it.
	detachedEnd struct {
		mesh  subjects.MeshID
		epoch uint64
		by    agent.Claim
		why   string
	}
	// getSnapshot, getHealth and locate only read.
	getSnapshot struct {
		from caller
		Filter
	}
	getHealth struct {
		from  caller
		world string
	}
	locate struct {
		from caller
		what string
	}
	reserve struct {
		from caller
		NameReservation
	}
	release struct {
		from caller
		NameReservation
	}
	// nameChecked is a request after its queryName.
	nameChecked struct {
		request any
		nameCheck
	}
	// restored is the saved state of an earlier controller. directSuccessor: that controller acted
	// until now. Otherwise all controllers and hosts may have been down.
	restored struct {
		records         []Record
		directSuccessor bool
		ended           []string      // names of worlds that ended recently
		adopting        time.Duration // how long worlds without a record are adopted
	}
	// deaf reports that the controller has no connection, or that the server does not answer.
	deaf struct{}
	tick struct{}
)

// heldShare is a host's share of a world's mesh, as the host sees it.
type heldShare struct {
	mesh      subjects.MeshID
	gen       int
	now       agent.Overlay
	described *agent.Mesh // nil: not in the host's reply
}

// isAlive reports whether a rank of the share has not ended.
func (x heldShare) isAlive() bool {
	return slices.ContainsFunc(x.now, func(r agent.Run) bool { return !r.Status.Phase.Terminal() })
}

// memberRef is a member with a stop order: a host, or a self-joined proc.
type memberRef struct {
	host subjects.HostID
	proc subjects.ProcID
}

func (p memberRef) String() string {
	if p.host.IsValid() {
		return "host " + p.host.String()
	}
	return "proc " + p.proc.String()
}

// Effects of the core, in order. Effects after a saveRecord or deleteRecord wait for it (WORLD-2).
type (
	// answer is a reply to a caller.
	answer struct {
		to    caller
		value any
		err   error
	}
	saveRecord   struct{ record Record }
	deleteRecord struct {
		world string
		mesh  subjects.MeshID
	}
	// create orders a host to start its share of a world, in a generation. It may be sent twice,
	// and only to the incarnation of the host that joined.
	create struct {
		world        string
		host         subjects.HostID
		incarnation  string
		rank         int // of the host
		mesh         subjects.MeshID
		spec         *Spec
		first, count int
		gen          int
	}
	// stopShare stops a mesh on a host, or a self-joined proc; the reply is memberStopped. If world
	// is "", no stop waits for the reply.
	stopShare struct {
		world string
		who   memberRef
		mesh  subjects.MeshID
		grace time.Duration
		why   string
	}
	// fetchInventory asks a host for its inventory.
	fetchInventory struct{ host subjects.HostID }
	// worldEvent publishes a change of a world.
	worldEvent struct {
		world string
		mesh  subjects.MeshID
		step  string
		now   Status
		why   string
	}
	// sendReport sends the second reply to a stop.
	sendReport struct {
		to actor.PortRef[StopReport]
		StopReport
	}
	// takeOwnership makes a controller of this proc the owner of a detached mesh. The results are
	// takeResult, and detachedEnd at the end of the mesh.
	takeOwnership struct{ record DetachedRecord }
	// releaseDetached ends the controller of a detached mesh. Without stop the mesh continues.
	releaseDetached struct {
		mesh subjects.MeshID
		why  string
		stop bool
	}
	// queryName asks the hosts for the holder of a name. The request then returns as a nameChecked.
	queryName struct {
		name    string
		request any
	}
	// quit ends the system controller.
	quit struct{ why string }
)
