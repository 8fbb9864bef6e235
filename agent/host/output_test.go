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
	"github.com/castnet-io/castnet/subjects"
)

// fakeConn takes what an output publishes.
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

func newOutput() (*output, *fakeConn) {
	w := &fakeConn{}
	o := &output{conn: w, own: &allowance{rate: procRate}, all: &allowance{rate: hostRate}, told: make(chan struct{})}
	o.streams[launch.Stdout].subject, o.streams[launch.Stderr].subject = "out", "err"
	return o, w
}

func TestOutput_linesThatComeTogetherAreOneMessage(t *testing.T) {
	o, w := newOutput()
	now := time.Now()
	for _, line := range []string{"a", "", "b"} {
		o.line(launch.Stdout, []byte(line), now)
	}
	o.line(launch.Stderr, []byte("ouch"), now)
	o.round(now)
	require.Equal(t, []string{"out a\n\nb", "err ouch"}, w.sent)
	o.line(launch.Stdout, nil, now)
	o.round(now)
	o.round(now)
	require.Equal(t, []string{"out a\n\nb", "err ouch", "out "}, w.sent, "an empty line is an empty message")

	for range 10_000 {
		o.line(launch.Stdout, []byte("0123456789"), now)
	}
	o.round(now)
	require.Len(t, w.lines("out"), 4+10_000)
	for _, m := range w.sent {
		require.LessOrEqual(t, len(m), batchBytes+len("out "))
	}
}

func TestOutput_aFloodIsLimitedAndSaysHowMuchIsLeftOut(t *testing.T) {
	o, w := newOutput()
	const n = 100_000
	now := time.Now()
	for i := range n {
		o.line(launch.Stdout, fmt.Appendf(nil, "%031d", i), now)
	}
	o.line(launch.Stderr, []byte("ouch"), now)
	o.round(now)
	shown := procRate / 32
	require.Len(t, w.lines("out"), shown)
	require.Empty(t, w.lines("err"), "the limit is the proc's")
	require.LessOrEqual(t, cap(o.streams[launch.Stdout].out.held), 4*heldBytes)

	o.round(now.Add(time.Second))
	got := w.lines("out")
	var left int
	_, err := fmt.Sscanf(got[shown], "[castnet] %d lines left out", &left)
	require.NoError(t, err, got[shown])
	rest := got[shown+1:]
	require.Equal(t, n, shown+left+len(rest), "each line is shown or counted")
	require.GreaterOrEqual(t, len(rest), heldBytes/32-1)
	for i, line := range rest {
		require.Equal(t, fmt.Sprintf("%031d", shown+left+i), line)
	}
	require.Equal(t, []string{"ouch"}, w.lines("err"), "what was only late is shown whole")
	o.line(launch.Stdout, []byte("and on"), now.Add(time.Second))
	o.round(now.Add(time.Second))
	require.Equal(t, "and on", w.lines("out")[len(got)])
}

func TestOutput_allProcsOfAHostTogetherAreLimited(t *testing.T) {
	shared := &allowance{rate: 1000}
	a, wa := newOutput()
	b, wb := newOutput()
	a.all, b.all = shared, shared
	now := time.Now()
	a.line(launch.Stdout, make([]byte, 900), now)
	b.line(launch.Stdout, make([]byte, 900), now)
	a.round(now)
	b.round(now)
	require.Len(t, wa.sent, 1)
	require.Empty(t, wb.sent)
	b.round(now.Add(time.Second))
	require.Len(t, wb.sent, 1)
}

func TestOutput_whatIsLostWithTheBusIsCountedOnce(t *testing.T) {
	o, w := newOutput()
	now := time.Now()
	w.broken = errors.New("no server")
	for i := range 3 {
		o.line(launch.Stdout, fmt.Append(nil, i), now)
		o.round(now)
		o.round(now)
	}
	w.broken = nil
	o.round(now)
	o.line(launch.Stdout, []byte("again"), now)
	o.round(now)
	require.Equal(t, []string{"[castnet] 3 lines left out", "again"}, w.lines("out"))
}

func TestOutput_whatWasNeverReadIsSaid(t *testing.T) {
	o, w := newOutput()
	now := time.Now()
	o.streams[launch.Stdout].out.skipped = 5
	o.line(launch.Stdout, []byte("next"), now)
	o.round(now)
	require.Equal(t, []string{"[castnet] 5 bytes that came faster than they could be read", "next"}, w.lines("out"))
	require.Equal(t, "1 line left out, and 7 bytes that came faster than they could be read", (&leftOut{lines: 1, skipped: 7}).String())
}

func TestOutput_theEndOfAProcWaitsForItsLinesButNotForLong(t *testing.T) {
	o, _ := newOutput()
	o.drain(launch.Exit{At: time.Now().Add(-drainWithin)}, drainWithin) // nothing is told: the bus is stuck
	close(o.told)
	o.drain(launch.Exit{At: time.Now().Add(time.Hour)}, drainWithin)
	o = nil
	o.drain(launch.Exit{At: time.Now().Add(time.Hour)}, drainWithin)
}

func TestOutput_aProcThatIsForgottenLeavesNoFiles(t *testing.T) {
	l := launch.New(launch.Options{})
	defer l.Close()
	dir := t.TempDir()
	process, err := l.Launch(launch.Spec{Name: "p", Path: "/bin/sh", Args: []string{"-c", "exit 0"}, LogDir: dir})
	require.NoError(t, err)
	<-process.Done()
	mesh, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	a := &hostAgent{table: agent.NewTable(), shares: shares{}}
	a.shares.put(&child{mesh: agent.Mesh{ID: mesh}, process: process})
	a.ended = make([]subjects.MeshID, maxEnded)
	a.ended[0] = mesh
	another, err := subjects.NewMeshID("m")
	require.NoError(t, err)
	a.shares[another.String()] = &share{}
	a.retire(another) // one too many
	require.NotContains(t, a.shares, mesh.String())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
