//go:build !linux

package launch

// forgetParent has nothing to turn off: only Linux has PDEATHSIG.
func forgetParent() {}
