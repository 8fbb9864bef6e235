package mesh_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh"
)

const (
	fourHosts = "test:a-000000000000a,b-000000000000b,c-000000000000c,d-000000000000d@replica=2/2,host=2/1"
	someProcs = "workers-000000000000m:a-000000000000a,b-000000000000b@client-000000000000c/0.0/controller-000000000000d@0@host=2/4,gpu=4/1@4+host=1/4,gpu=4/1"
)

// Meaning of test_host_mesh_subset and test_host_mesh_ref_parse_roundtrip.
func TestHostMesh_textRoundTripsAndASliceListsItsHosts(t *testing.T) {
	t.Parallel()
	var h mesh.HostMesh
	require.NoError(t, h.UnmarshalText([]byte(fourHosts)))
	require.Equal(t, fourHosts, h.String())
	require.Equal(t, "replica=2,host=2", h.Extent().String())
	c := newCluster(t)
	second := h.Via(c.Net).Slice("replica", 1, 2)
	require.NoError(t, second.Err())
	require.Equal(t, "test:c-000000000000c,d-000000000000d@2+replica=1/2,host=2/1", second.String())
	var again mesh.HostMesh
	require.NoError(t, again.UnmarshalText([]byte(second.String())))
	require.True(t, again.Equal(second))
	require.False(t, again.Equal(h))
	require.Equal(t, "test:d-000000000000d@3+replica=1/2,host=1/1", second.Slice("host", 1, 2).String())
	_, err := again.Describe(t.Context())
	require.ErrorContains(t, err, "bound to no Net: bind it with Via")
}

func TestHostMesh_parsingIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		"test":                                       "no name",
		"te st:a-000000000000a@host=1/1":             "te st",
		"test:a-000000000000a":                       "no region",
		"test:@host=1/1":                             "host 0",
		"test:nobody@host=1/1":                       "host 0",
		"test:a-000000000000a@host=":                 "host=",
		"test:a-000000000000a@host=2/1":              "want 2 ranks, got 1 hosts",
		"test:a-000000000000a,a-000000000000a@h=2/1": "is listed twice",
	} {
		var h mesh.HostMesh
		err := h.UnmarshalText([]byte(text))
		require.ErrorContains(t, err, want, text)
		var ref *mesh.RefError
		require.ErrorAs(t, err, &ref)
		require.Equal(t, text, ref.Text)
	}
}

func TestProcMesh_textRoundTripsAndParsingIsStrict(t *testing.T) {
	var p mesh.ProcMesh
	require.NoError(t, p.UnmarshalText([]byte(someProcs)))
	require.Equal(t, someProcs, p.String())
	b, err := wire.Marshal(p)
	require.NoError(t, err)
	var q mesh.ProcMesh
	require.NoError(t, wire.Unmarshal(b, &q))
	require.True(t, p.Equal(q))
	for from, to := range map[string]string{
		"workers-000000000000m:": "workers-000000000000m",
		",b-000000000000b":       ",b-000000000000b,c-000000000000c",
		"@0@":                    "@00@",
		"controller-":            "con troller-",
		"@4+host":                "@40+host",
		`@host=2/4`:              `@host=2/8`,
	} {
		bad := strings.Replace(someProcs, from, to, 1)
		require.Error(t, q.UnmarshalText([]byte(bad)), bad)
	}
	require.True(t, p.Equal(q), "a bad text changes nothing")
	_, err = (mesh.ProcMesh{}).MarshalText()
	require.Error(t, err)
}

// A handle is a value: another program reads it from a message, uses it, and does not own it.
func TestActorMesh_receivedHandleWorksWithoutOwnership(t *testing.T) { // MESH-2
	t.Parallel()
	c := newCluster(t, "a")
	_, counters := c.workers(t, 4, 10)
	b, err := wire.Marshal(counters.Select("gpu=1:3"))
	require.NoError(t, err)
	var got mesh.ActorMesh[*Counter]
	require.NoError(t, wire.Unmarshal(b, &got))
	require.True(t, got.Equal(counters.Select("gpu=1:3")))
	other := c.Connect(t)
	got = got.Via(other)
	all, err := cast.Gather(t.Context(), got, add, 1)
	require.NoError(t, err)
	require.Equal(t, []int64{11, 11}, all.Values())
	err = got.Stop(t.Context())
	var owner *mesh.OwnerError
	require.ErrorAs(t, err, &owner)
	require.Equal(t, c.Proc().ID(), owner.Owner.Proc)

	states, err := got.States(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, states.Len())
	ended := make(chan actor.Event, 1)
	go func() {
		defer close(ended)
		for e, err := range got.Watch(t.Context()) { // its owner tells those who read it, too
			if err == nil {
				ended <- e
			}
			return
		}
	}()
	require.NoError(t, counters.Stop(t.Context()))
	e := <-ended
	require.Equal(t, "stopped", e.Status)
}

func FuzzHostMesh(f *testing.F) {
	f.Add(fourHosts)
	f.Fuzz(func(t *testing.T, text string) { roundTrip[mesh.HostMesh](t, text) })
}

func FuzzProcMesh(f *testing.F) {
	f.Add(someProcs)
	f.Fuzz(func(t *testing.T, text string) { roundTrip[mesh.ProcMesh](t, text) })
}

func FuzzActorMesh(f *testing.F) {
	f.Add("counters-000000000000n||" + someProcs)
	f.Add("counters|-|" + someProcs)
	f.Fuzz(func(t *testing.T, text string) { roundTrip[mesh.ActorMesh[*Counter]](t, text) })
}

// roundTrip reads a text. The text of a valid handle reads the same.
func roundTrip[T interface {
	Equal(T) bool
	MarshalText() ([]byte, error)
}, P interface {
	*T
	UnmarshalText([]byte) error
}](t *testing.T, text string) {
	var v, again T
	if P(&v).UnmarshalText([]byte(text)) != nil {
		return
	}
	out, err := v.MarshalText()
	require.NoError(t, err)
	require.NoError(t, P(&again).UnmarshalText(out))
	require.True(t, v.Equal(again))
	twice, err := again.MarshalText()
	require.NoError(t, err)
	require.Equal(t, string(out), string(twice))
}
