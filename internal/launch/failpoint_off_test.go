//go:build !failpoint || !linux

package launch

// life is for builds with failpoints.
func life() {}
