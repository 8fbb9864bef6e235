package worlds

import (
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// ticket identifies a waiter for a reply.
type ticket uint64

// Events of the core. tick reports that time has passed.
type (
	upsert struct {
		from ticket
		UpsertRequest
		mesh subjects.MeshID // the world's, if it is a new one
	}
	join struct {
		from ticket
		JoinRequest
	}
	leave struct {
		from ticket
		LeaveRequest
	}
	heartbeat struct {
		from ticket
		Heartbeat
	}
	// hostSeen: something of the host was heard. hostLost: it is known to be gone, and why.
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
	// undelivered: a message to the proc came back.
	undelivered struct{ proc subjects.ProcID }
	stop        struct {
		from ticket
		StopRequest
	}
	// memberStopped is the answer of a host or a proc to a halt.
	memberStopped struct {
		world            string
		who              memberRef
		stopped, aborted int
	}
	detach struct {
		from ticket
		DetachRequest
	}
	adopt struct {
		from ticket
		AdoptRequest
	}
	confirm struct {
		from ticket
		AdoptRequest
	}
	// takeResult is the result of taking over a detached mesh in an epoch. again: try again.
	takeResult struct {
		mesh     subjects.MeshID
		epoch    uint64
		err      error
		retrying bool
	}
	// detachedEnd: a detached mesh has ended, or another owner has it, by his claim.
	detachedEnd struct {
		mesh  subjects.MeshID
		epoch uint64
		by    agent.Claim
		why   string
	}
	reserve struct {
		from ticket
		NameReservation
	}
	release struct {
		from ticket
		NameReservation
	}
	// nameResult is the hosts' answer about a name: its holder, as far as the hosts answered.
	nameResult struct {
		name     string
		holder   *NameTakenError
		err      error
		tooEarly error // why nobody can take a name yet: an earlier controller may have given it away
	}
	// restored is the saved state of an earlier controller. follows: that controller acted until
	// now. Otherwise all may have been down, and hosts start in their own time.
	restored struct {
		records         []Record
		directSuccessor bool
		ended           []string      // names of worlds that ended lately
		adopting        time.Duration // worlds without a record are adopted
	}
	tick struct{}
)

// heldShare is a host's share of a world's mesh, as the host sees it.
type heldShare struct {
	mesh      subjects.MeshID
	gen       int
	now       agent.Overlay
	described *agent.Mesh // nil: the host did not say
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

// Effects of the core, in order. Effects after a save or a forget of a world wait for it (WORLD-2).
type (
	// answer is a reply to a caller.
	answer struct {
		to    ticket
		value any
		err   error
	}
	saveRecord   struct{ record Record }
	deleteRecord struct {
		world string
		mesh  subjects.MeshID
	}
	// create makes a host start its share of a world, in a generation. It may be sent twice, and
	// only to the incarnation of the host that joined.
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
	// stopShare stops a mesh on a host, or a self-joined proc; the reply is memberStopped. Without
	// a world no stop waits for it.
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
	// sendReport is the second answer to a stop.
	sendReport struct {
		to ticket
		StopReport
	}
	// takeOwnership makes a controller of this proc the owner of a detached mesh, and is answered with took, and with over at
	// its end.
	takeOwnership struct{ record DetachedRecord }
	// releaseDetached ends the controller of a detached mesh. The mesh goes on unless it is to
	// stop.
	releaseDetached struct {
		mesh subjects.MeshID
		why  string
		stop bool
	}
	// queryName asks the hosts for the holder of a name; the result is a nameResult.
	queryName struct{ name string }
	// quit ends the system controller.
	quit struct{ why string }
)
