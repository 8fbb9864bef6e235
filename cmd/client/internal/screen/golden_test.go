package screen

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	meshID = "demo-7kd93x0b5m2qa"
	hostA  = "node-a-0123456789abc"
	hostB  = "node-b-0123456789abd"
)

// ownAttributes are the sequences of the screen itself.
var ownAttributes = regexp.MustCompile(`\x1b\[\d*m`)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// play runs inputs one second apart.
func play(s state, inputs ...any) (state, []any) {
	var effects []any
	if s.now.IsZero() {
		s.now = noon
	}
	for _, in := range inputs {
		var more []any
		s, more = s.step(s.now.Add(time.Second), in)
		effects = append(effects, more...)
	}
	return s, effects
}

// keys are presses of single keys.
func keys(names ...string) (inputs []any) {
	for _, k := range names {
		inputs = append(inputs, keyEvent(k))
	}
	return inputs
}

// opened is a screen with a sample and two events.
func opened(o Options, l inspect.Sample) state {
	if o.Sort == "" {
		o.Sort = "name"
	}
	s, _ := play(newState(o), sampleEvent{l}, newsEvent{
		{Kind: actor.KindHost, Host: hostB, Status: "suspect", Reason: "no heartbeat for 1.5s", At: noon},
		{
			Kind: actor.KindProc, Mesh: meshID, Rank: 3, Status: "failed", Reason: "killed by signal 9 (killed)", At: noon,
			Cause: &actor.Event{Kind: actor.KindActor, Mesh: meshID, Rank: 1, Actor: "trainer-7kd93x0b5m2qb", Reason: "out of memory"},
		},
	})
	return s
}

// twoHosts has a mesh on a live and on a silent host.
func twoHosts() inspect.Sample {
	extent := shape.Of("host", 2).With("gpu", 2)
	l := inspect.Sample{
		At: noon, Extents: map[string]shape.Extent{meshID: extent},
		Missing: errors.New("1 of 2 hosts did not answer: node-b (suspect, last heard 3s ago)"),
		Hosts: []inspect.HostCounters{
			{
				Host: "node-a", ID: hostA, Procs: 2, State: agent.HostAlive,
				Counters: inspect.Counters{Queued: 300, Handled: 1234567, Rate: 15321.4, CPU: 387.6, Memory: 3 << 30},
			},
			{Host: "node-b", ID: hostB, State: agent.HostSuspect, Silence: 3 * time.Second},
		},
	}
	for rank := range 4 {
		p := inspect.ProcCounters{
			Mesh: meshID, Rank: rank, Point: inspect.Point(extent, rank), Host: hostA, Status: "running", Actors: 1,
			Counters: inspect.Counters{Queued: 150 * rank, Handled: 617283, Rate: 7660.7, CPU: 193.8, Memory: 1500 << 20},
			Latency:  1234 * time.Microsecond,
		}
		p.ActorCounters = []inspect.ActorCounters{{
			Actor: inspect.Actor{
				Actor: "trainer-7kd93x0b5m2qb", Type: "trainer", Status: "running", Queued: p.Queued, Handled: p.Handled,
				Current: "step", Endpoints: []string{"load", "step"},
			},
			Rate: p.Rate, Latency: p.Latency,
		}}
		p.Busy = "trainer.step"
		switch rank {
		case 1:
			p.Gen = 2
		case 2:
			p.Silent, p.ActorCounters, p.Busy, p.Host = true, nil, "", hostB
		case 3:
			p.Host, p.Status, p.ActorCounters, p.Busy, p.Counters = hostB, "unknown", nil, "", inspect.Counters{}
		}
		l.Procs = append(l.Procs, p)
	}
	return l
}

// manyRanks is a large mesh, of which only some ranks were asked.
func manyRanks(ranks int) inspect.Sample {
	extent := shape.Of("host", ranks/16).With("gpu", 16)
	l := inspect.Sample{At: noon, Extents: map[string]shape.Extent{meshID: extent}, Partial: true}
	for h := range ranks / 16 {
		id := fmt.Sprintf("n%04d-0123456789abc", h)
		l.Hosts = append(l.Hosts, inspect.HostCounters{Host: fmt.Sprintf("n%04d", h), ID: id, Procs: 16,
			State: agent.HostAlive, Counters: inspect.Counters{CPU: 1600, Memory: 16 << 30, Handled: 1, Rate: 1600}})
	}
	for rank := range ranks {
		l.Procs = append(l.Procs, inspect.ProcCounters{
			Mesh: meshID, Rank: rank, Point: inspect.Point(extent, rank), Host: l.Hosts[rank/16].ID, Status: "running",
			Unasked: true, Counters: inspect.Counters{CPU: 100, Memory: 1 << 30},
		})
	}
	return l
}

// checkFrames compares the frames of a state at two sizes with files. Every frame fills its
// terminal exactly.
func checkFrames(t *testing.T, name string, s state, inputs ...any) {
	t.Helper()
	for _, size := range []sizeEvent{{80, 24}, {200, 60}} {
		sized, _ := play(s, append([]any{size}, inputs...)...)
		requireSize(t, sized)
		golden.CheckText(t, fmt.Sprintf("%s.%dx%d.txt", name, size.width, size.height), trimmed(sized.frame()))
	}
}

func requireSize(t *testing.T, s state) {
	t.Helper()
	lines := strings.Split(s.frame(), "\n")
	require.Len(t, lines, s.height)
	for _, l := range lines {
		require.Equal(t, s.width, ansi.StringWidth(l), "%q", l)
	}
}

// trimmed is a frame without attributes and without spaces at ends of lines.
func trimmed(frame string) string {
	var b strings.Builder
	for l := range strings.SplitSeq(ansi.Strip(frame), "\n") {
		b.WriteString(strings.TrimRight(l, " ") + "\n")
	}
	return b.String()
}

func TestGolden_frames_SCR1(t *testing.T) {
	s := opened(Options{}, twoHosts())
	checkFrames(t, "tree", s)
	checkFrames(t, "actors", s, keys("down", "right", "down", "down", "right", "down")...)
	checkFrames(t, "by-mesh", s, keys("t", "-")...)
	checkFrames(t, "closed", s, keys("-")...)
	checkFrames(t, "sorted", s, keys("s", "s", "s")...)
	checkFrames(t, "help", s, keys("?")...)
	checkFrames(t, "search", s, keys("/", "g", "p", "u", "=", "1")...)
	checkFrames(t, "trouble", s, keys("f")...)
	checkFrames(t, "no-pane", s, keys("e")...)
	checkFrames(t, "many", opened(Options{}, manyRanks(16384)), keys("down", "down", "right", "down")...)

	code := 1
	started := noon.Add(-3 * time.Minute)
	info := inspect.RankDetail{
		Proc: inspect.Proc{
			Mesh: meshID, Rank: 1, Point: "host=0,gpu=1", Host: "node-a", PID: 4242, Status: "running", Started: &started,
		},
		Generation: 2,
		Actors: []inspect.Actor{{
			Rank: 1, Actor: "trainer-7kd93x0b5m2qb", Type: "trainer", Status: "running", Queued: 150, Handled: 617283,
			Current: "step", Endpoints: []string{"load", "step"},
		}},
		Failure: &inspect.RankFailure{
			Reason: "exit code 1", ExitCode: &code, At: noon.Add(-3 * time.Minute),
			Causes:     []string{"demo[host=0,gpu=0] trainer: out of memory", "node-a: no space left on device"},
			StderrTail: []string{"step 100 loss 0.331", "\x1b[31mfatal:\x1b[0m cannot allocate"},
		},
	}
	lines := []logLine{
		{at: noon, point: "host=0,gpu=1", text: "ready"}, {at: noon, point: "host=0,gpu=1", text: "step 101\tloss 0.33"},
		{at: noon, point: "host=0,gpu=1", text: "warning: \x1b]0;title\x07slow", bad: true},
	}
	open := append(keys("down", "down", "enter"), detailEvent{rankID{meshID, 1}, info, nil})
	checkFrames(t, "rank", s, open...)
	logs := append(append(keys("down", "down"), open...), keyEvent("l"),
		linesEvent{logTarget{meshID, "host=0,gpu=1", 1}, lines, nil})
	checkFrames(t, "logs", s, logs[2:]...)
}

// Each kind of trouble has its words.
func TestGolden_troubleInWords_SCR3(t *testing.T) {
	s := opened(Options{Scope: "demo"}, twoHosts())
	checkFrames(t, "bus-lost", s, busEvent{noon}, tickEvent{}, tickEvent{})
	checkFrames(t, "stale", s, sampleFailed{errors.New("no host answers on nats://10.0.0.7:4222")}, tickEvent{})
	ended := twoHosts()
	ended.Procs, ended.Hosts, ended.Missing = nil, nil, nil
	checkFrames(t, "ended", s, sampleEvent{ended})
	back, _ := play(s, busEvent{noon}, busEvent{})
	require.NotContains(t, back.frame(), "BUS LOST")
}

func killed(rank int) newsEvent {
	return newsEvent{{Kind: actor.KindProc, Mesh: meshID, Rank: rank, Status: "failed", Reason: "killed", At: noon}}
}

func statusOf(s state, rank int) string {
	for _, p := range s.sample.Procs {
		if p.Rank == rank {
			return (*procRow)(&p).status()
		}
	}
	return "gone"
}

func TestStep_endShowsBeforeTheNextSampleAndInOlderOnes_SCR3(t *testing.T) {
	s := opened(Options{}, twoHosts())
	require.Equal(t, "running", statusOf(s, 0))
	s, _ = play(s, killed(0))
	require.Equal(t, "failed", statusOf(s, 0))
	require.Regexp(t, `demo\[host=0,gpu=0\] +failed`, ansi.Strip(s.frame()))
	s, _ = play(s, sampleEvent{twoHosts()})
	require.Equal(t, "failed", statusOf(s, 0), "the sample began before the end")
	next := twoHosts()
	next.Procs[0].Gen = 1
	s, _ = play(s, sampleEvent{next})
	require.Equal(t, "running", statusOf(s, 0), "the next generation")
	require.NotContains(t, s.ends, endedRank{rankID{meshID, 0}, 0})
}

func TestStep_asksForWhatIsOnTheScreen_SCR2(t *testing.T) {
	s := opened(Options{}, manyRanks(16384))
	require.Empty(t, s.wants().ranks, "all hosts are closed")
	require.Len(t, s.wants().hosts, s.bodyHeight())
	s, _ = play(s, keys("right", "end")...)
	require.Empty(t, s.wants().ranks)
	s, _ = play(s, keys("home")...)
	w := s.wants()
	require.Len(t, w.ranks, s.bodyHeight()-1)
	require.Len(t, w.hosts, 1)
	s, _ = play(s, keys("+", "end")...)
	require.LessOrEqual(t, len(s.wants().ranks)+len(s.wants().hosts), s.bodyHeight())
	require.True(t, s.wants().ranks[rankID{meshID, 16383}])
	requireSize(t, s)
}

func TestStep_of100000RanksAsksForWhatIsOnTheScreen_SCR2(t *testing.T) {
	const ranks = 100_000
	s := opened(Options{}, manyRanks(ranks))
	require.Contains(t, s.frame(), "100000 ranks")
	s, _ = play(s, sizeEvent{200, 60}, keyEvent("+"), keyEvent("end"))
	w := s.wants()
	require.LessOrEqual(t, len(w.ranks)+len(w.hosts), s.bodyHeight())
	require.True(t, w.ranks[rankID{meshID, ranks - 1}])
	requireSize(t, s)
	s, _ = play(s, keys("?")...)
	require.Contains(t, s.frame(), "those on the screen are asked for their messages")
}

func TestStep_keepsABoundedNumberOfEventsAndLines_SCR2(t *testing.T) {
	s := opened(Options{}, twoHosts())
	for range 3 * maxEvents {
		s, _ = play(s, killed(0))
	}
	require.Len(t, s.events, maxEvents)
	s, effects := play(s, keys("down", "l")...)
	of := logTarget{meshID, "host=0,gpu=0", 0}
	require.Equal(t, []any{followLog(of)}, effects)
	for range 3 {
		s, _ = play(s, linesEvent{of, make([]logLine, maxLines), nil})
	}
	require.Len(t, s.log.lines, maxLines)
	s, _ = play(s, linesEvent{logTarget{meshID, "host=0,gpu=1", 1}, []logLine{{text: "of an earlier log"}}, nil})
	require.NotContains(t, s.frame(), "of an earlier log")
}

func TestStep_paneKeepsItsPlaceWhileItIsRead(t *testing.T) {
	s := opened(Options{}, twoHosts())
	s, _ = play(s, keys("down", "l")...)
	of := logTarget{meshID, "host=0,gpu=0", 0}
	add := func(from, to int) {
		for i := from; i < to; i++ {
			s, _ = play(s, linesEvent{of, []logLine{{text: fmt.Sprintf("line %d.", i)}}, nil})
		}
	}
	add(0, 50)
	require.Contains(t, s.frame(), "line 49.")
	s, _ = play(s, keys("tab", "up", "up")...)
	require.NotContains(t, s.frame(), "line 48.")
	add(50, 60)
	require.Contains(t, s.frame(), "line 47.")
	require.Contains(t, s.frame(), "12 newer")
	s, _ = play(s, keys("end")...)
	require.Contains(t, s.frame(), "line 59.")
	s, effects := play(s, keys("tab", "l")...)
	require.Equal(t, []any{followLog{}}, effects, "the log ends")
	require.Equal(t, noPane, s.pane)
}

// The bus has names and texts of others.
func TestFrame_textsOfOthersControlNoTerminal_SCR4(t *testing.T) {
	l := twoHosts()
	evil := "\x1b]0;owned\x07\x1b[2J\u202eab\r\n\x9b31m"
	l.Hosts[0].Host += evil
	l.Missing = errors.New(evil)
	l.Procs[0].Busy = evil
	l.Procs[1].Status = evil
	l.Procs[1].ActorCounters[0].Actor.Actor = evil
	for _, size := range []sizeEvent{{200, 60}, {80, 24}, {20, 5}, {1, 1}, {3, 2}} {
		s := opened(Options{Scope: evil}, l)
		s, _ = play(s, size, newsEvent{{Kind: actor.KindProc, Mesh: evil, Status: evil, Reason: evil}},
			keyEvent("down"), keyEvent("down"), keyEvent("right"))
		for _, in := range [][]any{nil, keys("l"), keys("?"), keys("enter"), keys("/", "a"), append(keys("enter"), detailEvent{
			rankID{meshID, 1}, inspect.RankDetail{
				Proc: inspect.Proc{Status: evil, Reason: evil, Host: evil}, Missing: evil,
				Actors:  []inspect.Actor{{Actor: evil, Type: evil, Status: evil, Reason: evil, Endpoints: []string{evil}}},
				Failure: &inspect.RankFailure{Reason: evil, Causes: []string{evil}, StderrTail: []string{evil}},
			}, errors.New(evil)})} {
			drawn, _ := play(s, in...)
			drawn.log = logView{of: logTarget{mesh: evil, point: evil}, err: evil, lines: []logLine{{point: evil, text: evil}}}
			requireSize(t, drawn)
			for l := range strings.SplitSeq(ownAttributes.ReplaceAllString(drawn.frame(), ""), "\n") {
				require.NotRegexp(t, `[\x00-\x1f\x7f-\x{9f}\x{202e}]`, l)
			}
		}
	}
}

func TestFrame_coloursOnlyRepeatWords_SCR4(t *testing.T) {
	plain := opened(Options{}, twoHosts())
	colored := opened(Options{Color: true}, twoHosts())
	require.NotRegexp(t, `\x1b\[[39]\d`, plain.frame())
	require.Regexp(t, `\x1b\[33m`, colored.frame())
	require.Equal(t, ansi.Strip(plain.frame()), ansi.Strip(colored.frame()))
}

func TestStep_keys(t *testing.T) {
	s := opened(Options{}, twoHosts())
	name := func(inputs ...any) string {
		after, _ := play(s, inputs...)
		r, is := after.selected()
		require.True(t, is)
		return r.name
	}
	require.Equal(t, "host node-a", name())
	require.Equal(t, "host node-b", name(keys("s", "s", "home")...), "a silent host is first")
	require.Equal(t, "demo[host=0,gpu=0]", name(keys("down")...))
	require.Equal(t, "host node-a", name(keys("down", "left")...), "the parent")
	require.Equal(t, "host node-b", name(keys("left", "down")...), "the group is closed")
	require.Equal(t, "demo[host=1,gpu=1]", name(keys("end")...))
	require.Equal(t, "demo[host=1,gpu=1]", name(append(keys("-"), keys("/", "g", "p", "u", "=", "1", "enter", "n")...)...),
		"search opens the group")
	require.Equal(t, "host node-a", name(append(keys("end"), wheelEvent(-30))...))
	require.Equal(t, "demo[host=0,gpu=0]", name(clickEvent(s.bodyTop()+1)))

	for _, key := range []string{"q", "ctrl+c"} {
		_, effects := play(s, keyEvent(key))
		require.Equal(t, []any{quit{}}, effects)
	}
	_, effects := play(s, keys("/", "q", "esc", "ctrl+z", "ctrl+l")...)
	require.Equal(t, []any{suspend{}, redraw{}}, effects, "q was typed")

	open, effects := play(s, keys("down", "enter")...)
	require.Equal(t, []any{askRank{meshID, 0}}, effects)
	require.Contains(t, ansi.Strip(open.frame()), "asking its host, its process and its owner")
	_, effects = play(open, tickEvent{}, tickEvent{}, tickEvent{})
	require.Empty(t, effects, "one question at a time")
	open, effects = play(open, detailEvent{rankID{meshID, 0}, inspect.RankDetail{}, nil}, tickEvent{}, tickEvent{})
	require.Equal(t, []any{askRank{meshID, 0}}, effects, "again, after a while")
	open, _ = play(open, keyEvent("esc"))
	require.Nil(t, open.detail)
}

// The keys of docs/top.md, and all others.
func TestStep_noKeyChangesAMesh(t *testing.T) {
	names := []string{
		"up", "down", "left", "right", "pgup", "pgdown", "home", "end", "enter", "tab", "esc", "space", "backspace",
		"delete", "ctrl+b", "ctrl+f", "ctrl+k", "ctrl+l", "ctrl+x", "ctrl+z", "f1", "f9",
	}
	for printed := '!'; printed <= '~'; printed++ {
		names = append(names, string(printed))
	}
	tree := opened(Options{}, twoHosts())
	onRank, _ := play(tree, keys("down")...)
	detail, _ := play(onRank, keys("enter")...)
	logs, _ := play(onRank, keys("l", "tab")...)
	help, _ := play(tree, keys("?")...)
	for _, s := range []state{tree, onRank, detail, logs, help} {
		for _, name := range names {
			_, effects := play(s, keyEvent(name))
			for _, e := range effects {
				switch e.(type) {
				case quit, suspend, redraw, askRank, followLog:
				default:
					t.Errorf("the key %s has the effect %T", name, e)
				}
			}
		}
	}
}

// A row that is gone leaves the cursor at its place.
func TestStep_cursorSurvivesItsRow(t *testing.T) {
	s := opened(Options{}, twoHosts())
	s, _ = play(s, keys("end")...)
	less := twoHosts()
	less.Procs = less.Procs[:1]
	s, _ = play(s, sampleEvent{less})
	r, is := s.selected()
	require.True(t, is)
	require.Equal(t, "host node-b", r.name)
	s, _ = play(s, sampleEvent{})
	require.Empty(t, s.rows)
	requireSize(t, s)
	s, _ = play(s, keys("up", "down", "enter", "left", "n", "l", "end")...)
	requireSize(t, s)
}

// drawn frames cost what the terminal shows.
func BenchmarkFrame_of16384Ranks(b *testing.B) {
	s := opened(Options{}, manyRanks(16384))
	s, _ = play(s, sizeEvent{200, 60}, keyEvent("+"))
	for b.Loop() {
		s, _ = s.step(noon, keyEvent("down"))
		if len(s.frame()) == 0 {
			b.Fatal("no frame")
		}
	}
}

func BenchmarkSample_of16384Ranks(b *testing.B) {
	s := opened(Options{}, manyRanks(16384))
	s, _ = play(s, sizeEvent{200, 60}, keyEvent("+"))
	l := manyRanks(16384)
	for b.Loop() {
		s, _ = s.step(noon, sampleEvent{l})
	}
}
