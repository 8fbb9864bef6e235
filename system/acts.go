package system

import "strings"

// Act returns the declared world. A dry run changes nothing.
func (u UpsertRequest) Act() (object string, routine bool) { return u.Spec.Name, u.DryRun }

// Act returns the leaving host or proc.
func (l LeaveRequest) Act() (object string, routine bool) {
	if l.Host != nil {
		return l.Host.String(), false
	}
	if l.Proc != nil {
		return l.Proc.String(), false
	}
	return "", false
}

// Act returns the stopped worlds.
func (s StopRequest) Act() (object string, routine bool) {
	if s.All {
		return "all worlds", false
	}
	return strings.Join(s.Worlds, " "), false
}

// Act returns the detached mesh.
func (d DetachRequest) Act() (object string, routine bool) { return d.Mesh.String(), false }

// Act returns the adopted mesh.
func (a AdoptRequest) Act() (object string, routine bool) { return a.Mesh.String(), false }
