package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Builtin as the Path of a Command stands for the host's own binary with its built-in actors.
const Builtin = "builtin"

// Environment variables of a proc.
const (
	EnvProc      = "CASTNET_PROC_ID"    // the proc's ID
	EnvRank      = "CASTNET_RANK"       // rank in the mesh
	EnvPoint     = "CASTNET_POINT"      // point in the mesh, such as host=0/2,gpu=1/4
	EnvLocalRank = "CASTNET_LOCAL_RANK" // rank among the procs of the mesh on its host
	EnvWorldSize = "CASTNET_WORLD_SIZE" // number of procs of the mesh
	EnvWorld     = "CASTNET_WORLD"      // name of the world; unset in other meshes
)

// Command is the program of a proc. The zero Command is the caller's executable, expected under the
// same path on the host.
type Command struct {
	Path string   `cbor:"1,keyasint,omitempty" json:"path,omitempty"` // absolute, or Builtin
	Args []string `cbor:"2,keyasint,omitempty" json:"args,omitempty"`
	// KEY=value, added to the host's permitted variables
	Env  []string `cbor:"3,keyasint,omitempty" json:"env,omitempty"`
	Dir  string   `cbor:"4,keyasint,omitempty" json:"dir,omitempty"`
	Arg0 string   `cbor:"5,keyasint,omitempty" json:"arg0,omitempty"` // name of the program; "" = Path
}

// With returns the command with the set fields of o. Another Path has its own arguments. Env adds
// up.
func (c Command) With(o Command) Command {
	if o.Path != "" {
		c.Path = o.Path
		c.Args = nil
		c.Arg0 = ""
	}
	if len(o.Args) > 0 {
		c.Args = o.Args
	}
	c.Arg0 = cmp.Or(o.Arg0, c.Arg0)
	c.Dir = cmp.Or(o.Dir, c.Dir)
	c.Env = slices.Concat(c.Env, o.Env)
	return c
}

// RankSpec is what one rank has of its own.
type RankSpec struct {
	Command Command `cbor:"1,keyasint,omitzero" json:"command,omitzero"` // joins the mesh's, see Command.With
	// The proc runs on these CPUs, and on those of these NUMA nodes, only. Linux only.
	CPUs      []int `cbor:"2,keyasint,omitempty" json:"cpus,omitempty"`
	NUMANodes []int `cbor:"3,keyasint,omitempty" json:"numa_nodes,omitempty"`
}

// Mesh describes a proc mesh. It suffices to address, cast to and place every rank.
type Mesh struct {
	ID      subjects.MeshID   `cbor:"1,keyasint" json:"id"`
	Extent  shape.Extent      `cbor:"2,keyasint" json:"extent"` // host dimensions, then dimensions per host
	Hosts   []subjects.HostID `cbor:"3,keyasint" json:"hosts"`  // in rank order
	PerHost int               `cbor:"4,keyasint" json:"per_host"`
	Owner   subjects.ActorID  `cbor:"5,keyasint" json:"owner"` // the controller
	Command Command           `cbor:"6,keyasint" json:"command"`
	Build   string            `cbor:"7,keyasint,omitempty" json:"build,omitempty"` // the caller's; "" = any
	Limits  Limits            `cbor:"8,keyasint,omitzero" json:"limits,omitzero"`

	// PerProcess consecutive procs share an OS process, on hosts that run procs in processes. 0 and
	// 1 mean no sharing.
	PerProcess int `cbor:"9,keyasint,omitempty" json:"per_process,omitempty"`
	// Keep lets procs outlive a crashed host until the next host on the machine adopts them.
	// Without it they end with their host.
	Keep bool `cbor:"10,keyasint,omitempty" json:"keep,omitempty"`
	// World is set for the mesh of a world, whose hosts join one by one. A description for one host
	// has that host in Hosts and its share here. A whole description has Hosts by host rank: zero
	// for a free rank; the last host may have fewer than PerHost ranks.
	World *WorldShare `cbor:"11,keyasint,omitempty" json:"world,omitempty"`
	// NameTaken reports a reserved label: no world and no other mesh has it.
	NameTaken bool `cbor:"12,keyasint,omitempty" json:"name_taken,omitempty"`
	// Restarts reports that the owner restarts failed procs. Their actors restart only with a
	// policy of their own.
	Restarts bool `cbor:"13,keyasint,omitempty" json:"restarts,omitempty"`
	// Ranks has one entry for each rank of the mesh, or one for each proc of a host, or none.
	Ranks []RankSpec `cbor:"14,keyasint,omitempty" json:"ranks,omitempty"`

	// Revision counts the changes of Hosts by Grow and Shrink. The latest description holds.
	Revision int `cbor:"15,keyasint,omitempty" json:"revision,omitempty"`
	// FirstGen is the generation in which added ranks start. Removed ranks had earlier ones.
	FirstGen int `cbor:"16,keyasint,omitempty" json:"first_gen,omitempty"`
}

// Public returns the description without the arguments and environments of its programs, which may
// hold secrets.
func (m *Mesh) Public() *Mesh {
	if m == nil {
		return nil
	}
	public := *m
	public.Command = m.Command.public()
	public.Ranks = slices.Clone(m.Ranks)
	for i := range public.Ranks {
		public.Ranks[i].Command = m.Ranks[i].Command.public()
	}
	return &public
}

// NoteIn records the owner and the hosts of the mesh, for the events about its procs.
func (m *Mesh) NoteIn(members *actor.Members) {
	members.NoteOwner(m.ID, m.Owner.Proc.Process())
	if m.World == nil { // else the description may have one host
		members.NoteHosts(m.ID, m.Revision, m.Hosts, m.PerHost)
	}
}

func (c Command) public() Command { return Command{Path: c.Path, Dir: c.Dir} }

// WorldShare is the part of a world on one host: Count ranks from First.
type WorldShare struct {
	World string `cbor:"1,keyasint" json:"world"` // its name
	First int    `cbor:"2,keyasint" json:"first"`
	Count int    `cbor:"3,keyasint" json:"count"`
}

// Limits bound the resources of each proc, as far as the host's kernel can enforce them. ProcInfo
// lists unenforced limits. 0 is no limit.
type Limits struct {
	Memory     int64   `cbor:"1,keyasint,omitempty" json:"memory,omitempty"`      // bytes
	Pids       int     `cbor:"2,keyasint,omitempty" json:"pids,omitempty"`        // processes and threads
	CPU        float64 `cbor:"3,keyasint,omitempty" json:"cpu,omitempty"`         // cores
	Files      int     `cbor:"4,keyasint,omitempty" json:"files,omitempty"`       // open files
	PinnedCPUs int     `cbor:"5,keyasint,omitempty" json:"pinned_cpus,omitempty"` // exclusive CPUs to pin it to
}

// Check refuses limits that no proc can meet, and meaningless ones.
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
	case l.PinnedCPUs < 0:
		return fmt.Errorf("binding to %d CPUs: want 0 or more", l.PinnedCPUs)
	}
	return nil
}

// MaxPerHost bounds the procs of one mesh on a host.
const MaxPerHost = 4096

// Check refuses an inconsistent description.
func (m Mesh) Check() error {
	hosts, n := len(m.Hosts), m.Extent.NumRanks()
	switch {
	case !m.ID.IsValid():
		return errors.New("the mesh has no ID")
	case hosts == 0:
		return fmt.Errorf("mesh %s has no hosts", m.ID)
	case m.PerHost > MaxPerHost:
		return fmt.Errorf("mesh %s: %d procs on each host: want at most %d", m.ID, m.PerHost, MaxPerHost)
	case m.World != nil && !m.isWorldShare() && !m.IsWhole():
		return fmt.Errorf("mesh %s: %d hosts with %d ranks from %d of the %d of world %s: want one host and at "+
			"most %d ranks, each in its own process",
			m.ID, hosts, m.World.Count, m.World.First, n, m.World.World, m.PerHost)
	case m.World == nil && (m.PerHost < 1 || m.PerHost > n || m.PerHost*hosts != n):
		return fmt.Errorf("mesh %s: %d hosts × %d procs are not the %d ranks of %q", m.ID, hosts, m.PerHost, n,
			m.Extent)
	case m.PerProcess < 0 || m.PerProcess > m.PerHost || m.PerHost%max(m.PerProcess, 1) != 0:
		return fmt.Errorf("mesh %s: %d procs in a process do not divide the %d on a host", m.ID, m.PerProcess,
			m.PerHost)
	case len(m.Ranks) > 0 && (m.World != nil || len(m.Ranks) != n && len(m.Ranks) != m.PerHost):
		return fmt.Errorf("mesh %s: %d specs of ranks: want %d, %d, or none; a world has none", m.ID,
			len(m.Ranks), m.PerHost, n)
	}
	if err := m.Limits.Check(); err != nil {
		return fmt.Errorf("mesh %s: %w", m.ID, err)
	}
	return nil
}

// isWorldShare reports whether the mesh describes one host's share of a world.
func (m Mesh) isWorldShare() bool {
	w := m.World
	return len(m.Hosts) == 1 && m.PerProcess <= 1 && w.First >= 0 && w.Count >= 1 && w.Count <= m.PerHost &&
		w.First <= m.Extent.NumRanks()-w.Count
}

// IsWhole reports whether the mesh describes all ranks of its world.
func (m Mesh) IsWhole() bool {
	w, n := m.World, m.Extent.NumRanks()
	return w != nil && m.PerProcess <= 1 && m.PerHost >= 1 && w.First == 0 && w.Count == n &&
		len(m.Hosts) == (n+m.PerHost-1)/m.PerHost
}

// CheckRegion refuses a region outside the mesh. It also refuses a part of the procs that share a
// process, because those end together.
func (m Mesh) CheckRegion(r shape.Region) error {
	if err := r.SubsetOf(m.Extent.Region()); err != nil || m.PerProcess < 2 {
		return err
	}
	in := map[int]int{} // number of selected ranks by process
	for _, base := range r.Ranks() {
		in[base/m.PerProcess]++
	}
	for _, base := range r.Ranks() {
		if n := in[base/m.PerProcess]; n < m.PerProcess {
			return &SharedProcessError{
				Mesh: m.ID, Region: r, First: base - base%m.PerProcess, PerProcess: m.PerProcess,
			}
		}
	}
	return nil
}

// SharedProcessError reports a region that covers only a part of the procs in one process.
type SharedProcessError struct {
	Mesh              subjects.MeshID
	Region            shape.Region
	First, PerProcess int // ranks of the split process: PerProcess from First
}

func (e *SharedProcessError) Error() string {
	return fmt.Sprintf("mesh %s: ranks %d to %d share a process and end together: region %s has some of "+
		"them: want all or none",
		e.Mesh, e.First, e.First+e.PerProcess-1, e.Region)
}

// Resize returns the next revision of the mesh, with other hosts along its first dimension. Every
// rank keeps its number and its point.
func (m Mesh) Resize(hosts []subjects.HostID) (Mesh, error) {
	switch {
	case m.World != nil:
		return m, fmt.Errorf("mesh %s has the shape of world %s", m.ID, m.World.World)
	case len(m.Ranks) > m.PerHost:
		return m, fmt.Errorf("mesh %s has a program or CPUs for each rank: want them for each proc of a host", m.ID)
	case !m.isElastic():
		return m, fmt.Errorf("mesh %s has extent %q: want its %d hosts in the first dimension", m.ID, m.Extent,
			len(m.Hosts))
	}
	m.Extent = withFirst(m.Extent, len(hosts))
	m.Hosts = slices.Clone(hosts)
	m.Revision++
	return m, cmp.Or(m.Extent.Err(), m.Check())
}

// isElastic reports whether the first dimension alone counts the hosts.
func (m Mesh) isElastic() bool {
	dims := m.Extent.Dims()
	return m.World == nil && len(dims) > 0 && dims[0].Size == len(m.Hosts)
}

// withFirst returns an extent with another size of its first dimension.
func withFirst(e shape.Extent, size int) (out shape.Extent) {
	for i, d := range e.Dims() {
		if i == 0 {
			d.Size = size
		}
		out = out.With(d.Label, d.Size)
	}
	return out
}

// Fingerprint identifies the mesh at one of its hosts. The owner and the other hosts are left out,
// because takeovers, spares, Grow and Shrink change them.
func (m Mesh) Fingerprint(host subjects.HostID) (string, error) {
	if !m.Owner.IsValid() {
		return "", errors.New("incomplete spec: the mesh has no owner")
	}
	at := slices.Index(m.Hosts, host) + 1
	if m.isElastic() && at > 0 {
		m.Extent = withFirst(m.Extent, at)
	}
	m.Owner = host.Proc().Actor(Name)
	m.Hosts = slices.Repeat([]subjects.HostID{host}, at)
	m.Revision = 0
	m.FirstGen = 0
	return Fingerprint(m)
}

// RankSpec returns what a rank has of its own.
func (m Mesh) RankSpec(rank int) RankSpec {
	if len(m.Ranks) == 0 {
		return RankSpec{}
	}
	return m.Ranks[rank%len(m.Ranks)]
}

// ProcID returns the address of a rank in a generation.
func (m Mesh) ProcID(rank, gen int) subjects.ProcID {
	return subjects.ProcID{
		Mesh: m.ID, Rank: uint32(rank), Gen: uint32(gen), Index: uint32(rank % max(m.PerProcess, 1)),
	}
}
