//go:build !linux

package launch

import "errors"

// CheckFor is Check for children of a user.
func (l ProcessLimits) CheckFor(*User) error { return l.Check() }

// Check refuses limits that this system cannot set for a child.
func (l ProcessLimits) Check() error {
	if l != (ProcessLimits{}) {
		return errors.New("limits of each process: want Linux")
	}
	return nil
}
