package launch

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestUsableCPUs_refusesCPUsOutsideTheOwnMask(t *testing.T) {
	var mask unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &mask))
	first := 0
	for !mask.IsSet(first) {
		first++
	}
	got, err := UsableCPUs([]int{first, first}, nil)
	require.NoError(t, err)
	require.Equal(t, []int{first}, got)
	got, err = UsableCPUs(nil, nil)
	require.NoError(t, err)
	require.Empty(t, got)
	for _, cpu := range []int{-1, maxCPU, maxCPU - 1} {
		_, err := UsableCPUs([]int{first, cpu}, nil)
		require.ErrorContains(t, err, "want one of the")
	}
	_, err = UsableCPUs(nil, []int{4096})
	require.ErrorContains(t, err, "NUMA node 4096")
}

func TestParseCPUs_readsRanges(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "3": {3}, "0-2,8": {0, 1, 2, 8}, "5-4": nil} {
		got, err := parseCPUs(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"a", "1-", "-1", "0-99999", "1,,2"} {
		_, err := parseCPUs(text)
		require.Error(t, err, text)
	}
}
