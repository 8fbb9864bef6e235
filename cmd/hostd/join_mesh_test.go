package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// The server of the first hostd pins each sender. The second hostd joins a mesh there, dies, and
// comes back with the invite that it has used.
func TestHostd_joinsAMeshByAnInviteOnce_HOSTD17(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.start(t, "--label", "a")
	conn := s.connect(t, bus.Options{})
	hosts, err := conn.Hosts(testkit.Soon(t))
	require.NoError(t, err)
	goOn := mesh.RestartPolicy{Restart: mesh.Temporary}
	procs, err := hosts.SpawnProcs(testkit.Soon(t), mesh.SpawnSpec{
		Name: "m", PerHost: shape.Of("gpu", 2), Command: mesh.Command{Path: agent.Builtin}, RestartPolicy: goOn,
	})
	require.NoError(t, err)
	counters, err := mesh.SpawnActors(testkit.Soon(t), procs, counter,
		mesh.ActorSpawnSpec[int64]{Label: "counters", Params: 40, RestartPolicy: goOn})
	require.NoError(t, err)
	invite := func(label string, ttl time.Duration) string {
		t.Helper()
		text, err := procs.Invite(testkit.Soon(t), label, ttl)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), label+".invite")
		require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
		return file
	}
	file := invite("b", time.Minute)
	local := s.readLocal(t)
	member := []string{"--nats", local.URL, "--token", local.Token, "--gateway=false"}
	join := append(member, "--label", "b", "--state-dir", t.TempDir(), "--join-mesh", file)

	b := s.start(t, join...)
	require.Contains(t, b.Err.String(), `"mesh":"`+procs.ID().String()+`","first_rank":2,"ranks":2,`)
	require.Less(t, strings.Index(b.Err.String(), "joined the mesh"), strings.Index(b.Err.String(), "hostd is ready"))
	testkit.Until(t, "the program follows", func() bool { return counters.Extent().NumRanks() == 4 })
	sum, err := cast.Reduce(testkit.Soon(t), counters, add, 1, cast.Sum[int64]())
	require.NoError(t, err)
	require.EqualValues(t, 4*41, sum)

	b.Send(t, syscall.SIGKILL)
	b.Exit(t)
	b = s.start(t, join...)
	require.Contains(t, b.Err.String(), "the mesh has this host already: the invite was not used")
	b.Stop(t)
	code, why := s.requireFailedStart(t, append(member, "--label", "b", "--join-mesh", file)...)
	require.Equal(t, 1, code)
	require.Regexp(t, `cannot join mesh m-\w+: .*the invite is used: host b-\w+ joined with it$`, why)
	require.NotContains(t, why, "castnet-invite")

	late := invite("c", time.Millisecond)
	code, why = s.requireFailedStart(t, append(member, "--label", "c", "--join-mesh", late)...)
	require.Equal(t, 1, code)
	require.Contains(t, why, "the invite expired")
}

func TestHostd_refusesAnInviteThatIsNotForIt_HOSTD17(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.start(t, "--label", "a")
	local := s.readLocal(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	const secret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
	const mine = "castnet-invite-1:castnet:default:m-000000000000m:b:client-000000000000c/0.0/controller-000000000000d:"
	good := write("good", mine+secret+"\n")
	other := write("other", strings.Replace(mine, ":default:", ":other:", 1)+secret)
	cut := write("cut", mine+secret[1:])
	member := []string{"--nats", local.URL, "--token", local.Token, "--gateway=false", "--join-mesh"}
	for want, args := range map[string][]string{
		"the invite is for host b, and this is host c: want --label b": append(member, good, "--label", "c"),
		"want --namespace other":               append(member, other, "--label", "b"),
		"malformed invite: want a line of":     append(member, cut, "--label", "b"),
		"no such file or directory":            append(member, filepath.Join(dir, "none"), "--label", "b"),
		"-: malformed invite":                  append(member, "-", "--label", "b"), // nothing on standard input
		"--join-mesh is for a mesh on another": {"--join-mesh", good, "--label", "b"},
	} {
		code, why := s.requireFailedStart(t, args...)
		require.Equal(t, 2, code, why)
		require.Contains(t, why, want)
		require.NotContains(t, why, secret[1:])
	}
	code, why := s.requireFailedStart(t, append(member, good, "--label", "b")...)
	require.Equal(t, 3, code)
	require.Contains(t, why, "cannot join mesh m-000000000000m: its owner is gone, and the invite with it")
}
