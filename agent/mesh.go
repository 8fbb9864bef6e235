package agent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Builtin as a Command's Path stands for the host's own binary with its built-in actors.
const Builtin = "builtin"

// What a proc of a world finds in its environment.
const (
	EnvWorld     = "CASTNET_WORLD"      // its name
	EnvProc      = "CASTNET_PROC_ID"    // the proc's ID
	EnvRank      = "CASTNET_RANK"       // in the world
	EnvLocalRank = "CASTNET_LOCAL_RANK" // among the procs of the world on its host
	EnvWorldSize = "CASTNET_WORLD_SIZE" // procs
)

// Command is the program a proc runs. The zero Command is the caller's own executable, which must
// exist on the host under the same path.
type Command struct {
	Path string   `cbor:"1,keyasint,omitempty" json:"path,omitempty"` // absolute, or Builtin
	Args []string `cbor:"2,keyasint,omitempty" json:"args,omitempty"`
	Env  []string `cbor:"3,keyasint,omitempty" json:"env,omitempty"` // KEY=value, added to the host's allow-listed ones
	Dir  string   `cbor:"4,keyasint,omitempty" json:"dir,omitempty"`
}

// Mesh describes a proc mesh: enough for any process to address, cast to and place every rank.
type Mesh struct {
	ID      subjects.MeshID   `cbor:"1,keyasint" json:"id"`
	Extent  shape.Extent      `cbor:"2,keyasint" json:"extent"` // host dimensions, then those per host
	Hosts   []subjects.HostID `cbor:"3,keyasint" json:"hosts"`  // in rank order
	PerHost int               `cbor:"4,keyasint" json:"per_host"`
	Owner   subjects.ActorID  `cbor:"5,keyasint" json:"owner"` // the controller
	Command Command           `cbor:"6,keyasint" json:"command"`
	Build   string            `cbor:"7,keyasint,omitempty" json:"build,omitempty"` // the caller's; "" = any
	Limits  Limits            `cbor:"8,keyasint,omitzero" json:"limits,omitzero"`

	// PerProcess procs in a row share an OS process, on hosts that run procs in their own; 0 and 1: none do.
	PerProcess int `cbor:"9,keyasint,omitempty" json:"per_process,omitempty"`
	// Keep lets procs outlive a host that dies without stopping them, for the next one on that machine
	// to adopt; else they end with it.
	Keep bool `cbor:"10,keyasint,omitempty" json:"keep,omitempty"`
	// World is for the mesh of a world, whose hosts come one by one: Hosts then is one of them, and this its share.
	// Who has heard of all shares describes the whole: Hosts by host rank, zero where no host has the rank, the last
	// of which may have fewer than PerHost ranks.
	World *Share `cbor:"11,keyasint,omitempty" json:"world,omitempty"`
	// Taken says that the label was free when the mesh was spawned, and that no world and no other mesh takes it.
	Taken bool `cbor:"12,keyasint,omitempty" json:"taken,omitempty"`
}

// Share is the ranks of a world that a host has: Count from First on.
type Share struct {
	World string `cbor:"1,keyasint" json:"world"` // its name
	First int    `cbor:"2,keyasint" json:"first"`
	Count int    `cbor:"3,keyasint" json:"count"`
}

// Limits bound what each proc of a mesh may take, where the host's kernel can hold it to that; the
// state of a proc says where not. 0 is no limit.
type Limits struct {
	Memory int64   `cbor:"1,keyasint,omitempty" json:"memory,omitempty"` // bytes
	Pids   int     `cbor:"2,keyasint,omitempty" json:"pids,omitempty"`   // processes and threads
	CPU    float64 `cbor:"3,keyasint,omitempty" json:"cpu,omitempty"`    // cores
	Files  int     `cbor:"4,keyasint,omitempty" json:"files,omitempty"`  // open files
	Bind   int     `cbor:"5,keyasint,omitempty" json:"bind,omitempty"`   // CPUs of its own, which it is bound to
}

// Check refuses limits that no proc could live with, or that mean nothing.
func (l Limits) Check() error {
	switch {
	case l.Memory < 0 || l.Memory > 0 && l.Memory < 8<<20:
		return fmt.Errorf("memory limit of %d bytes: want at least 8 MiB, or 0 for none", l.Memory)
	case l.Pids < 0 || l.Pids > 0 && l.Pids < 16:
		return fmt.Errorf("limit of %d pids: want at least 16 (threads count), or 0 for none", l.Pids)
	case !(l.CPU >= 0) || l.CPU > 0 && l.CPU < 0.01 || l.CPU > 1024:
		return fmt.Errorf("CPU limit of %g cores: want 0.01 to 1024, or 0 for none", l.CPU)
	case l.Files < 0 || l.Files > 0 && l.Files < 32:
		return fmt.Errorf("limit of %d open files: want at least 32, or 0 for none", l.Files)
	case l.Bind < 0:
		return fmt.Errorf("binding to %d CPUs: want 0 or more", l.Bind)
	}
	return nil
}

// MaxPerHost is how many procs of one mesh a host runs at most.
const MaxPerHost = 4096

// Check refuses a description whose parts do not fit together.
func (m Mesh) Check() error {
	hosts, n := len(m.Hosts), m.Extent.NumRanks()
	switch {
	case !m.ID.IsValid():
		return errors.New("the mesh has no ID")
	case hosts == 0:
		return fmt.Errorf("mesh %s has no hosts", m.ID)
	case m.PerHost > MaxPerHost:
		return fmt.Errorf("mesh %s: %d procs on each host: want at most %d", m.ID, m.PerHost, MaxPerHost)
	case m.World != nil && !m.isShare() && !m.IsWhole():
		return fmt.Errorf("mesh %s: %d hosts have %d ranks from %d on of the %d of world %s: want one host and at most %d ranks, in processes of their own",
			m.ID, hosts, m.World.Count, m.World.First, n, m.World.World, m.PerHost)
	case m.World == nil && (m.PerHost < 1 || m.PerHost > n || m.PerHost*hosts != n):
		return fmt.Errorf("mesh %s: %d hosts × %d procs are not the %d ranks of %q", m.ID, hosts, m.PerHost, n, m.Extent)
	case m.PerProcess < 0 || m.PerProcess > m.PerHost || m.PerHost%max(m.PerProcess, 1) != 0:
		return fmt.Errorf("mesh %s: %d procs in a process do not divide the %d on a host", m.ID, m.PerProcess, m.PerHost)
	}
	if err := m.Limits.Check(); err != nil {
		return fmt.Errorf("mesh %s: %w", m.ID, err)
	}
	return nil
}

// isShare reports whether the mesh of a world is described as one of its hosts is told of it.
func (m Mesh) isShare() bool {
	w := m.World
	return len(m.Hosts) == 1 && m.PerProcess <= 1 && w.First >= 0 && w.Count >= 1 && w.Count <= m.PerHost && w.First <= m.Extent.NumRanks()-w.Count
}

// IsWhole reports whether the mesh of a world is described with all its ranks.
func (m Mesh) IsWhole() bool {
	w, n := m.World, m.Extent.NumRanks()
	return w != nil && m.PerProcess <= 1 && m.PerHost >= 1 && w.First == 0 && w.Count == n && len(m.Hosts) == (n+m.PerHost-1)/m.PerHost
}

// CheckPart refuses a region that leaves the mesh, or that has some of the procs that share a process and not the
// others: those end together.
func (m Mesh) CheckPart(r shape.Region) error {
	if err := r.SubsetOf(m.Extent.Region()); err != nil || m.PerProcess < 2 {
		return err
	}
	in := map[int]int{} // by process, how many of its ranks
	for _, base := range r.Ranks() {
		in[base/m.PerProcess]++
	}
	for _, base := range r.Ranks() {
		if n := in[base/m.PerProcess]; n < m.PerProcess {
			return &SharedProcessError{Mesh: m.ID, Region: r, First: base - base%m.PerProcess, PerProcess: m.PerProcess}
		}
	}
	return nil
}

// SharedProcessError says that a region has some of the procs that share a process, and not the others.
type SharedProcessError struct {
	Mesh              subjects.MeshID
	Region            shape.Region
	First, PerProcess int // the ranks of a process that is parted: so many from First on
}

func (e *SharedProcessError) Error() string {
	return fmt.Sprintf("mesh %s: ranks %d to %d share a process and end together: region %s has some of them: want all, or none",
		e.Mesh, e.First, e.First+e.PerProcess-1, e.Region)
}

// Fingerprint identifies the mesh as one of its hosts has it: not by its owner, which another may follow, nor by the
// other hosts, whose places spare ones may take.
func (m Mesh) Fingerprint(host subjects.HostID) (string, error) {
	if !m.Owner.IsValid() {
		return "", errors.New("incomplete spec: the mesh has no owner")
	}
	m.Owner = host.Proc().Actor(Name)
	m.Hosts = slices.Repeat([]subjects.HostID{host}, slices.Index(m.Hosts, host)+1)
	return Fingerprint(m)
}

// Proc is the address of a rank in a generation.
func (m Mesh) Proc(rank, gen int) subjects.ProcID {
	return subjects.ProcID{Mesh: m.ID, Rank: uint32(rank), Gen: uint32(gen), Seat: uint32(rank % max(m.PerProcess, 1))}
}
