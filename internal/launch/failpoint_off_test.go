//go:build !failpoint || !linux

package launch

// These are for builds with failpoints.
func life()    {}
func refused() {}
