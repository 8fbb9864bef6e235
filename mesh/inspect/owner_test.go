package inspect

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestExplanation_suggestsAStopOnlyIfTheOwnerIsGone_INS5(t *testing.T) {
	host := testproc.HostID(t, "a")
	id := testproc.MeshID(t, "mesh")
	for _, c := range []struct {
		err  error
		stop bool
	}{
		{actor.ErrProcDead, true}, {actor.ErrNoProc, true}, {actor.ErrNoActor, true}, {actor.ErrStopped, true},
		{actor.ErrFailed, true}, {actor.ErrDeadline, false}, {context.DeadlineExceeded, false},
		{actor.ErrUnavailable, false}, {actor.ErrLinkBroken, false}, {actor.ErrDenied, false},
	} {
		w := inspection{
			desc:      agent.Mesh{ID: id, Extent: shape.Of("host", 1), PerHost: 1, Hosts: []subjects.HostID{host}},
			liveHosts: []subjects.HostID{host}, ownerErr: c.err, lease: 1,
			states: map[int]agent.State{0: {Status: agent.Status{Phase: agent.Running}}},
		}
		x := w.view().Explanation()
		require.False(t, x.Healthy)
		require.Len(t, x.Suggestions, 1)
		if c.stop {
			require.Contains(t, x.Suggestions[0], "castnet stop "+id.String())
			continue
		}
		require.Contains(t, x.Suggestions[0], "ask again", c.err)
		require.Contains(t, x.Next[0], "unless its owner renews it")
	}
}
