package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/subjects"
)

func TestCensus_waitsForThoseThatAreKnownAndALittleForOthers(t *testing.T) {
	id := func(label string) subjects.HostID {
		id, err := subjects.NewHostID(label)
		require.NoError(t, err)
		return id
	}
	a, b, c := id("a"), id("b"), id("c")
	const quiet, grace, ms = 200 * time.Millisecond, 20 * time.Millisecond, time.Millisecond
	began := time.Now()
	at := func(n time.Duration) time.Time { return began.Add(n * ms) }

	unlisted := newCensus(quiet, grace, nil, began)
	require.Equal(t, quiet, unlisted.hear(a, at(1)))

	listed := newCensus(quiet, grace, nil, began)
	require.Equal(t, quiet, listed.hear(a, at(1)))
	require.Equal(t, knownWithin-4*ms, listed.list([]subjects.HostID{a, b}, at(5)), "b is slow, and there")
	require.Equal(t, grace, listed.hear(b, at(8)), "nobody else is known")
	require.Equal(t, 60*ms, listed.hear(c, at(30)), "somebody else is there: others may be as slow")
	require.Equal(t, quiet, listed.hear(c, at(500)), "but no slower than without a list")

	known := newCensus(quiet, quiet, []subjects.HostID{a, b}, began)
	require.Equal(t, knownWithin, known.hear(a, at(1)))
	require.Equal(t, quiet, known.hear(b, at(2)), "who looks for all waits for who is not known")
	require.Equal(t, knownWithin, newCensus(quiet, grace, nil, began).list([]subjects.HostID{a}, began), "nobody has answered")
}
