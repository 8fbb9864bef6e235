package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// Speaker prints.
type Speaker struct{}

var (
	speaker = actor.NewType[*Speaker, actor.None]("speaker")
	utter   = actor.NewEndpoint[*Speaker, string, actor.None]("utter")
	spout   = actor.NewEndpoint[*Speaker, int, actor.None]("spout")
)

func speakers() actor.Def {
	return speaker.Define(func(*actor.Context, actor.None) (*Speaker, error) { return &Speaker{}, nil },
		utter.Handle((*Speaker).utter), spout.Handle((*Speaker).spout))
}

// utter prints a line to stderr.
func (s *Speaker) utter(_ *actor.Context, line string) (actor.None, error) {
	fmt.Fprintln(os.Stderr, line)
	return actor.None{}, nil
}

// spout prints lines of 1 KiB to stdout.
func (s *Speaker) spout(_ *actor.Context, lines int) (actor.None, error) {
	padding := strings.Repeat("x", 1<<10)
	for i := range lines {
		if _, err := fmt.Println(i, padding); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, nil
}

func (s *Speaker) Cleanup(*actor.Context, error) error {
	fmt.Println("good-bye")
	return nil
}

// speaking is a mesh with speakers, and what a stream of its logs has passed to the test.
type speaking struct {
	procs    mesh.ProcMesh
	speakers mesh.ActorMesh[*Speaker]
	stream   *mesh.LogStream
	heard    *testkit.Notes[mesh.LogLine]
}

func (c *cluster) speak(t *testing.T, conn *mesh.Net, perHost int, o mesh.LogOptions) speaking {
	t.Helper()
	procs, err := c.AllHosts(t, conn).Spawn(t.Context(), "speakers", shape.Of("gpu", perHost))
	require.NoError(t, err)
	speakers, err := mesh.Spawn(t.Context(), procs, speaker, "speakers", actor.None{})
	require.NoError(t, err)
	s := speaking{procs, speakers, nil, &testkit.Notes[mesh.LogLine]{}}
	if o.Handle == nil {
		o.Handle = func(l mesh.LogLine) error {
			s.heard.Add(l)
			return nil
		}
	}
	s.stream, err = procs.StreamLogs(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.stream.Close() }) // one test ends it by an error
	return s
}

// texts are the lines in their printed form.
func (s speaking) texts() (all []string) {
	for _, l := range s.heard.All(nil) {
		all = append(all, l.String())
	}
	return all
}

func (s speaking) utter(t *testing.T, line string) {
	t.Helper()
	_, err := cast.Gather(t.Context(), s.speakers, utter, line)
	require.NoError(t, err)
}

func TestStreamLogs_foldsEqualLinesOfAllRanks_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	s := c.speak(t, c.Net, 4, mesh.LogOptions{FoldWindow: time.Hour})
	s.utter(t, "ready")
	lines := s.heard.Await(t, 1, nil) // a line of all ranks waits for no window
	require.Equal(t, "[* stderr] 8× ready", lines[0].String())
	require.Contains(t, []string{"a", "b"}, lines[0].Host)
	require.WithinDuration(t, time.Now(), lines[0].Time, testkit.Patience)
	_, err := utter.Call(t.Context(), s.speakers.At("host", 1, "gpu", 2), "alone")
	require.NoError(t, err)
	require.NoError(t, s.stream.Flush(t.Context()), "a flush waits for no window either")
	require.Equal(t, []string{"[* stderr] 8× ready", "[host=1,gpu=2 stderr] alone"}, s.texts())
}

// A line that was printed before a reply is there after a flush: once, and in the order of its rank.
func TestStreamLogs_flushIsABarrier_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	s := c.speak(t, c.Net, 2, mesh.LogOptions{FoldWindow: -1})
	var want []string
	for i := range 40 {
		s.utter(t, fmt.Sprint("line ", i))
		require.NoError(t, s.stream.Flush(t.Context()))
		want = append(want, fmt.Sprint("line ", i))
		for rank := range 4 {
			of := s.heard.All(func(l mesh.LogLine) bool { return l.Rank == rank })
			require.Equal(t, want, textsOf(of), "rank %d", rank)
		}
	}
}

func textsOf(lines []mesh.LogLine) (all []string) {
	for _, l := range lines {
		all = append(all, l.Text)
	}
	return all
}

func TestStreamLogs_beginsAtTheTailAndFilters_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	all := c.speak(t, c.Net, 1, mesh.LogOptions{})
	for _, line := range []string{"one", "two", "three"} {
		all.utter(t, line)
	}
	for _, test := range []struct {
		options mesh.LogOptions
		want    []string
	}{
		{mesh.LogOptions{}, []string{"one", "two", "three", "four"}},
		{mesh.LogOptions{LogQuery: mesh.LogQuery{Lines: 2}}, []string{"two", "three", "four"}},
		{mesh.LogOptions{LogQuery: mesh.LogQuery{Lines: -1}}, []string{"four"}},
		{mesh.LogOptions{LogQuery: mesh.LogQuery{Grep: "o"}}, []string{"one", "two", "four"}},
		{
			mesh.LogOptions{LogQuery: mesh.LogQuery{Since: time.Now().Add(-time.Hour)}},
			[]string{"one", "two", "three", "four"},
		},
	} {
		heard := &testkit.Notes[mesh.LogLine]{}
		test.options.Handle = func(l mesh.LogLine) error {
			heard.Add(l)
			return nil
		}
		s, err := all.procs.StreamLogs(t.Context(), test.options)
		require.NoError(t, err)
		require.NoError(t, s.Flush(t.Context()))
		require.Equal(t, test.want[:len(test.want)-1], append([]string{}, textsOf(heard.All(nil))...))
		require.NoError(t, s.Close())
	}
	_, err := all.procs.StreamLogs(t.Context(), mesh.LogOptions{LogQuery: mesh.LogQuery{Grep: "("}})
	require.ErrorContains(t, err, "cannot stream logs: error parsing regexp")
	_, err = mesh.ProcMesh{}.StreamLogs(t.Context(), mesh.LogOptions{})
	require.ErrorContains(t, err, "the zero mesh")
}

func TestStreamLogs_slowReaderBlocksNoProcAndCountsDroppedLines_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	heard := &testkit.Notes[mesh.LogLine]{}
	first, resume := make(chan struct{}), make(chan struct{})
	s := c.speak(t, c.Net, 1, mesh.LogOptions{FoldWindow: -1, Handle: func(l mesh.LogLine) error {
		if l.Text == "first" {
			close(first)
			<-resume
		}
		heard.Add(l)
		return nil
	}})
	s.utter(t, "first")
	testkit.Next(t, first)
	const n = 20_000
	_, err := cast.Gather(t.Context(), s.speakers, spout, n)
	require.NoError(t, err, "the proc prints to a file")
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, s.stream.Flush(soon), context.DeadlineExceeded)
	close(resume)
	require.NoError(t, s.stream.Flush(t.Context()))
	dropped, shown := 0, 0
	for _, l := range heard.All(func(l mesh.LogLine) bool { return l.Stream == "stdout" }) {
		var more int
		if _, err := fmt.Sscanf(l.Text, "[castnet] %d lines dropped by host a", &more); err == nil {
			dropped += more
			continue
		}
		var at int
		_, err := fmt.Sscan(l.Text, &at)
		require.NoError(t, err, l.Text)
		require.Equal(t, dropped+shown, at)
		shown++
	}
	require.Equal(t, n, dropped+shown)
	require.Positive(t, dropped)
}

func TestStreamLogs_continuesAfterAReconnectWithEachLineOnce_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	address := bustest.NewAddress(t)
	address.Serve(c.Server)
	far := c.Connect(t, func(o *mesh.Options) { o.Bus.URL = address.URL() })
	s := c.speak(t, far, 2, mesh.LogOptions{FoldWindow: -1})
	var want []string
	for i := range 30 {
		line := fmt.Sprint("line ", i)
		want = append(want, line)
		if i%3 == 0 {
			address.Cut()
		}
		s.utter(t, line)
	}
	require.NoError(t, s.stream.Flush(t.Context()))
	for rank := range 2 {
		require.Equal(t, want, textsOf(s.heard.All(func(l mesh.LogLine) bool { return l.Rank == rank })))
	}
}

func TestStreamLogs_followsARankThroughItsGenerations_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	again := mesh.RestartPolicy{Restart: mesh.Transient, Backoff: 10 * time.Millisecond}
	procs, err := c.AllHosts(t, c.Net).SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "speakers", PerHost: shape.Of("gpu", 1), RestartPolicy: again})
	require.NoError(t, err)
	speakers, err := mesh.SpawnActors(t.Context(), procs, speaker,
		mesh.ActorSpawnSpec[actor.None]{Label: "speakers", RestartPolicy: again})
	require.NoError(t, err)
	heard := &testkit.Notes[mesh.LogLine]{}
	s, err := procs.StreamLogs(t.Context(), mesh.LogOptions{Handle: func(l mesh.LogLine) error {
		heard.Add(l)
		return nil
	}})
	require.NoError(t, err)
	defer s.Close()
	for _, line := range []string{"first", "second", "third"} {
		_, err = cast.Gather(t.Context(), speakers, utter, line)
		require.NoError(t, err)
		if line == "third" {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		restarted := make(chan struct{})
		go func() {
			defer close(restarted)
			for e := range speakers.Changes(ctx) {
				if e.Step == "rank.restart.success" {
					return
				}
			}
		}()
		require.NoError(t, syscall.Kill(c.pids(t, procs)[0], syscall.SIGKILL))
		testkit.Next(t, restarted)
		cancel()
	}
	require.NoError(t, s.Flush(t.Context()))
	require.Equal(t, []string{"first", "second", "third"}, textsOf(heard.All(nil)))
}

func TestStreamLogs_followsGrowAndShrink_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	s := c.speak(t, c.Net, 2, mesh.LogOptions{FoldWindow: time.Hour})
	first := &testkit.Notes[mesh.LogLine]{}
	part, err := s.procs.Slice("host", 0, 1).Slice("gpu", 0, 1).StreamLogs(t.Context(),
		mesh.LogOptions{Handle: func(l mesh.LogLine) error {
			first.Add(l)
			return nil
		}})
	require.NoError(t, err)
	defer part.Close()
	more := c.moreHosts(t, "b")
	_, err = s.procs.Grow(testkit.Soon(t), more)
	require.NoError(t, err)
	require.NoError(t, s.stream.Flush(t.Context()), "it looks for added hosts")
	s.utter(t, "large")
	require.NoError(t, s.stream.Flush(t.Context()))
	require.Equal(t, []string{"[* stderr] 4× large"}, s.texts())

	_, err = s.procs.Shrink(testkit.Soon(t), 1)
	require.NoError(t, err)
	s.utter(t, "small")
	require.NoError(t, s.stream.Flush(t.Context()))
	require.ElementsMatch(t,
		[]string{"[* stderr] 4× large", "[host=1,gpu=*] 2× good-bye", "[* stderr] 2× small"}, s.texts())

	_, err = s.procs.Grow(testkit.Soon(t), more)
	require.NoError(t, err)
	require.NoError(t, s.stream.Flush(t.Context()))
	s.utter(t, "again")
	require.NoError(t, s.stream.Flush(t.Context()))
	require.Equal(t, []string{"[* stderr] 4× again"}, s.texts()[3:], "no earlier line is repeated")
	require.NoError(t, part.Flush(t.Context()))
	require.Equal(t, []string{"large", "small", "again"}, textsOf(first.All(nil)), "a slice keeps its region")
}

func TestStreamLogs_followsARankToAnotherHost_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.Net = c.Connect(t, operator)
	hosts := c.AllHosts(t, c.Net)
	policy := mesh.RestartPolicy{
		Restart: mesh.Transient, Backoff: 10 * time.Millisecond, Spares: c.moreHosts(t, "b").Hosts(),
	}
	procs, err := hosts.SpawnProcs(t.Context(),
		mesh.SpawnSpec{Name: "speakers", PerHost: shape.Of("gpu", 2), RestartPolicy: policy})
	require.NoError(t, err)
	speakers, err := mesh.SpawnActors(t.Context(), procs, speaker, mesh.ActorSpawnSpec[actor.None]{
		Label: "speakers", RestartPolicy: mesh.RestartPolicy{Restart: mesh.Transient},
	})
	require.NoError(t, err)
	heard := &testkit.Notes[mesh.LogLine]{}
	s, err := procs.StreamLogs(t.Context(), mesh.LogOptions{FoldWindow: -1, Handle: func(l mesh.LogLine) error {
		heard.Add(l)
		return nil
	}})
	require.NoError(t, err)
	defer s.Close()
	_, err = cast.Gather(t.Context(), speakers, utter, "here")
	require.NoError(t, err)
	_, err = hosts.Drain(testkit.Soon(t), mesh.DrainOptions{Reason: "repair"})
	require.NoError(t, err)
	_, err = cast.Gather(testkit.Soon(t), speakers, utter, "there")
	require.NoError(t, err)
	require.NoError(t, s.Flush(t.Context()))
	for rank := range 2 {
		of := heard.All(func(l mesh.LogLine) bool { return l.Rank == rank && l.Stream == "stderr" })
		require.Equal(t, []string{"here", "there"}, textsOf(of))
		require.Equal(t, []string{"a", "b"}, []string{of[0].Host, of[1].Host})
	}
}

func TestStreamLogs_flushNamesTheRanksOfSilentHosts_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	b, leave := c.Host(t, "b")
	hosts, err := c.Attach(t.Context(), "hosts", append(c.AllHosts(t, c.Net).Hosts(), b.ID())...)
	require.NoError(t, err)
	procs, err := hosts.Spawn(t.Context(), "speakers", shape.Of("gpu", 2))
	require.NoError(t, err)
	speakers, err := mesh.Spawn(t.Context(), procs, speaker, "speakers", actor.None{})
	require.NoError(t, err)
	heard := &testkit.Notes[mesh.LogLine]{}
	s, err := procs.StreamLogs(t.Context(), mesh.LogOptions{Handle: func(l mesh.LogLine) error {
		heard.Add(l)
		return nil
	}})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Flush(t.Context()))
	leave()
	_, err = cast.Gather(t.Context(), speakers.Slice("host", 0, 1), utter, "here")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // the other host answers in time
	defer cancel()
	err = s.Flush(ctx)
	silent, ok := errors.AsType[*mesh.HostsError](err)
	require.True(t, ok, "%v", err)
	require.Len(t, silent.Failed, 1)
	require.ErrorContains(t, err, "cannot flush logs: hosts speakers: 1 of 2 failed\n  b-")
	require.ErrorContains(t, err, "ranks host=1,gpu=*: ")
	require.Contains(t, textsOf(heard.All(nil)), "here")
}

func TestStreamLogs_closeOfTheNetDeliversTheLastLines_MESH25(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	conn, leave := c.Client(t)
	s := c.speak(t, conn, 2, mesh.LogOptions{FoldWindow: time.Hour})
	leave()
	require.Contains(t, s.texts(), "[*] 2× good-bye")
	testkit.Next(t, s.stream.Done())
	_, err := s.procs.StreamLogs(t.Context(), mesh.LogOptions{})
	require.ErrorContains(t, err, "the Net is closed")
}

func TestStreamLogs_errorOfItsHandlerEndsIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	full := errors.New("the disk is full")
	s := c.speak(t, c.Net, 1, mesh.LogOptions{Handle: func(mesh.LogLine) error { return full }})
	s.utter(t, "one")
	testkit.Next(t, s.stream.Done())
	require.ErrorIs(t, s.stream.Flush(t.Context()), full)
	require.ErrorIs(t, s.stream.Close(), full)
}

// A program has its own output, and that of its procs.
func ExampleProcMesh_StreamLogs() {
	ctx := context.Background()
	server, err := embed.Start(ctx, embed.Options{Token: "secret"})
	must(err)
	defer server.Shutdown()
	conn, err := mesh.Connect(ctx, mesh.Options{Bus: &bus.Options{URL: server.URL(), Token: "secret"}})
	must(err)
	defer conn.Close(ctx)
	hosts, err := conn.Allocate(ctx, host.LocalHosts{Label: "node"}, "nodes", shape.Of("host", 2))
	must(err)
	procs, err := hosts.Spawn(ctx, "workers", shape.Of("gpu", 2))
	must(err)
	counters, err := mesh.Spawn(ctx, procs, counter, "counters", 0)
	must(err)

	logs, err := procs.StreamLogs(ctx, mesh.LogOptions{Handle: func(l mesh.LogLine) error {
		_, err := fmt.Println(l)
		return err
	}})
	must(err)
	_, err = cast.Gather(ctx, counters, say, "hello")
	must(err)
	must(logs.Flush(ctx)) // every line printed so far was handled
	must(logs.Close())
	// Output:
	// [*] [4 similar lines] hello from 0…3
}
