package subjects

import (
	"cmp"
	"strconv"
	"strings"
)

// ProcID names one generation of one rank of a mesh: mesh/rank.gen. A respawned rank has the next
// Gen and so a new name: late mail for the old generation reaches no actor. The procs of an OS
// process are consecutive ranks. The first, its lead, gives the process its name; the one Index
// ranks after it is mesh/rank.gen.index.
type ProcID struct {
	Mesh  MeshID
	Rank  uint32
	Gen   uint32
	Index uint32 // at most Rank
}

// ParseProcID parses mesh/rank.gen or mesh/rank.gen.index.
func ParseProcID(s string) (ProcID, error) {
	mesh, rank, found := strings.Cut(s, "/")
	p, ok := parseRank(rank, ".")
	if !found || !ok || !isLabelUID(mesh) {
		return ProcID{}, &Error{What: "proc ID", Input: s,
			Want: "mesh/rank.gen or mesh/rank.gen.index, as trainers-7kd93x0b5m2qa/12.0"}
	}
	p.Mesh = MeshID{mesh}
	return p, nil
}

// Lead is the first proc in the OS process of this one: itself, when it sits
// there alone.
func (p ProcID) Lead() ProcID { return ProcID{Mesh: p.Mesh, Rank: p.Rank - p.Index, Gen: p.Gen} }

// Process is the ID of the proc's OS process. It is invalid if p is.
func (p ProcID) Process() ProcessID {
	if !p.IsValid() {
		return ProcessID{}
	}
	return ProcessID{string(p.Lead().append(make([]byte, 0, len(p.Mesh.s)+2*maxNumber+2), '_', '-'))}
}

// Actor names an actor of this proc.
func (p ProcID) Actor(name string) ActorID { return ActorID{Proc: p, Name: name} }

// String is the ID's text, "" if invalid.
func (p ProcID) String() string {
	if !p.IsValid() {
		return ""
	}
	return string(p.append(make([]byte, 0, len(p.Mesh.s)+3*maxNumber+3), '/', '.'))
}

// IsValid reports whether p names a proc.
func (p ProcID) IsValid() bool { return p.Mesh.IsValid() && p.Index <= p.Rank }

// Compare orders by mesh, rank, generation and index.
func (p ProcID) Compare(o ProcID) int {
	return cmp.Or(p.Mesh.Compare(o.Mesh), cmp.Compare(p.Rank, o.Rank), cmp.Compare(p.Gen, o.Gen),
		cmp.Compare(p.Index, o.Index))
}

// AppendText appends the text of a valid ID.
func (p ProcID) AppendText(b []byte) ([]byte, error) { return appendText(b, "proc ID", p) }

// MarshalText is the text of a valid ID.
func (p ProcID) MarshalText() ([]byte, error) { return p.AppendText(nil) }

// UnmarshalText is ParseProcID.
func (p *ProcID) UnmarshalText(text []byte) error { return unmarshal(p, text, ParseProcID) }

// append appends mesh<afterMesh>rank<sep>gen, and <sep>index if it is not 0.
func (p ProcID) append(b []byte, afterMesh, sep byte) []byte {
	return appendRank(append(append(b, p.Mesh.s...), afterMesh), p.Rank, p.Gen, p.Index, sep)
}

func appendRank(b []byte, rank, gen, index uint32, sep byte) []byte {
	b = append(strconv.AppendUint(b, uint64(rank), 10), sep)
	b = strconv.AppendUint(b, uint64(gen), 10)
	if index > 0 {
		b = strconv.AppendUint(append(b, sep), uint64(index), 10)
	}
	return b
}

// ProcessID is the one-token name of an OS process, clients and hosts included,
// by its first proc: mesh_rank-gen.
type ProcessID struct{ s string }

// ParseProcessID reads mesh_rank-gen.
func ParseProcessID(s string) (ProcessID, error) {
	if _, ok := parseProcess(s); !ok {
		return ProcessID{}, &Error{What: "process ID", Input: s,
			Want: "mesh_rank-gen, as trainers-7kd93x0b5m2qa_12-0"}
	}
	return ProcessID{s}, nil
}

// parseProcess parses from the right: a mesh label may hold "_" and "-", the numbers hold neither.
func parseProcess(s string) (ProcID, bool) {
	at := strings.LastIndexByte(s, '_')
	if at < 0 || !isLabelUID(s[:at]) {
		return ProcID{}, false
	}
	p, ok := parseRank(s[at+1:], "-")
	p.Mesh = MeshID{s[:at]}
	return p, ok && p.Index == 0
}

// Proc is the first proc of the process: the inverse of [ProcID.Process] for a proc with index 0.
func (p ProcessID) Proc() ProcID {
	id, _ := parseProcess(p.s) // only valid text gets into p; the zero p gives the zero ProcID
	return id
}

// String is the ID's text, "" if invalid.
func (p ProcessID) String() string { return p.s }

// IsValid reports whether p names a process: all but the zero value do.
func (p ProcessID) IsValid() bool { return p.s != "" }

// Compare orders as the procs do.
func (p ProcessID) Compare(o ProcessID) int { return p.Proc().Compare(o.Proc()) }

// AppendText appends the text of a valid ID.
func (p ProcessID) AppendText(b []byte) ([]byte, error) { return appendText(b, "process ID", p) }

// MarshalText is the text of a valid ID.
func (p ProcessID) MarshalText() ([]byte, error) { return p.AppendText(nil) }

// UnmarshalText is ParseProcessID.
func (p *ProcessID) UnmarshalText(text []byte) error { return unmarshal(p, text, ParseProcessID) }
