package cli

import "runtime/debug"

// Version returns the program's version as stamped by the toolchain.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
