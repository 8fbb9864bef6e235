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

// EnvVar names the point at which the process dies.
const EnvVar = "CASTNET_FAILPOINT"

var valueRule = regexp.MustCompile(`^([a-z0-9-]+)(?::([1-9][0-9]{0,8}))?$`)

// target is the point that was named, once; "" = none. A process dies once, so
// one count is enough, and it exists in test builds only.
var (
	target = sync.OnceValue(parse)
	left   atomic.Int64
)

func parse() string {
	value := os.Getenv(EnvVar)
	if value == "" {
		return ""
	}
	match := valueRule.FindStringSubmatch(value)
	if match == nil {
		panic(fmt.Sprintf("%s=%q is not NAME or NAME:N", EnvVar, value))
	}
	n := 1
	if match[2] != "" {
		n, _ = strconv.Atoi(match[2]) // the rule admits digits only
	}
	left.Store(int64(n))
	return match[1]
}

// Hit kills this process if the point is the one that EnvVar names, and it is
// its turn.
func Hit(name string) {
	if name != target() || left.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
