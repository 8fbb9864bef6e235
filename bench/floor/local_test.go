package floor_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bench/floor"
	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/local/lines"
)

// The module bench/local has no requirements, and so no tests of its own. These hold its promises,
// on the simplest system.

// faulty is the floor with a lost message, a wrong answer, or a failed spawn.
type faulty struct {
	local.System
	loses   int64 // the message of this number, from 1, of those from outside
	answers any
	fault   local.Fault
	fails   error
	told    atomic.Int64
	closed  bool
}

func (f *faulty) make(ctx context.Context, fault local.Fault) (_ local.System, err error) {
	f.fault = fault
	f.System, err = floor.New(ctx, fault)
	return f, err
}

func (f *faulty) Spawn(b local.Behavior) local.Ref {
	if f.fails != nil {
		f.fault(f.fails)
	}
	return f.System.Spawn(b)
}

func (f *faulty) Tell(to local.Ref, m any) {
	if f.told.Add(1) != f.loses {
		f.System.Tell(to, m)
	}
}

func (f *faulty) Ask(to local.Ref, m any) any {
	f.System.Ask(to, m)
	return f.answers
}

func (f *faulty) Close(context.Context) error {
	f.closed = true
	return nil
}

func TestRun_lostMessageIsAnErrorInTime_LOC3(t *testing.T) {
	for _, w := range local.Workloads() {
		if strings.Contains(w.Name, "ask") || w.Fresh {
			continue // they tell nothing
		}
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{loses: 1}
			start := time.Now()
			_, err := local.Run(t.Context(), w, 20, f.make)
			require.EqualError(t, err, "not done within 30s", w.Name)
			require.Equal(t, local.Patience, time.Since(start), "LOC-3")
			require.True(t, f.closed)
		})
	}
}

func TestRun_wrongAnswerIsAnError_LOC3(t *testing.T) {
	for _, name := range []string{"local-ask-p50", "local-ask-64"} {
		w, ok := local.Find(name)
		require.True(t, ok)
		_, err := local.Run(t.Context(), w, 200, (&faulty{answers: "what?"}).make)
		require.EqualError(t, err, "asked and answered with what? of type string: want what was asked")
	}
}

func TestRun_reportsAFault(t *testing.T) {
	fails := errors.New("no room")
	for _, w := range local.Workloads() {
		_, err := local.Run(t.Context(), w, 20, (&faulty{fails: fails, answers: "what?"}).make)
		require.ErrorIs(t, err, fails, w.Name)
	}
}

func TestRun_reportsASystemThatCannotStart(t *testing.T) {
	w := local.Workloads()[0]
	_, err := local.Run(t.Context(), w, 1, func(context.Context, local.Fault) (local.System, error) {
		return nil, errors.New("no room")
	})
	require.EqualError(t, err, "make the system: no room")
}

// serve answers requests until the last line, and returns the lines of its answers.
func serve(t *testing.T, makeSystem local.Maker, requests ...string) []string {
	t.Helper()
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	result := make(chan error, 1)
	go func() {
		result <- local.Serve(in, out, makeSystem)
		out.Close()
	}()
	var said []string
	for _, r := range requests {
		_, err := io.WriteString(feed, r+"\n")
		require.NoError(t, err)
		line := make([]byte, 1000)
		n, err := answers.Read(line)
		require.NoError(t, err)
		said = append(said, string(line[:n]))
	}
	feed.Close()
	require.NoError(t, <-result)
	return said
}

func TestServe_answersEachLineWithOne(t *testing.T) {
	said := serve(t, floor.New, lines.Request("local-tell-1to1-0B", 100), "local-tell-1to1-0B many",
		lines.Request("local-ask-p50", 100), "nothing 5", "local-ask-p50 0", "", lines.Request("spawn-time", 10))
	values, errs := make([][]float64, len(said)), make([]error, len(said))
	for i, line := range said {
		require.Equal(t, 1, strings.Count(line, "\n"), line)
		values[i], errs[i] = lines.Parse(strings.TrimSuffix(line, "\n"))
	}
	for _, i := range []int{0, 2, 6} {
		require.NoError(t, errs[i])
		require.Len(t, values[i], 1)
		require.Positive(t, values[i][0])
	}
	require.EqualError(t, errs[1],
		`request "local-tell-1to1-0B many": want how much to do, a number from 1, after the name`)
	require.EqualError(t, errs[3], `request "nothing 5": there is no workload "nothing"`)
	require.EqualError(t, errs[4],
		`request "local-ask-p50 0": want how much to do, a number from 1, after the name`)
	require.EqualError(t, errs[5], `request "": there is no workload ""`)
}

func TestServe_multilineErrorIsOneLine(t *testing.T) {
	said := serve(t, func(context.Context, local.Fault) (local.System, error) {
		return nil, errors.New("no\n\"room\"")
	}, lines.Request("local-ask-p50", 1))
	_, err := lines.Parse(strings.TrimSuffix(said[0], "\n"))
	require.EqualError(t, err, "make the system: no\n\"room\"")
}

func TestServe_closesTheSystemsOfFreshWorkloads(t *testing.T) {
	for _, w := range local.Workloads() {
		f := &faulty{}
		if strings.Contains(w.Name, "ask") {
			continue // its answers are wrong
		}
		serve(t, f.make, lines.Request(w.Name, 20))
		require.Equal(t, !w.Fresh, f.closed, w.Name)
	}
}

func TestServe_endOfInputEndsAWaitAtOnce_LOC3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := io.Pipe()
		f := &faulty{loses: 1}
		var out strings.Builder
		result := make(chan error, 1)
		go func() { result <- local.Serve(in, &out, f.make) }()
		_, err := io.WriteString(feed, lines.Request("local-tell-1to1-0B", 10)+"\n")
		require.NoError(t, err)
		synctest.Wait() // all but one are handled, and it waits for that
		start := time.Now()
		feed.Close()
		require.NoError(t, <-result)
		require.Zero(t, time.Since(start))
		_, err = lines.Parse(strings.TrimSpace(out.String()))
		require.EqualError(t, err, "nobody waits for it any more")
	})
}
