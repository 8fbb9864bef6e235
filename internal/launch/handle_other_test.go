//go:build !linux

package launch

// forgetParent has nothing to turn off: only Linux has PDEATHSIG.
func forgetParent() {}

// Parts that are played on Linux only.
func subreaper()   {}
func eat()         {}
func limits()      {}
func exhaust()     {}
func kept()        {}
func keeper()      {}
func deathSignal() {}
func exhaustKill() {}
