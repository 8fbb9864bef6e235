package launch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLimits_refuseInvalidValues(t *testing.T) {
	l := newLauncher(t)
	for want, limits := range map[string]Limits{
		"limit of -1 bytes of memory":                   {Memory: -1},
		"limit of -2 processes":                         {Pids: -2},
		"limit of -0.5 CPU cores":                       {CPU: -0.5},
		"limit of NaN CPU cores":                        {CPU: math.NaN()},
		"limit of +Inf CPU cores":                       {CPU: math.Inf(1)},
		"CPU -1 cannot exist":                           {CPUs: []int{0, -1}},
		"CPU 1024 cannot exist":                         {CPUs: []int{1024}},
		"limit of 4 descriptors: a child starts with 5": {Files: 4},
	} {
		spec := specOf(t, "exit", "0")
		spec.Limits = limits
		_, err := l.Launch(spec)
		require.ErrorContains(t, err, want)
	}
}

func TestSize_textIsHumanReadable(t *testing.T) {
	for n, want := range map[int64]string{
		1: "1 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1536 bytes", 64 << 20: "64 MiB", 3 << 30: "3 GiB",
		1 << 50: "1048576 GiB",
	} {
		require.Equal(t, want, formatBytes(n))
	}
}
