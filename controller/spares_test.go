package controller

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

func TestSpares_ownersStartWithDifferentHosts_CTL11(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.spec.RestartPolicy = RestartPolicy{Restart: actor.Transient}
	for range 2 {
		r.spec.RestartPolicy.Spares = append(r.spec.RestartPolicy.Spares, testproc.HostID(t, "spare"))
	}
	first := map[subjects.HostID]bool{}
	for range 64 {
		spares := health(t, r.own(t, r.spec)).RestartPolicy.Spares
		require.ElementsMatch(t, r.spec.RestartPolicy.Spares, spares)
		first[spares[0]] = true
	}
	require.Len(t, first, 2)
}
