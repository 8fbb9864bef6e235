//go:build !failpoint

package failpoint

// EnvVar names the point at which the process dies, in builds that have points.
const EnvVar = "CASTNET_FAILPOINT"

// Hit is nothing in this build.
func Hit(string) {}
