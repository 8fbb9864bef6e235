package worlds

import (
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// ticket names who waits for an answer.
type ticket uint64

// What the core hears. tick is that time has passed.
type (
	upsert struct {
		from ticket
		Declaration
		mesh subjects.MeshID // the world's, if it is a new one
	}
	join struct {
		from ticket
		Joining
	}
	leave struct {
		from ticket
		Leaving
	}
	beat struct {
		from ticket
		Heartbeat
	}
	// hostSeen: something of the host was heard. hostLost: it is known to be gone, and why.
	hostSeen struct{ host subjects.HostID }
	hostLost struct {
		host subjects.HostID
		why  string
	}
	// reported is what a host says of its share of a mesh; ranks are those of the world.
	reported struct {
		host subjects.HostID
		mesh subjects.MeshID
		gen  int
		now  agent.Overlay
	}
	// inventory is everything that a host has of worlds.
	inventory struct {
		host subjects.HostID
		life string
		has  []held
	}
	// returned: a message to the proc came back.
	returned struct{ proc subjects.ProcID }
	stop     struct {
		from ticket
		Stopping
	}
	// stopped is the answer of a host or a proc to a halt.
	stopped struct {
		world            string
		who              party
		stopped, aborted int
	}
	detach struct {
		from ticket
		Detaching
	}
	adopt struct {
		from ticket
		Adopting
	}
	confirm struct {
		from ticket
		Adopting
	}
	// took is what came of taking a detached mesh over in an epoch. again: it is tried again.
	took struct {
		mesh  subjects.MeshID
		epoch uint64
		err   error
		again bool
	}
	// over: a detached mesh has ended, or another owner has it, by his claim.
	over struct {
		mesh  subjects.MeshID
		epoch uint64
		by    agent.Claim
		why   string
	}
	reserve struct {
		from ticket
		Reserving
	}
	release struct {
		from ticket
		Reserving
	}
	// named is what came of asking the hosts for a name: who has it, as far as they have said what they have.
	named struct {
		name   string
		holder *NameTakenError
		err    error
		early  error // why nobody can take a name yet: an earlier controller may have given it away
	}
	// restored is what an earlier controller has left. follows: it acted until now; else all may have been down, and
	// hosts begin when they do.
	restored struct {
		records  []Record
		follows  bool
		ended    []string      // names of worlds that ended lately
		adopting time.Duration // worlds without a record are adopted
	}
	tick struct{}
)

// held is a host's share of a world's mesh, as the host sees it.
type held struct {
	mesh      subjects.MeshID
	gen       int
	now       agent.Overlay
	described *agent.Mesh // nil: the host did not say
}

// party is who was asked to stop: a host, or a proc that joined of itself.
type party struct {
	host subjects.HostID
	proc subjects.ProcID
}

func (p party) String() string {
	if p.host.IsValid() {
		return "host " + p.host.String()
	}
	return "proc " + p.proc.String()
}

// What the core wants done, in order: what follows a save or a forget of a world waits for it (WORLD-2).
type (
	// answer is for who asked.
	answer struct {
		to    ticket
		value any
		err   error
	}
	save   struct{ record Record }
	forget struct {
		world string
		mesh  subjects.MeshID
	}
	// create has a host start its share of a world, in a generation. It may be asked twice, and only of the life
	// of the host that joined.
	create struct {
		world        string
		host         subjects.HostID
		life         string
		rank         int // of the host
		mesh         subjects.MeshID
		spec         *Spec
		first, count int
		gen          int
	}
	// halt stops a mesh on a host, or a proc that joined of itself, and is answered with stopped. Without a
	// world nobody waits for that.
	halt struct {
		world string
		who   party
		mesh  subjects.MeshID
		grace time.Duration
		why   string
	}
	// look asks a host for its inventory.
	look struct{ host subjects.HostID }
	// told is for everybody: what became of a world.
	told struct {
		world string
		mesh  subjects.MeshID
		step  string
		now   Status
		why   string
	}
	// report is the second answer to a stop.
	report struct {
		to ticket
		StopReport
	}
	// take makes a controller of this proc the owner of a detached mesh, and is answered with took, and with over at
	// its end.
	take struct{ record DetachedRecord }
	// letGo ends the controller of a detached mesh, which goes on, unless it is to stop.
	letGo struct {
		mesh subjects.MeshID
		why  string
		stop bool
	}
	// askName asks the hosts who has a name; it is answered with named.
	askName struct{ name string }
	// quit ends the system controller.
	quit struct{ why string }
)
