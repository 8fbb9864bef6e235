package launch

import "fmt"

// tree locates all descendants of a child: its cgroups, if any.
type tree struct {
	unified          string   // directory in cgroup v2; "" = none
	legacy           []string // directories in v1 hierarchies, for limits
	oomFile          string   // the file that counts out-of-memory kills
	memoryLimit      int64    // the limit in force
	adopted          bool     // in the directory of a dead launcher
	unenforcedLimits []string // limits without effect, with reasons
}

func (t *tree) addUnenforced(what string, err error) {
	t.unenforcedLimits = append(t.unenforcedLimits, fmt.Sprintf("%s: %v", what, err))
}
