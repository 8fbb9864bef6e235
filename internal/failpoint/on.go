//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

// EnvVar names the point where the process dies, RefuseVar the one where a system call fails.
const (
	EnvVar    = "CASTNET_FAILPOINT"
	RefuseVar = "CASTNET_FAILPOINT_REFUSE"
)

var valueRule = regexp.MustCompile(`^([a-z0-9-]+)(?::([1-9][0-9]{0,8}))?$`)

// target is the point that a variable named, once; "" = none. A process dies once, so one count is
// enough, and it exists in test builds only.
type target struct {
	name string
	left atomic.Int64
}

var (
	deadly   = sync.OnceValue(func() *target { return parse(EnvVar) })
	refusing = sync.OnceValue(func() *target { return parse(RefuseVar) })
)

func parse(variable string) *target {
	t := &target{}
	value := os.Getenv(variable)
	if value == "" {
		return t
	}
	match := valueRule.FindStringSubmatch(value)
	if match == nil {
		panic(fmt.Sprintf("%s=%q is not NAME or NAME:N", variable, value))
	}
	n := 1
	if match[2] != "" {
		n, _ = strconv.Atoi(match[2]) // the rule admits digits only
	}
	t.name = match[1]
	t.left.Store(int64(n))
	return t
}

// Hit kills this process if the point is the one that EnvVar names, and it is
// its turn.
func Hit(name string) {
	if t := deadly(); name != t.name || t.left.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// Refused reports whether the system call at a point must fail. RefuseVar names the point and the
// number of failures.
func Refused(name string) bool {
	t := refusing()
	return name == t.name && t.left.Add(-1) >= 0
}
