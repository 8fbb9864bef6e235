package launch

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExit_decodesTheWaitStatus(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct {
		status syscall.WaitStatus
		known  bool
		want   Exit
		text   string
	}{
		{0, true, Exit{At: now}, "exited with code 0"},
		{1 << 8, true, Exit{Code: 1, At: now}, "exited with code 1"},
		{9, true, Exit{Code: -1, Signal: 9, At: now}, "killed by signal 9 (killed)"},
		{6 | 0x80, true, Exit{Code: -1, Signal: 6, Core: true, At: now},
			"killed by signal 6 (aborted), core dumped"},
		{0, false, Exit{Code: -1, Unknown: true, At: now}, "ended with an unknown status"},
	} {
		got := newExit(tt.status, tt.known, now)
		require.Equal(t, tt.want, got)
		require.Equal(t, tt.text, got.String())
		require.Equal(t, tt.text == "exited with code 0", got.Clean())
	}
	left := Exit{Code: 3, Survivors: true}
	require.Equal(t, "exited with code 3; processes that it started survive SIGKILL", left.String())
}
