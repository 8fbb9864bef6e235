package host

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCondensePanic_namesTheTopFramesOfTheProgram(t *testing.T) {
	crash := strings.Split(`loading
panic: index out of range [5] with length 3 [recovered]
	panic: again

goroutine 1 [running]:
panic({0x4b2a80?, 0xc000012345?})
	/usr/local/go/src/runtime/panic.go:787 +0x132
runtime.goPanicIndex(0x5, 0x3)
	/usr/local/go/src/runtime/panic.go:115 +0x74
main.(*trainer).step(0xc00001, {0x4d, 0x2})
	/src/trainer/step.go:41 +0x1d
main.main()
	/src/trainer/main.go:12 +0x5f

goroutine 7 [select]:
main.watch()
	/src/trainer/watch.go:9 +0x11
exit status 2`, "\n")
	require.Equal(t, []string{
		"loading", "panic: index out of range [5] with length 3 [recovered]",
		"at main.(*trainer).step (/src/trainer/step.go:41)", "at main.main (/src/trainer/main.go:12)",
	}, condensePanic(crash))
	deep := append([]string{"fatal error: all goroutines are asleep", "", "goroutine 1 [chan receive]:"},
		strings.Split(strings.Repeat("main.f(...)\n\t/f.go:1 +0x1\n", 9), "\n")...)
	require.Len(t, condensePanic(deep), maxReasonLines)
	for _, plain := range [][]string{nil, {"Traceback", "KeyError: x"}} {
		require.Equal(t, plain, condensePanic(plain))
	}
}
