//go:build !linux

package launch

// forgetParent has nothing to turn off: only Linux has PDEATHSIG.
func forgetParent() {}

// Parts for Linux only.
func subreaper()   {}
func eat()         {}
func limits()      {}
func exhaust()     {}
func kept()        {}
func keeper()      {}
func deathSignal() {}
func exhaustKill() {}
