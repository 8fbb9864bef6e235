package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// On a busy machine a late acknowledgement is requested and sent once more: those do not count.
func TestControl_messagesGrowWithHostsNotProcs(t *testing.T) {
	const hosts = 12
	for _, perHost := range []int{2, 10} {
		g := &ground{notes: io.Discard}
		t.Cleanup(func() { require.NoError(t, g.close()) })
		r, err := newRig(t.Context(), g, false)
		require.NoError(t, err)
		require.NoError(t, r.addSimulated(t.Context(), hosts))
		ops, err := r.countControl(t.Context(), perHost)
		require.NoError(t, err)
		require.Len(t, ops, 3)
		for _, op := range ops {
			// a spawn renews the lease at each host after its first heartbeat: it may have started again
			require.LessOrEqual(t, op.exchanged(), 4*hosts+10, op)
			require.LessOrEqual(t, op.kinds["ev.audit"], 2*hosts+2, op)
			require.LessOrEqual(t, op.total()-op.kinds["ev.audit"]-2*op.kinds["f.beat"], 12*hosts, op)
		}
	}
}
