package subjects

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// ActorID names an actor: proc/name. The name is a label for a system singleton
// ("agent"), label-uid for everything else ([NewName]): an actor restarted in
// place gets a new uid.
type ActorID struct {
	Proc ProcID
	Name string
}

// ParseActorID reads proc/name.
func ParseActorID(s string) (ActorID, error) {
	at := strings.LastIndexByte(s, '/')
	if at < 0 {
		return ActorID{}, &Error{What: "actor ID", Input: s,
			Want: "mesh/rank.gen/name, as trainers-7kd93x0b5m2qa/12.0/agent"}
	}
	proc, err := ParseProcID(s[:at])
	if err != nil {
		return ActorID{}, err
	}
	if err := CheckName("actor name", s[at+1:]); err != nil {
		return ActorID{}, err
	}
	return ActorID{Proc: proc, Name: s[at+1:]}, nil
}

// indexSep separates a proc's index from a name.
const indexSep = '!'

// LocalName is the actor's name within its OS process. If its proc is not the first there, the
// proc's index comes in front.
func (a ActorID) LocalName() string {
	if a.Proc.Index == 0 {
		return a.Name
	}
	return string(append(append(strconv.AppendUint(nil, uint64(a.Proc.Index), 10), indexSep), a.Name...))
}

// ActorByLocalName returns the actor of a local name: the inverse of [ActorID.LocalName]. It is
// invalid if the name has an impossible index.
func (p ProcessID) ActorByLocalName(name string) ActorID {
	id := p.Proc()
	at := strings.IndexByte(name, indexSep)
	if at < 0 {
		return id.Actor(name)
	}
	index, ok := parseNumber(name[:at])
	if !ok || index == 0 || index > math.MaxUint32-id.Rank {
		return ActorID{}
	}
	id.Rank += index
	id.Index = index
	return id.Actor(name[at+1:])
}

// Port names a port of this actor.
func (a ActorID) Port(port string) PortID { return PortID{Actor: a, Port: port} }

// String is the ID's text, "" if invalid.
func (a ActorID) String() string {
	if !a.IsValid() {
		return ""
	}
	return a.Proc.String() + "/" + a.Name
}

// IsValid reports whether a names an actor.
func (a ActorID) IsValid() bool { return a.Proc.IsValid() && isName(a.Name) }

// Compare orders by proc, then name.
func (a ActorID) Compare(o ActorID) int {
	return cmp.Or(a.Proc.Compare(o.Proc), strings.Compare(a.Name, o.Name))
}

// AppendText appends the text of a valid ID.
func (a ActorID) AppendText(b []byte) ([]byte, error) { return appendText(b, "actor ID", a) }

// MarshalText is the text of a valid ID.
func (a ActorID) MarshalText() ([]byte, error) { return a.AppendText(nil) }

// UnmarshalText is ParseActorID.
func (a *ActorID) UnmarshalText(text []byte) error { return unmarshal(a, text, ParseActorID) }

// PortID names a port of an actor: actor:port.
type PortID struct {
	Actor ActorID
	Port  string
}

// ParsePortID reads actor:port.
func ParsePortID(s string) (PortID, error) {
	actor, port, found := strings.Cut(s, ":")
	if !found {
		return PortID{}, &Error{What: "port ID", Input: s,
			Want: "actor:port, as trainers-7kd93x0b5m2qa/12.0/agent:stop"}
	}
	id, err := ParseActorID(actor)
	if err != nil {
		return PortID{}, err
	}
	if err := CheckPort(port); err != nil {
		return PortID{}, err
	}
	return PortID{Actor: id, Port: port}, nil
}

// String is the ID's text, "" if invalid.
func (p PortID) String() string {
	if !p.IsValid() {
		return ""
	}
	return p.Actor.String() + ":" + p.Port
}

// IsValid reports whether p names a port.
func (p PortID) IsValid() bool { return p.Actor.IsValid() && isPort(p.Port) }

// Compare orders by actor, then port.
func (p PortID) Compare(o PortID) int {
	return cmp.Or(p.Actor.Compare(o.Actor), strings.Compare(p.Port, o.Port))
}

// AppendText appends the text of a valid ID.
func (p PortID) AppendText(b []byte) ([]byte, error) { return appendText(b, "port ID", p) }

// MarshalText is the text of a valid ID.
func (p PortID) MarshalText() ([]byte, error) { return p.AppendText(nil) }

// UnmarshalText is ParsePortID.
func (p *PortID) UnmarshalText(text []byte) error { return unmarshal(p, text, ParsePortID) }
