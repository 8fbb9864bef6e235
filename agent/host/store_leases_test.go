package host

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/subjects"
)

// someClaim is a claim in an epoch, by any owner.
func someClaim(t *testing.T, epoch uint64) agent.Claim {
	t.Helper()
	owner, err := subjects.ParseActorID("client-000000000000c/0.0/controller-000000000000d")
	require.NoError(t, err)
	return agent.Claim{Epoch: epoch, Owner: owner}
}

func TestLease_continuesAfterRestartWithHalfItsTTLAtLeast_HOST10(t *testing.T) {
	const boot, other = "0b0a3c52-6f0e-4c3e-9d52-0f1c4f3f8a11", "1b0a3c52-6f0e-4c3e-9d52-0f1c4f3f8a11"
	by := someClaim(t, 3)
	s := opened(t, t.TempDir())
	path := s.leaseFile("m")
	s.overwrite(path, storedLease{Boot: boot, Until: 100 * time.Hour, TTL: 100 * time.Hour,
		Claim: someClaim(t, 12345)})
	s.overwrite(path, storedLease{Boot: boot, Until: time.Hour + time.Minute, TTL: time.Minute, Claim: by})
	var lease storedLease
	require.True(t, s.readOverwritten(path, &lease), "a longer value was there before")
	require.Equal(t, by, lease.Claim)
	for after, want := range map[time.Duration]time.Duration{
		0: time.Minute, 20 * time.Second: 40 * time.Second, 50 * time.Second: 30 * time.Second,
		24 * time.Hour: 30 * time.Second,
		-time.Hour:     time.Minute,
	} {
		left, ok := lease.remaining(boot, time.Hour+after)
		require.True(t, ok)
		require.Equal(t, want, left, "after %s", after)
	}
	for name, unusable := range map[string]storedLease{"another boot": lease,
		"no TTL": {Boot: other, Until: time.Hour}} {
		_, ok := unusable.remaining(other, time.Hour)
		require.False(t, ok, name)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text[:30], 0o600))
	require.False(t, s.readOverwritten(path, &lease), "half of it")
	require.False(t, s.readOverwritten(path+"absent", &lease))
}

func TestLease_onlyKeptMeshesAreStored_HOST10(t *testing.T) {
	s := opened(t, t.TempDir())
	all, by := []procRecord{someKept(t, 0, 0), someKept(t, 1, 0)}, someClaim(t, 2)
	mesh := all[0].Mesh.ID.String()
	s.restoreLeases(all)
	require.Equal(t, time.Minute, all[1].Lease, "without a file the lease restarts")
	alice := subjects.Program.Principal("alice")
	s.saveLease(mesh, 2*time.Minute, by, alice) // the owner has renewed it, and said another term
	s.saveLease("gone-0000000000003", time.Minute, by, alice)
	s.restoreLeases(all)
	for _, k := range all {
		require.Equal(t, alice, k.Principal)
		require.Equal(t, by, k.Claim, "the renewer is the owner (HOST-10)")
		require.Greater(t, k.Lease, time.Minute)
		require.LessOrEqual(t, k.Lease, 2*time.Minute)
	}
	require.FileExists(t, s.leaseFile(mesh))
	require.NoFileExists(t, s.leaseFile("gone-0000000000003"), "the mesh is unknown")
	s.saveLease(mesh, 0, by, alice)
	require.NoFileExists(t, s.leaseFile(mesh))
	require.NoError(t, os.RemoveAll(s.dir))
	s.saveLease(mesh, time.Minute, by, alice) // the disk does not take it: no harm
	(*store)(nil).saveLease(mesh, time.Minute, by, alice)
}

func TestBootClock_isMonotonicAndNamesTheBoot(t *testing.T) {
	boot, was := launch.BootClock()
	if boot == "" {
		t.Skip("there is none here")
	}
	again, now := launch.BootClock()
	require.Equal(t, boot, again)
	require.GreaterOrEqual(t, now, was)
}
