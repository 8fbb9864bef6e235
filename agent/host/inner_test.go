package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

// file makes a file with a mode, whatever the umask.
func file(t *testing.T, dir, name string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, nil, mode))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

func TestPolicy_runsOnlyAllowedPrograms_HOST2(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	self := file(t, dir, "hostd", 0o755)
	tool, open, plain := file(t, dir, "tool", 0o755), file(t, dir, "open", 0o757), file(t, dir, "plain", 0o644)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(tool, link))
	beside := filepath.Join(dir, "tools")
	require.NoError(t, os.Mkdir(beside, 0o700))
	inside := file(t, beside, "inside", 0o755)

	for name, c := range map[string]struct {
		o    Options
		path string
		want string // the program that runs
		err  string
	}{
		"the host's own binary": {Options{}, self, self, ""},
		"no other": {Options{}, tool, "",
			"is not allowed on this host: start hostd with --allow " + tool},
		"an allowed path":                 {Options{Allow: []string{tool}}, tool, tool, ""},
		"a link to an allowed path":       {Options{Allow: []string{tool}}, link, tool, ""},
		"an allowed link":                 {Options{Allow: []string{link}}, tool, tool, ""},
		"what is in an allowed directory": {Options{Allow: []string{beside}}, inside, inside, ""},
		"what is beside it": {Options{Allow: []string{filepath.Join(dir, "too")}}, tool, "",
			"is not allowed"},
		"a way out of an allowed directory": {Options{Allow: []string{beside}}, beside + "/../tool", "",
			"is not allowed"},
		"a program of the user":       {Options{AllowUser: true}, tool, tool, ""},
		"one that anybody may change": {Options{AllowUser: true}, open, "", "is not allowed"},
		"what is not executable":      {Options{AllowUser: true}, plain, "", "want an executable file"},
		"a directory":                 {Options{AllowUser: true}, dir, "", "want an executable file"},
		"what is not there":           {Options{AllowUser: true}, dir + "/none", "", "no such file"},
		"a relative path": {Options{AllowUser: true}, "tool", "",
			`command "tool": want an absolute path`},
		"nothing":                              {Options{AllowUser: true}, "", "", "want an absolute path"},
		"built-in actors where there are none": {Options{}, agent.Builtin, "", "has no built-in actors"},
	} {
		path, args, err := c.o.resolveCommand(agent.Command{Path: c.path, Args: []string{"-v"}}, self)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.want, path, name)
		require.Equal(t, []string{"-v"}, args, name)
	}
	path, args, err := Options{Builtin: []string{"proc"}}.resolveCommand(
		agent.Command{Path: agent.Builtin, Args: []string{"-v"}}, self)
	require.NoError(t, err)
	require.Equal(t, self, path)
	require.Equal(t, []string{"proc", "-v"}, args)
}

func TestPolicy_fixedArgumentsMustComeFirst_HOST2(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	tool, link := file(t, dir, "tool", 0o755), filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(tool, link))
	o := Options{AllowCommands: [][]string{{link, "-m", "trainer"}, {tool, "version"}}}
	for _, c := range []struct {
		allowed bool
		arg0    string
		args    []string
	}{
		{true, "", []string{"-m", "trainer"}}, {true, "", []string{"-m", "trainer", "--lr", "1"}},
		{true, "", []string{"version"}},
		{false, "", nil}, {false, "", []string{"-m"}}, {false, "", []string{"-m", "other"}},
		{false, "", []string{"-c", "-m", "trainer"}}, {false, "", []string{"-m trainer"}},
		{false, "", []string{"-m", "trainer2"}}, {false, "sh", []string{"-m", "trainer"}},
		{false, "", []string{"--", "-m", "trainer"}}, {false, "", []string{"-m", "", "trainer"}},
	} {
		_, args, err := o.resolveCommand(agent.Command{Path: tool, Arg0: c.arg0, Args: c.args}, "")
		if !c.allowed {
			require.ErrorContains(t, err, "is not allowed on this host", "%q", c.args)
			continue
		}
		require.NoError(t, err, "%q", c.args)
		require.Equal(t, c.args, args)
	}
}

func TestEnvironment_hasNoSecretsOrLoaderVariables_HOST2(t *testing.T) {
	all := map[string]string{"PATH": "/bin", "HOME": "/home/n", "NATS_TOKEN": "secret",
		"LD_PRELOAD": "x", "LANG": ""}
	require.Equal(t, []string{"PATH=/bin", "HOME=/home/n"}, baseEnv(func(k string) string { return all[k] }))
	require.NoError(t, checkEnv([]string{"A=", "B=c=d"}))
	for _, bad := range []string{"A", "=b", "", "A=hush\x00", "LD_LIBRARY_PATH=hush",
		"DYLD_INSERT_LIBRARIES=hush", "BASH_ENV=hush", "PYTHONSTARTUP=hush", "NODE_OPTIONS=hush", "PATH=hush",
		"GODEBUG=hush", "BASH_FUNC_ls%%=hush", "hush"} {
		err := checkEnv([]string{"OK=1", bad})
		require.ErrorContains(t, err, "environment entry 2", "%q", bad)
		require.NotContains(t, err.Error(), "hush", "a value may be a secret")
	}
}

func TestProc_meaningOfAnExitDependsOnTheRequest_HOST3(t *testing.T) {
	clean, code, term, kill := launch.Exit{}, launch.Exit{Code: 2}, launch.Exit{Code: -1, Signal: 15},
		launch.Exit{Code: -1, Signal: 9}
	asked, late := child{stopRequested: true, stopReason: "done"},
		child{stopRequested: true, stopReason: "done", graceExpired: true}
	for name, c := range map[string]struct {
		child   child
		exit    launch.Exit
		running bool
		want    string
	}{
		"asked, went":                {asked, clean, false, "stopped: done"},
		"asked, had no TERM handler": {asked, term, false, "stopped: done"},
		"asked, had to be killed": {late, kill, false,
			"stopped: did not stop in time: killed by signal 9 (killed)"},
		"asked, killed by another": {asked, kill, false, "stopped: killed by signal 9 (killed)"},
		"asked, fell over":         {asked, code, false, "stopped: exited with code 2"},
		"of its own, when ready":   {child{}, clean, true, "stopped: exited cleanly"},
		"of its own, before": {child{}, clean, false,
			"failed: exited with code 0 before it was ready: does its main call proc.Main first?"},
		"failed":                      {child{}, code, true, "failed: exited with code 2"},
		"terminated by somebody else": {child{}, term, true, "failed: killed by signal 15 (terminated)"},
		"ended by the host": {child{killReason: "too late", stopRequested: true}, kill, false,
			"failed: too late"},
	} {
		require.Equal(t, c.want, c.child.status(c.exit, c.running).String(), name)
	}
}

func TestHost_evictsTheOldestEndedMeshes(t *testing.T) {
	a := &hostAgent{procRecords: procRecords{table: agent.NewTable(), procs: procIndex{}}}
	var meshes []subjects.MeshID
	for range maxEnded + 2 {
		id := testproc.MeshID(t, "mesh")
		meshes = append(meshes, id)
		_, err := a.table.Create(agent.ResourceSpec{ID: id.String(), Ranks: []int{0, 1}})
		require.NoError(t, err)
		for rank := range 2 {
			a.procs.put(&child{id: subjects.ProcID{Mesh: id, Rank: uint32(rank)},
				mesh: agent.Mesh{ID: id}, rank: rank})
		}
	}
	for _, id := range meshes[1:] { // the first one lives on
		for rank := range 2 {
			a.table.Advance(id.String(), rank, agent.Status{Phase: agent.Stopped})
			c := a.procs[id.String()].procs[rank]
			c.update(func() { c.state = agent.ProcessExited })
			a.retireMesh(id)
		}
	}
	require.Len(t, a.table.States(meshes[0].String()), 2, "live meshes are never forgotten")
	require.Empty(t, a.table.States(meshes[1].String()))
	require.Len(t, a.table.States(meshes[2].String()), 2)
	require.Len(t, a.procs, maxEnded+1)
	require.Len(t, a.endedMeshes, maxEnded)
}

func TestLogs_keepTheNewestLinesThatFit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, []byte("aaaaa\nbbbbb\nccccc\n"), 0o600))
	tail := func(budget int) []string {
		s := logSource{file: logfile.File{Path: path}, marks: &logfile.Marks{}}
		return s.tail(logfile.Selection{Lines: 9}, budget).Lines
	}
	const each = 5 + lineOverhead
	require.Equal(t, []string{"aaaaa", "bbbbb", "ccccc"}, tail(3*each))
	require.Equal(t, []string{"bbbbb", "ccccc"}, tail(3*each-1))
	require.Empty(t, tail(each-1))
}

func TestAllocation_failedCloseCanBeRetried(t *testing.T) {
	calls := 0
	g := &allocation{shared: func() error {
		if calls++; calls == 1 {
			return errors.New("not now")
		}
		return nil
	}}
	require.Error(t, g.Close(t.Context()))
	for range 2 {
		require.NoError(t, g.Close(t.Context()))
	}
	require.Equal(t, 2, calls, "no further call")
}
