package subjects

import (
	"cmp"
	"strconv"
	"strings"
)

// ProcID names one incarnation of one rank of a mesh: mesh/rank.gen. A respawned
// rank is the next Gen: a new name, so late mail for the old life reaches nobody.
type ProcID struct {
	Mesh MeshID
	Rank uint32
	Gen  uint32
}

// ParseProcID reads mesh/rank.gen.
func ParseProcID(s string) (ProcID, error) {
	mesh, pair, found := strings.Cut(s, "/")
	rank, gen, ok := parsePair(pair, ".")
	if !found || !ok || !isUnique(mesh) {
		return ProcID{}, &Error{What: "proc ID", Input: s, Want: "mesh/rank.gen, as trainers-7kd93x0b5m2qa/12.0"}
	}
	return ProcID{Mesh: MeshID{mesh}, Rank: rank, Gen: gen}, nil
}

// Process is the one-token form, for a proc that is its own OS process. It is
// invalid if p is.
func (p ProcID) Process() ProcessID {
	if !p.IsValid() {
		return ProcessID{}
	}
	return ProcessID{string(p.append(make([]byte, 0, len(p.Mesh.s)+2*maxNumber+2), '_', '-'))}
}

// Actor names an actor of this proc.
func (p ProcID) Actor(name string) ActorID { return ActorID{Proc: p, Name: name} }

// String is the ID's text, "" if invalid.
func (p ProcID) String() string {
	if !p.IsValid() {
		return ""
	}
	return string(p.append(make([]byte, 0, len(p.Mesh.s)+2*maxNumber+2), '/', '.'))
}

// IsValid reports whether p names a proc.
func (p ProcID) IsValid() bool { return p.Mesh.IsValid() }

// Compare orders by mesh, rank and generation.
func (p ProcID) Compare(o ProcID) int {
	return cmp.Or(p.Mesh.Compare(o.Mesh), cmp.Compare(p.Rank, o.Rank), cmp.Compare(p.Gen, o.Gen))
}

// AppendText appends the text of a valid ID.
func (p ProcID) AppendText(b []byte) ([]byte, error) { return appendText(b, "proc ID", p) }

// MarshalText is the text of a valid ID.
func (p ProcID) MarshalText() ([]byte, error) { return p.AppendText(nil) }

// UnmarshalText is ParseProcID.
func (p *ProcID) UnmarshalText(text []byte) error { return unmarshal(p, text, ParseProcID) }

// append writes mesh<afterMesh>rank<afterRank>gen.
func (p ProcID) append(b []byte, afterMesh, afterRank byte) []byte {
	b = append(append(b, p.Mesh.s...), afterMesh)
	b = append(strconv.AppendUint(b, uint64(p.Rank), 10), afterRank)
	return strconv.AppendUint(b, uint64(p.Gen), 10)
}

// ProcessID is the one-token name of a proc that is its own OS process, clients
// and hosts included: mesh_rank-gen.
type ProcessID struct{ s string }

// ParseProcessID reads mesh_rank-gen.
func ParseProcessID(s string) (ProcessID, error) {
	if _, ok := parseProcess(s); !ok {
		return ProcessID{}, &Error{What: "process ID", Input: s, Want: "mesh_rank-gen, as trainers-7kd93x0b5m2qa_12-0"}
	}
	return ProcessID{s}, nil
}

// parseProcess reads from the right: a mesh label may hold "_" and "-", the
// numbers hold neither.
func parseProcess(s string) (ProcID, bool) {
	at := strings.LastIndexByte(s, '_')
	if at < 0 || !isUnique(s[:at]) {
		return ProcID{}, false
	}
	rank, gen, ok := parsePair(s[at+1:], "-")
	return ProcID{Mesh: MeshID{s[:at]}, Rank: rank, Gen: gen}, ok
}

// Proc is the proc this process is: the inverse of [ProcID.Process].
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
