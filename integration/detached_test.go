package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/examples/wordcount/counting"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testmesh"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/system"
)

// shell runs programs as a user would, one after another.
type shell struct {
	*testing.T
	env []string
	cli string // the nats command
}

// run runs a command, requires success, and returns its output.
func (s shell) run(path string, args ...string) string {
	s.Helper()
	out, errs, err := s.answered(path, args...)
	require.NoError(s, err, "%s %v: %s%s", path, args, out, errs)
	return out
}

// answered runs a command, again as long as a host is slow to answer.
func (s shell) answered(path string, args ...string) (stdout, stderr string, err error) {
	s.Helper()
	for range 10 {
		cmd := exec.CommandContext(s.Context(), path, args...)
		cmd.Env = s.env
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err = cmd.Run()
		stdout, stderr = out.String(), errs.String()
		slow := strings.Contains(stderr, "hosts did not answer") ||
			strings.Contains(stderr, "doctor: hosts has failed")
		if err == nil || cmd.ProcessState.ExitCode() != cli.ExitPartial || !slow {
			break
		}
	}
	return stdout, stderr, err
}

// count makes the mesh words count a folder, through the nats command, and returns the number of
// words.
func (s shell) count(folder string) (words int64) {
	s.Helper()
	job, err := json.Marshal(counting.Job{Folder: folder, Suffix: ".go"})
	require.NoError(s, err)
	out := s.run(s.cli, "req", "castnet.v1.default.cast.words.wordcount.count.u-anon.x", string(job), "--raw",
		"--timeout", testkit.Patience.String())
	var shares []counting.Share
	require.NoError(s, json.Unmarshal([]byte(out), &shares), out)
	require.Len(s, shares, 4)
	for _, share := range shares {
		words += share.Words
	}
	return words
}

// detached is the system controller's record of the mesh words.
func detached(t *testing.T, conn *mesh.Net) (d system.DetachedState, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	all, err := conn.Detached(ctx)
	if err != nil || len(all) == 0 {
		return d, false
	}
	return all[0], all[0].Reason == ""
}

// awaitNextOwner waits until a later system controller than the first owns the mesh. A controller
// that is slow may lose its term, so there may have been several.
func awaitNextOwner(t *testing.T, conn *mesh.Net, why string) (d system.DetachedState) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		d, ok = detached(t, conn)
		return ok && d.Claim.Epoch > 2
	}, testkit.Patience, poll, why)
	return d
}

// The mesh of the demo outlives its command, and the hostd that owned it.
func TestDetached_wordCountServesNATSClientsAndIsAdopted(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	c := newClusterOn(t, embed.Options{Token: token, JetStream: true}, "a", "b")
	conn := c.connect(t)
	first := c.startNode(t, "s1", "--system")
	require.Eventually(t, func() bool {
		_, err := system.Find(t.Context(), conn.Proc())
		return err == nil
	}, testkit.Patience, poll)
	c.startNode(t, "s2", "--system")
	s := shell{t, c.environment(t), natsCLI(t)}
	client, folder := program("castnet"), corpus(t)
	_, _, want := oracle(t, folder, ".go")

	s.run(client, "spawn", "words", "--hosts", "a,b", "--per-host", "2", "--command", program("wordcount"),
		"--actor", "wordcount", "--detach")
	require.Equal(t, want, s.count(folder))
	words, err := conn.Lookup(t.Context(), "words")
	require.NoError(t, err)
	before := testmesh.PIDs(t, conn, words.ID().String())
	require.Len(t, before, 4)

	first.kill(t)
	require.Equal(t, want, s.count(folder), "casts need no owner")
	d := awaitNextOwner(t, conn, "the other hostd owns it")
	require.Equal(t, before, testmesh.PIDs(t, conn, words.ID().String()))

	epoch := strconv.FormatUint(d.Claim.Epoch, 10)
	adopter := c.start(t, "castnet", "adopt", "words", "--epoch", epoch, "-o", "ndjson")
	adopter.Out.Find(t, `"kind":"up"`)
	_, ok := detached(t, conn)
	require.False(t, ok)
	s.run(client, "grow", "words", "--hosts", "s2")
	require.Len(t, testmesh.PIDs(t, conn, words.ID().String()), 6)
	s.run(client, "shrink", "words", "1")
	require.Equal(t, want, s.count(folder))
	require.Equal(t, before, testmesh.PIDs(t, conn, words.ID().String()))
	adopter.Send(t, syscall.SIGINT)
	require.Zero(t, adopter.Exit(t), adopter.Said())
	require.Empty(t, testmesh.PIDs(t, conn, words.ID().String()))
	c.awaitNoProcess(t, program("wordcount"))
}

// A program detaches its mesh and ends. The next programs adopt it, and grow and shrink it.
func TestDetached_theMeshOfAnEndedProgramGrowsUnderTheNextOnes(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	c := newClusterOn(t, embed.Options{Token: token, JetStream: true}, "a", "b")
	conn := c.connect(t)
	c.startNode(t, "c", "--system").ready(t)
	maker := c.startOwner(t, "")
	made := maker.send(t, spawnOnOne)
	id, ok := strings.CutPrefix(made, "mesh ")
	require.True(t, ok, made)
	require.Equal(t, made, maker.send(t, detachProcs))
	maker.end(t)
	owned, err := conn.Lookup(t.Context(), "owned")
	require.NoError(t, err)
	ranks := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool { return owned.Extent().NumRanks() == want }, testkit.Patience, poll,
			"an earlier handle follows")
		require.Len(t, testmesh.PIDs(t, conn, id), want)
	}
	ranks(2)
	before := testmesh.PIDs(t, conn, id)

	next := c.startOwner(t, "")
	require.Equal(t, made, next.send(t, adoptProcs))
	require.Equal(t, "host=2,gpu=2", next.send(t, growProcs))
	ranks(4)
	require.Equal(t, "host=1,gpu=2", next.send(t, shrinkProcs))
	ranks(2)
	require.Equal(t, before, testmesh.PIDs(t, conn, id))
	require.Equal(t, "host=2,gpu=2", next.send(t, growProcs))
	require.Equal(t, made, next.send(t, detachProcs))
	next.end(t)
	ranks(4)

	s := shell{t, c.environment(t), ""}
	adopter := c.start(t, "castnet", "adopt", "owned", "-o", "ndjson")
	adopter.Out.Find(t, `"kind":"up"`)
	s.run(program("castnet"), "grow", "owned", "1")
	ranks(6)
	s.run(program("castnet"), "shrink", "owned", "2")
	ranks(2)
	require.Equal(t, before, testmesh.PIDs(t, conn, id))
	adopter.Send(t, syscall.SIGINT)
	require.Zero(t, adopter.Exit(t), adopter.Said())
	require.Empty(t, testmesh.PIDs(t, conn, id))
}

// A hostd that shuts down leaves its world. The system controller remembers the order.
func TestExplain_namesTheUserWhoShutDownAHostOfAWorld(t *testing.T) {
	skipIfRecorded(t)
	t.Parallel()
	c := newClusterOn(t, embed.Options{Token: token, JetStream: true})
	c.startNode(t, "s", "--system").ready(t)
	gone := c.startNode(t, "n2", "--world", "train", "--host-rank", "1")
	c.startNode(t, "n1", "--world", "train", "--host-rank", "0").ready(t)
	gone.ready(t)
	file := filepath.Join(t.TempDir(), "world.yaml")
	spec := "name: train\nshape: x=4\nper-host: 2\ncommand: " + program("wordcount") + "\n"
	require.NoError(t, os.WriteFile(file, []byte(spec), 0o600))
	s, client := shell{t, c.environment(t), ""}, program("castnet")
	s.run(client, "apply", "-f", file, "--wait")
	s.run(client, "hosts", "drain", "n1", "--force", "--reason", "new disks")
	s.run(client, "hosts", "shutdown", "n2", "--reason", "old disks")
	gone.killed = true
	require.Zero(t, gone.Exit(t))
	said := s.run(client, "explain", "train")
	require.Regexp(t, `the world has no host with rank 1: host n2 was shut down by o-\w+: old disks; it has 2 ranks`,
		said)
	require.Regexp(t, `\[x=0:2\] stopped: host n1 was drained by o-\w+: new disks\n`, said)
	require.Contains(t, said, "start the procs of n1 again: stop its hostd (SIGTERM), and start it with --world train "+
		"--host-rank 0\n")
	require.Contains(t, said, "start a hostd with --world train --host-rank 1\n")
}
