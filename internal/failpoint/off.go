//go:build !failpoint

package failpoint

// The variables that name a point, in builds that have points.
const (
	EnvVar    = "CASTNET_FAILPOINT"
	RefuseVar = "CASTNET_FAILPOINT_REFUSE"
)

// Hit is nothing in this build.
func Hit(string) {}

// Refused is false in this build.
func Refused(string) bool { return false }
