package subjects

import "slices"

// Role is what a principal may do. Servers permit the subjects of a role, and agents its verbs.
type Role uint8

// The roles. The zero Role is none of them.
const (
	Program  Role = iota + 1 // owns meshes: what mesh.Connect does
	Operator                 // a person with castnet: also acts on hosts, and on the meshes of others
	Observer                 // reads only
	Caster                   // a plain NATS client that casts through gateways
	Host                     // a hostd
	Proc                     // a proc that a hostd launched
	Gateway                  // the gateway of a host
	System                   // the system controller of a host
)

// roles are the names of the roles, and the letters with which their principals begin.
var roles = [...]struct {
	letter byte
	name   string
}{
	Program:  {'u', "program"},
	Operator: {'o', "operator"},
	Observer: {'w', "observer"},
	Caster:   {'c', "caster"},
	Host:     {'h', "host"},
	Proc:     {'p', "proc"},
	Gateway:  {'g', "gateway"},
	System:   {'s', "system"},
}

// UserRoles are the roles of people and their programs.
func UserRoles() []Role { return []Role{Program, Operator, Observer, Caster} }

// AllRoles are the roles, in their order.
func AllRoles() []Role {
	return []Role{Program, Operator, Observer, Caster, Host, Proc, Gateway, System}
}

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, error) {
	for _, r := range AllRoles() {
		if name == r.String() {
			return r, nil
		}
	}
	return 0, &Error{What: "role", Input: name,
		Want: "program, operator, observer, caster, host, proc, gateway or system"}
}

// String is the name of the role, "" for none.
func (r Role) String() string {
	if int(r) >= len(roles) {
		return ""
	}
	return roles[r].name
}

// IsOneOf reports whether the role is one of some.
func (r Role) IsOneOf(some ...Role) bool { return slices.Contains(some, r) }

func (r Role) letter() byte {
	if int(r) >= len(roles) {
		return 0
	}
	return roles[r].letter
}

// roleOf returns the role whose principals begin with a letter, or 0.
func roleOf(letter byte) Role {
	for r := range roles {
		if r > 0 && letter == roles[r].letter {
			return Role(r)
		}
	}
	return 0
}
