package mesh

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

func TestActorList_silentProcMayHaveAnUnknownActor(t *testing.T) {
	r := ActorList{Actors: map[string]agent.ActorInfo{"counter-0000000000001": {}}}
	_, err := r.Find("loader")
	require.IsType(t, &NotFoundError{}, err)
	r.err = &cast.CoverageError{Coverage: cast.Coverage{Failed: []cast.Failure{{Rank: 1}}}}
	_, err = r.Find("loader")
	require.IsType(t, &NotFoundError{}, err, "a dead proc has none")
	r.err = &cast.CoverageError{Coverage: cast.Coverage{Missing: []cast.Failure{{Rank: 1}}}}
	_, err = r.Find("loader")
	var missing *NotFoundError
	require.ErrorAs(t, err, &missing)
	require.ErrorIs(t, err, r.err)
	full, err := r.Find("counter")
	require.NoError(t, err)
	require.Equal(t, "counter-0000000000001", full)
}

func TestErrors_ofASliceNameRanksOfTheWholeMesh(t *testing.T) {
	fleet, err := shape.Of("host", 2).Concat(shape.Of("gpu", 4))
	require.NoError(t, err)
	p := ProcMesh{desc: agent.Mesh{Extent: fleet, PerHost: 4}, region: fleet.Region()}
	for _, label := range []string{"a", "b"} {
		id, err := subjects.NewHostID(label)
		require.NoError(t, err)
		p.desc.Hosts = append(p.desc.Hosts, id)
	}
	p.region, err = p.region.Slice("gpu", 2, 4)
	require.NoError(t, err)
	const view, rank = 3, 7 // of the slice, of the mesh
	all := func(agent.Status) bool { return true }
	ranks := rankStatuses(agent.OverlayOf(map[int]agent.Status{view: {Phase: agent.Failed}}), p.desc, p.region,
		func(s agent.Status) bool { return s.Phase == agent.Failed })
	one, err := p.region.Single(view)
	require.NoError(t, err)
	want := "rank 7 (host=1/2,gpu=3/4) on b-"
	for _, err := range []error{
		&SpawnError{Failed: ranks}, &StopError{Remaining: ranks}, &RestartError{Failed: ranks},
		&RestartError{Failed: rankStatuses(nil, p.desc, one, all)}, // of a batch
	} {
		require.ErrorContains(t, err, want)
	}
	require.Equal(t, rank, ranks[0].Rank)
}
