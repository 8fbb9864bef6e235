package cli

import "runtime/debug"

// Version is that of the program, as the toolchain stamped it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
