//go:build failpoint

package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cgroup"
	"github.com/castnet-io/castnet/internal/failpoint"
	"github.com/castnet-io/castnet/internal/logfile"
)

// placeVar names the state directory in the environment of all processes of a test, so survivors
// can be found.
const placeVar = "CASTNET_LAUNCH_TEST_PLACE"

// life is one life of a host. It adopts the recorded procs of the last one, takes the census,
// launches missing procs, kept and not, and ends all of it.
func life() {
	dir := os.Args[1]
	env := []string{placeVar + "=" + dir, "PATH=" + os.Getenv("PATH")}
	l := New(Options{StateDir: dir, Cgroup: os.Args[3]})
	file := filepath.Join(dir, "record")
	keptChild, err := l.Adopt(readRecord(file))
	if err != nil {
		keptChild = nil
	}
	_, err = l.KillLeftovers()
	check(err)
	if keptChild == nil {
		keptChild, err = l.Launch(Spec{
			Name: "kept", Path: os.Args[0], Env: append(env, modeVar+"=kept"), LogDir: dir, Keep: true,
			Payload: make([]byte, 1<<19),
		})
		check(err)
		data, err := json.Marshal(keptChild.Record())
		check(err)
		check(os.WriteFile(file+".new", data, 0o600))
		failpoint.Hit("test-unrecorded")
		check(os.Rename(file+".new", file))
		failpoint.Hit("test-recorded")
	}
	plain, err := l.Launch(Spec{
		Name: "plain", Path: "/bin/sh", Args: []string{"-c", scattered + "echo all; wait"}, Env: env, LogDir: dir,
		Limits: Limits{Files: 64},
	})
	check(err)
	for !strings.Contains(strings.Join(plain.Output()[logfile.Stdout].Tail(20), "\n"), "all") {
		time.Sleep(time.Millisecond)
	}
	if os.Args[2] == "stays" {
		check(l.Detach())
		return
	}
	for _, c := range []*Child{plain, keptChild} {
		c.Terminate(5 * time.Second)
	}
	<-plain.Done()
	<-keptChild.Done()
	check(l.Close())
}

func readRecord(file string) (r Record) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	check(err)
	check(json.Unmarshal(data, &r))
	return r
}

// points are all of doc.go's and of package cgroup's, and the test's own write of its record.
var points = []string{
	"launch-planted", "launch-forked", "launch-payload", "launch-delivered", "launch-tree-killed",
	"launch-reaped",
	"adopt-verified", "adopt-held", "census-killed", "test-unrecorded", "test-recorded",
}

// F5: a launcher dies at any point, at any hit. The next one finds its processes: never two of one
// name, and none in the end.
func TestFailpoints_nextLauncherFindsEveryChild_LCH9(t *testing.T) {
	place := ownPlace(t)
	outer := New(Options{Cgroup: cgroup.None})
	defer func() { require.NoError(t, outer.Close()) }()
	live := func(dir, end, point string) Exit {
		spec := specOf(t, "life", dir, end, place)
		spec.Env = append(spec.Env, failpoint.EnvVar+"="+point, "PATH="+os.Getenv("PATH"))
		c := mustLaunch(t, outer, spec)
		e := exitOf(t, c)
		require.True(t, e.Clean() || e.Signal == int(syscall.SIGKILL), "%s: %v %v", point, e, e.StderrTail)
		return e
	}
	for _, point := range points {
		died := 0
		for _, hit := range []string{"", ":2"} {
			dir := t.TempDir()
			if hit == "" && (strings.HasPrefix(point, "adopt") || strings.HasPrefix(point, "census")) {
				require.True(t, live(dir, "stays", "launch-reaped:9").Clean()) // leaves something to find
			}
			if point == "census-killed" { // what it has to find is not kept
				live(dir, "stays", "launch-delivered")
			}
			if !live(dir, "ends", point+hit).Clean() {
				died++
			}
			require.LessOrEqual(t, keptIn(t, dir), 1, "%s: two of one name", point)
			live(dir, "stays", "nowhere")
			require.Equal(t, 1, keptIn(t, dir), "%s: the next one adopts it or launches it", point)
			require.True(t, live(dir, "ends", "nowhere").Clean(), point)
			require.Eventually(t, func() bool { return len(survivors(dir)) == 0 }, patience, time.Millisecond,
				"%s%s: %v", point, hit, survivors(dir))
		}
		require.Positive(t, died, "%s is never hit", point)
	}
}

// survivors are the processes with dir in their environment.
func survivors(dir string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), placeVar+"="+dir) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

func keptIn(t *testing.T, dir string) (n int) {
	for _, pid := range survivors(dir) {
		if data, err := os.ReadFile("/proc/" + pid + "/environ"); err == nil &&
			strings.Contains(string(data), modeVar+"=kept") {
			n++
		}
	}
	return n
}

// F29: a machine without room for processes.
func TestFailpoints_refusedForkLeavesNothing_LCH3(t *testing.T) {
	outer := New(Options{Cgroup: cgroup.None})
	defer func() { require.NoError(t, outer.Close()) }()
	spec := specOf(t, "refused", t.TempDir())
	spec.Env = append(spec.Env, failpoint.RefuseVar+"=launch-fork:4", "PATH="+os.Getenv("PATH"))
	e := exitOf(t, mustLaunch(t, outer, spec))
	require.True(t, e.Clean(), "%v %v", e, e.StderrTail)
}

// refused is a life with refused forks: the open files and the processes are as before.
func refused() {
	dir := os.Args[1]
	l := New(Options{StateDir: dir})
	spec := Spec{Name: "one", Path: "/bin/sh", Args: []string{"-c", "exit 0"}, LogDir: dir,
		Limits: Limits{Files: 64}}
	kept := spec
	kept.Name, kept.Keep = "two", true
	before := 0
	for i, s := range []Spec{spec, kept, spec, kept} {
		if i == 2 { // what is opened once is open
			before = descriptors()
		}
		_, err := l.Launch(s)
		failure, ok := errors.AsType[*LaunchError](err)
		if !ok || !errors.Is(err, syscall.EAGAIN) || failure.Name != s.Name ||
			!strings.Contains(err.Error(), "fork: the user") {
			check(fmt.Errorf("want a *LaunchError of %s for EAGAIN, got %v", s.Name, err))
		}
	}
	files, err := os.ReadDir(dir)
	check(err)
	if now := descriptors(); now != before || len(files) > 0 {
		check(fmt.Errorf("%d descriptors before, %d now; files: %v", before, now, files))
	}
	c, err := l.Launch(spec)
	check(err)
	<-c.Done()
	check(l.Close())
}

func descriptors() int {
	open, err := os.ReadDir("/proc/self/fd")
	check(err)
	return len(open)
}
