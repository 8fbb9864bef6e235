package launch

import "fmt"

// A tree is where all that one child starts can be found: its cgroups, where
// there are any.
type tree struct {
	unified string   // directory in cgroup v2; "" = none
	legacy  []string // directories in v1 hierarchies, for limits
	oom     string   // the file that counts kills for want of memory
	memory  int64    // the limit in force
	foreign bool     // in the den of another launcher, which is dead
	missing []string // limits that are not in force, and why
}

func (t *tree) unenforced(what string, err error) {
	t.missing = append(t.missing, fmt.Sprintf("%s: %v", what, err))
}
