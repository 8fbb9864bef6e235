package heldmesh

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func TestExplain_statesAReasonOnceForAllItsRanks(t *testing.T) {
	e := shape.Of("host", 2).With("gpu", 2)
	failed := &mesh.SpawnError{Mesh: "demo-x", Ranks: 4}
	for rank := range 4 {
		pt, err := e.Point(rank)
		require.NoError(t, err)
		reason := fmt.Sprintf("demo-7kd93x0b5m2qa/%d.0/counter: no parameters", rank)
		failed.Failed = append(failed.Failed,
			mesh.RankStatus{Rank: rank, Point: pt, Status: agent.Status{Phase: agent.Failed, Reason: reason}})
	}
	require.EqualError(t, ExplainSpawnError(errors.Join(failed, nil)),
		"4 of 4 ranks of demo-x did not start: [*] no parameters")
	failed.Failed[3].Status.Reason = "exited with code 3"
	failed.Failed[0].Host, failed.Failed[1].Host, failed.Failed[3].Host = "a", "a", "b"
	require.EqualError(t, ExplainSpawnError(failed),
		"4 of 4 ranks of demo-x did not start on a, b:\n  [host=0,gpu=* | host=1,gpu=0] no parameters\n  "+
			"[host=1,gpu=1] exited with code 3")
	require.EqualError(t, ExplainSpawnError(errors.New("other")), "other")
}
