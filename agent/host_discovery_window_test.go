package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/subjects"
)

func TestDiscoveryWindow_awaitsKnownHostsAndBrieflyOthers(t *testing.T) {
	id := func(label string) subjects.HostID {
		id, err := subjects.NewHostID(label)
		require.NoError(t, err)
		return id
	}
	a, b, c := id("a"), id("b"), id("c")
	const quiet, grace, ms = 200 * time.Millisecond, 20 * time.Millisecond, time.Millisecond
	began := time.Now()
	at := func(n time.Duration) time.Time { return began.Add(n * ms) }

	wait := func(c *discovery, id subjects.HostID, now time.Time) time.Duration {
		_, wait := c.recordAnswer(id, now)
		return wait
	}

	unlisted := newDiscovery(quiet, grace, nil, began)
	require.Equal(t, quiet, wait(unlisted, a, at(1)))

	list := func(c *discovery, now time.Time, ids ...subjects.HostID) time.Duration {
		wait, isSet := c.recordList(ids, now)
		require.True(t, isSet)
		return wait
	}

	listed := newDiscovery(quiet, grace, nil, began)
	listed.awaitsList = true
	require.Equal(t, knownHostTimeout, wait(listed, a, at(1)), "others may be on the list")
	require.Equal(t, knownHostTimeout-4*ms, list(listed, at(5), a, b), "b is slow, and there")
	require.Equal(t, grace, wait(listed, b, at(8)), "all known hosts have answered")
	require.Equal(t, 60*ms, wait(listed, c, at(30)), "an unknown host answered: others may be as slow")
	require.Equal(t, quiet, wait(listed, c, at(500)), "but no slower than without a list")

	known := newDiscovery(quiet, quiet, []subjects.HostID{a, b}, began)
	require.Equal(t, knownHostTimeout, wait(known, a, at(1)))
	require.Equal(t, quiet, wait(known, b, at(2)), "a full search waits for unknown hosts")

	alone := newDiscovery(quiet, grace, nil, began)
	alone.awaitsList = true
	_, isSet := alone.recordList(nil, at(1))
	require.False(t, isSet, "the first host may still start")
	_, isSet = newDiscovery(quiet, grace, nil, began).recordList([]subjects.HostID{a}, at(1))
	require.False(t, isSet, "the only host may be slow")
	alone.awaitsList = true
	require.Equal(t, knownHostTimeout, wait(alone, a, at(2)))
	require.Equal(t, quiet-3*ms, list(alone, at(5)), "there is no gateway")
}
