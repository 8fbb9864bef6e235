package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

// fakeConn records the publishes of an output.
type fakeConn struct {
	sent   []string // subject, blank, data
	broken error
}

func (w *fakeConn) Publish(subject string, data []byte) error {
	if w.broken != nil {
		return w.broken
	}
	w.sent = append(w.sent, subject+" "+string(data))
	return nil
}

func (w *fakeConn) Flush(context.Context) error { return w.broken }

func (w *fakeConn) MaxPayload() int { return 1 << 20 }

// lines are those published on a subject.
func (w *fakeConn) lines(subject string) (all []string) {
	for _, m := range w.sent {
		if data, ok := strings.CutPrefix(m, subject+" "); ok {
			all = append(all, strings.Split(data, "\n")...)
		}
	}
	return all
}

func newOutput() (*outputPublisher, *fakeConn) {
	w := &fakeConn{}
	o := &outputPublisher{conn: w, procQuota: &quota{rate: procRate}, hostQuota: &quota{rate: hostRate},
		done: make(chan struct{})}
	o.streams[logfile.Stdout].subject, o.streams[logfile.Stderr].subject = "out", "err"
	return o, w
}

func TestOutput_adjacentLinesShareAMessage(t *testing.T) {
	o, w := newOutput()
	now := time.Now()
	for _, line := range []string{"a", "", "b"} {
		o.addLine(logfile.Stdout, []byte(line), now)
	}
	o.addLine(logfile.Stderr, []byte("ouch"), now)
	o.publishRound(now)
	require.Equal(t, []string{"out a\n\nb", "err ouch"}, w.sent)
	o.addLine(logfile.Stdout, nil, now)
	o.publishRound(now)
	o.publishRound(now)
	require.Equal(t, []string{"out a\n\nb", "err ouch", "out "}, w.sent, "an empty line is an empty message")

	for range 10_000 {
		o.addLine(logfile.Stdout, []byte("0123456789"), now)
	}
	o.publishRound(now)
	require.Len(t, w.lines("out"), 4+10_000)
	for _, m := range w.sent {
		require.LessOrEqual(t, len(m), batchBytes+len("out "))
	}
}

func TestOutput_floodIsLimitedAndCountsDroppedLines(t *testing.T) {
	o, w := newOutput()
	const n = 100_000
	now := time.Now()
	for i := range n {
		o.addLine(logfile.Stdout, fmt.Appendf(nil, "%031d", i), now)
	}
	o.addLine(logfile.Stderr, []byte("ouch"), now)
	o.publishRound(now)
	shown := procRate / 32
	require.Len(t, w.lines("out"), shown)
	require.Empty(t, w.lines("err"), "the limit is the proc's")
	require.LessOrEqual(t, cap(o.streams[logfile.Stdout].omitted.held), 4*maxHeldBytes)

	o.publishRound(now.Add(time.Second))
	got := w.lines("out")
	var left int
	_, err := fmt.Sscanf(got[shown], "[castnet] %d lines left out", &left)
	require.NoError(t, err, got[shown])
	rest := got[shown+1:]
	require.Equal(t, n, shown+left+len(rest), "each line is shown or counted")
	require.GreaterOrEqual(t, len(rest), maxHeldBytes/32-1)
	for i, line := range rest {
		require.Equal(t, fmt.Sprintf("%031d", shown+left+i), line)
	}
	require.Equal(t, []string{"ouch"}, w.lines("err"), "late lines are complete")
	o.addLine(logfile.Stdout, []byte("and on"), now.Add(time.Second))
	o.publishRound(now.Add(time.Second))
	require.Equal(t, "and on", w.lines("out")[len(got)])
}

func TestOutput_totalOfAllProcsIsLimited(t *testing.T) {
	shared := &quota{rate: 1000}
	a, wa := newOutput()
	b, wb := newOutput()
	a.hostQuota, b.hostQuota = shared, shared
	now := time.Now()
	a.addLine(logfile.Stdout, make([]byte, 900), now)
	b.addLine(logfile.Stdout, make([]byte, 900), now)
	a.publishRound(now)
	b.publishRound(now)
	require.Len(t, wa.sent, 1)
	require.Empty(t, wb.sent)
	b.publishRound(now.Add(time.Second))
	require.Len(t, wb.sent, 1)
}

func TestOutput_linesLostWithTheBusAreCountedOnce(t *testing.T) {
	o, w := newOutput()
	now := time.Now()
	w.broken = errors.New("no server")
	for i := range 3 {
		o.addLine(logfile.Stdout, fmt.Append(nil, i), now)
		o.publishRound(now)
		o.publishRound(now)
	}
	w.broken = nil
	o.publishRound(now)
	o.addLine(logfile.Stdout, []byte("again"), now)
	o.publishRound(now)
	require.Equal(t, []string{"[castnet] 3 lines left out", "again"}, w.lines("out"))
}

func TestOutput_unreadLinesAreReported(t *testing.T) {
	o, w := newOutput()
	now := time.Now()
	o.streams[logfile.Stdout].omitted.skipped = 5
	o.addLine(logfile.Stdout, []byte("next"), now)
	o.publishRound(now)
	require.Equal(t, []string{"[castnet] 5 bytes that came faster than they could be read", "next"},
		w.lines("out"))
	require.Equal(t, "1 line left out, and 7 bytes that came faster than they could be read",
		(&omittedOutput{lines: 1, skipped: 7}).String())
}

func TestOutput_procEndBrieflyAwaitsItsLines(t *testing.T) {
	o, _ := newOutput()
	// no publish succeeds: the bus is stuck
	o.drain(launch.Exit{At: time.Now().Add(-outputDrainTimeout)}, outputDrainTimeout)
	close(o.done)
	o.drain(launch.Exit{At: time.Now().Add(time.Hour)}, outputDrainTimeout)
	o = nil
	o.drain(launch.Exit{At: time.Now().Add(time.Hour)}, outputDrainTimeout)
}

func TestOutput_forgottenProcLeavesNoFiles(t *testing.T) {
	l := launch.New(launch.Options{})
	defer l.Close()
	dir := t.TempDir()
	process, err := l.Launch(launch.Spec{Name: "p", Path: "/bin/sh",
		Args: []string{"-c", "exit 0"}, LogDir: dir})
	require.NoError(t, err)
	<-process.Done()
	mesh := testproc.MeshID(t, "m")
	a := &hostAgent{procRecords: procRecords{table: agent.NewTable(), procs: procIndex{}}}
	a.procs.put(&child{mesh: agent.Mesh{ID: mesh}, process: process})
	a.endedMeshes = make([]subjects.MeshID, maxEnded)
	a.endedMeshes[0] = mesh
	another := testproc.MeshID(t, "m")
	a.procs[another.String()] = &meshProcs{}
	a.retireMesh(another) // one too many
	require.NotContains(t, a.procs, mesh.String())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestOutput_filesOfEarlierGenerationsAreBounded(t *testing.T) {
	l := launch.New(launch.Options{})
	defer l.Close()
	dir := t.TempDir()
	all := procIndex{}
	mesh := agent.Mesh{ID: testproc.MeshID(t, "m")}
	for gen := range uint32(maxEarlier + 3) {
		process, err := l.Launch(launch.Spec{
			Name: fmt.Sprint("p", gen), Path: "/bin/sh", Args: []string{"-c", "exit 0"}, LogDir: dir,
		})
		require.NoError(t, err)
		<-process.Done()
		all.put(&child{id: subjects.ProcID{Mesh: mesh.ID, Gen: gen}, mesh: mesh, process: process})
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2*(maxEarlier+1))
	require.Equal(t, "p2.stderr.log", left[0].Name(), "the oldest are gone")
}
