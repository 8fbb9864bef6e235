package host

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/launch"
)

func TestHOST11_aLeaseGoesOnWhereItWasWithHalfItsTermAtLeast(t *testing.T) {
	const boot, other = "0b0a3c52-6f0e-4c3e-9d52-0f1c4f3f8a11", "1b0a3c52-6f0e-4c3e-9d52-0f1c4f3f8a11"
	text := leaseText(boot, time.Hour, time.Minute)
	require.Len(t, leaseText(boot, 0, 1), len(text), "it is replaced as a whole")
	for after, want := range map[time.Duration]time.Duration{
		0: time.Minute, 20 * time.Second: 40 * time.Second, 50 * time.Second: 30 * time.Second, 24 * time.Hour: 30 * time.Second,
		-time.Hour: time.Minute,
	} {
		left, ok := leaseLeft(text, boot, time.Hour+after)
		require.True(t, ok)
		require.Equal(t, want, left, "after %s", after)
	}
	for name, text := range map[string][]byte{"another boot": text, "nothing": nil, "half of it": text[:50], "no term": leaseText(other, time.Hour, 0)} {
		_, ok := leaseLeft(text, other, time.Hour)
		require.False(t, ok, name)
	}
}

func TestHOST11_theLeasesOfKeptMeshesAreWrittenDownAndThoseOfOthersAreRemoved(t *testing.T) {
	s := opened(t, t.TempDir())
	all := []kept{someKept(t, 0, 0), someKept(t, 1, 0)}
	mesh := all[0].Mesh.ID.String()
	s.leases(all)
	require.Equal(t, time.Minute, all[1].Lease, "without a file it runs anew")
	s.lease(mesh, 2*time.Minute) // the owner has renewed it, and said another term
	s.lease("gone-0000000000003", time.Minute)
	s.leases(all)
	for _, k := range all {
		require.Greater(t, k.Lease, time.Minute)
		require.LessOrEqual(t, k.Lease, 2*time.Minute)
	}
	require.FileExists(t, s.leaseFile(mesh))
	require.NoFileExists(t, s.leaseFile("gone-0000000000003"), "of a mesh that nobody knows")
	s.lease(mesh, 0)
	require.NoFileExists(t, s.leaseFile(mesh))
	require.NoError(t, os.RemoveAll(s.dir))
	s.lease(mesh, time.Minute) // the disk does not take it: no harm
	(*store)(nil).lease(mesh, time.Minute)
}

func TestBootClock_goesOnAndSaysWhichBoot(t *testing.T) {
	boot, was := launch.BootClock()
	if boot == "" {
		t.Skip("there is none here")
	}
	again, now := launch.BootClock()
	require.Equal(t, boot, again)
	require.GreaterOrEqual(t, now, was)
}
