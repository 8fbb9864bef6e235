package integration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

func TestBadProgram_errorNamesHostAndPath(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.connect(t)
	hosts, err := conn.AwaitHosts(t.Context(), 2)
	require.NoError(t, err)
	a, b := hosts.Infos()[0].ID.String(), hosts.Infos()[1].ID.String()
	for path, want := range map[string]string{
		"/does/not/exist": `command "/does/not/exist": lstat /does: no such file or directory`,
		"/bin/false":      "exited with code 1",
		"/bin/true":       "before it was ready: does its main call proc.Main first?",
		"/etc/passwd":     `command "/etc/passwd": want an executable file`,
		"hostd":           `command "hostd": want an absolute path on the host`,
	} {
		var failed *mesh.SpawnError
		testkit.Until(t, "both ranks are named", func() bool { // after the first failure the other has 2 s
			_, err = hosts.SpawnProcs(t.Context(),
				mesh.SpawnSpec{Name: "bad", PerHost: shape.Of("gpu", 1), Command: mesh.Command{Path: path}})
			require.ErrorAs(t, err, &failed, path)
			return len(failed.Failed) > 1
		})
		require.Len(t, failed.Failed, 2, path)
		require.Equal(t, []string{a, b}, []string{failed.Failed[0].Host, failed.Failed[1].Host})
		require.ErrorContains(t, err, want)
	}
	require.Empty(t, c.procs(t), "a failed spawn leaves no procs")
}

func TestForbiddenProgram_refusalNamesTheFlag(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	hosts, err := c.connect(t).Hosts(t.Context())
	require.NoError(t, err)
	path := copied(t, program("hello"))
	_, err = hosts.SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "bad", PerHost: shape.Of("gpu", 1), Command: mesh.Command{Path: path}})
	require.ErrorContains(t, err, "is not allowed on this host")
	require.ErrorContains(t, err, "--allow "+path)
}

func TestOtherBuild_refusalNamesBothBuildIDs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	self, err := os.Executable()
	require.NoError(t, err)
	path := filepath.Join(os.Getenv(binVariable), "replaced")
	replace(t, self, path)
	t.Cleanup(func() { require.NoError(t, os.Remove(path)) })
	o := c.startOwner(t, path)
	replace(t, program("wordcount"), path) // as `go build` does under a program that runs
	says := o.ask(t)
	require.Regexp(t, `rank 0 .* on a-\w+: .*`+path+
		` on host a is build [0-9a-f]{12}, the caller is build [0-9a-f]{12}`, says+o.Out.Unread())
	o.end(t)
}

// procs are the live processes of all meshes.
func (c *cluster) procs(t *testing.T) (all []int) {
	t.Helper()
	meshes, err := c.connect(t).Meshes(t.Context())
	require.NoError(t, err)
	for _, m := range meshes {
		for _, s := range m.States {
			if !s.Status.Phase.Terminal() {
				all = append(all, s.Proc.PID)
			}
		}
	}
	return all
}

// copied is a program at a path outside the permissions of all hosts.
func copied(t *testing.T, from string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(from))
	replace(t, from, path)
	return path
}

// replace replaces the file at a path by a program.
func replace(t *testing.T, from, path string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	testkit.WriteProgram(t, path+".new", data)
	require.NoError(t, os.Rename(path+".new", path))
}
