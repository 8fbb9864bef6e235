package screen

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/shape"
)

const (
	maxEvents = 500
	maxLines  = 1000 // of a log
	// fewRanks is the number of ranks up to which all groups are open at first.
	fewRanks = 64
	// detailInterval is the time between two looks at an open rank.
	detailInterval = 2 * time.Second
)

// pane is what stands below the tree.
type pane int

const (
	noPane pane = iota
	eventPane
	logPane
)

// grouping is what the roots of the tree are.
type grouping int

const (
	byHost grouping = iota
	byMesh
)

// filter selects ranks.
type filter int

const (
	allRanks filter = iota
	troubledRanks
	busyRanks
	filters // the number of filters
)

func (f filter) String() string { return [...]string{"all", "trouble", "busy"}[f] }

// rankID names a rank of a mesh.
type rankID struct {
	mesh string
	rank int
}

// state is all that the screen shows. A step copies the parts that it changes.
type state struct {
	width, height int
	color         bool
	scope         string        // the target of the command; "": all
	interval      time.Duration // between samples, as wanted

	now     time.Time // of the last input
	sample  inspect.Sample
	sampled bool  // there is a sample
	stale   error // of the last attempt to sample; nil: it succeeded
	broken  busEvent
	ends    map[endedRank]string // statuses that are newer than the sample
	seen    bool                 // the scope had ranks

	group    grouping
	sort     int // index into sortKeys
	filter   filter
	open     map[string]bool // by key of a row, where it differs from openByDefault
	autoOpen bool            // groups are open unless open says otherwise
	rows     []row
	counts   map[string]int // ranks by status
	at       int            // its place
	cursor   string         // key of the selected row
	top      int            // first row on the screen

	search string
	typing bool // keys go to search
	help   bool
	mouse  bool

	pane    pane
	focused bool // keys move the pane
	back    int  // lines of the pane below the screen; 0: it follows
	events  []eventLine
	log     logView

	detail *detailView // nil: the tree is shown
}

// endedRank is a generation of a rank.
type endedRank struct {
	rankID
	gen int
}

// eventLine is an event in words.
type eventLine struct {
	at      time.Time
	subject string
	status  string
	reason  string
}

// logView is the followed log.
type logView struct {
	of    logTarget
	lines []logLine
	err   string
}

// logTarget is a rank, or all ranks of a mesh: rank -1. The zero target is none.
type logTarget struct {
	mesh  string
	point string
	rank  int
}

// logLine is a line of output.
type logLine struct {
	at    time.Time
	point string
	text  string
	bad   bool // of stderr
}

// detailView is one open rank.
type detailView struct {
	id     rankID
	info   *inspect.RankDetail // nil: not known yet
	err    string
	asked  time.Time
	asking bool
	scroll int
}

// The inputs of a step.
type (
	keyEvent     string
	sizeEvent    struct{ width, height int }
	wheelEvent   int // rows down
	clickEvent   int // line of the screen
	tickEvent    struct{}
	sampleEvent  struct{ inspect.Sample }
	sampleFailed struct{ err error }
	// busEvent is a connection lost since a time, or back: since is zero.
	busEvent    struct{ since time.Time }
	newsEvent   []actor.Event
	noteEvent   string // about the events
	detailEvent struct {
		id   rankID
		info inspect.RankDetail
		err  error
	}
	linesEvent struct {
		of    logTarget
		lines []logLine
		err   error
	}
)

// The effects of a step.
type (
	quit    struct{}
	suspend struct{}
	redraw  struct{}
	// wanted is what the screen shows of the castnet.
	wanted struct {
		ranks map[rankID]bool
		hosts map[string]bool
	}
	askRank   rankID
	followLog logTarget // the zero target ends the log
)

// newState returns the screen before the first input.
func newState(o Options) state {
	s := state{
		width: 80, height: 24, color: o.Color, scope: o.Scope, interval: o.Interval, pane: eventPane,
		ends: map[endedRank]string{}, open: map[string]bool{},
	}
	s.sort = max(0, slices.IndexFunc(sortKeys(), func(k sortKey) bool { return k.flag == o.Sort }))
	return s
}

// step returns the state after an input at a time, and what it wants done (SCR-1).
func (s state) step(now time.Time, input any) (state, []any) {
	s.now = now
	var effects []any
	switch in := input.(type) {
	case keyEvent:
		s, effects = s.press(string(in))
	case sizeEvent:
		s.width, s.height = in.width, in.height
	case wheelEvent:
		s = s.move(int(in))
	case clickEvent:
		s = s.click(int(in))
	case sampleEvent:
		s = s.takeSample(in.Sample)
	case sampleFailed:
		s.stale = in.err
	case busEvent:
		s.broken = in
	case newsEvent:
		s = s.takeNews(in)
	case noteEvent:
		s = s.addEvents(eventLine{at: now, subject: "screen", reason: string(in)})
	case detailEvent:
		s = s.takeDetail(in)
	case linesEvent:
		s = s.takeLines(in)
	}
	s = s.scrollToCursor()
	s, ask := s.askDetail()
	return s, append(effects, ask...)
}

// takeSample shows a sample, with the ends that came while it was taken.
func (s state) takeSample(l inspect.Sample) state {
	first := !s.sampled
	s.sample = l
	s.sampled = true
	s.stale = nil
	if first {
		s.autoOpen = len(l.Procs) <= fewRanks
	}
	s.seen = s.seen || len(l.Procs) > 0
	ends := map[endedRank]string{}
	for i := range s.sample.Procs {
		p := &s.sample.Procs[i]
		of := endedRank{rankID{p.Mesh, p.Rank}, p.Gen}
		if end, is := s.ends[of]; is && !inspect.Ended(p.Status) {
			p.Status, p.Silent = end, false
			ends[of] = end // the sample began before
		}
	}
	s.ends = ends
	return s.arrange()
}

// takeNews adds events, and shows the ends of procs before the next sample does.
func (s state) takeNews(events []actor.Event) state {
	s.ends = maps.Clone(s.ends)
	ended := map[endedRank]string{}
	for _, e := range events {
		s = s.addEvents(s.newEventLine(e))
		if e.Kind == actor.KindProc && e.Terminal() {
			e.Each(func(e actor.Event) { ended[endedRank{rankID{e.Mesh, e.Rank}, e.Gen}] = e.Status })
		}
	}
	if len(ended) == 0 {
		return s
	}
	s.sample.Procs = slices.Clone(s.sample.Procs)
	for i := range s.sample.Procs {
		p := &s.sample.Procs[i]
		of := endedRank{rankID{p.Mesh, p.Rank}, p.Gen}
		if end, is := ended[of]; is && p.Status != end {
			p.Status, p.Silent = end, false
			s.ends[of] = end
		}
	}
	return s.arrange()
}

func (s state) newEventLine(e actor.Event) eventLine {
	reason := e.Reason
	for _, cause := range inspect.DescribeFailure(e, s.extent).Causes {
		reason += "; because " + cause
	}
	return eventLine{at: e.At, subject: inspect.Subject(e, s.extent), status: e.Status, reason: reason}
}

// extent returns the extent of a mesh that the last sample knows.
func (s state) extent(id string) (shape.Extent, bool) {
	e, known := s.sample.Extents[id]
	return e, known
}

func (s state) addEvents(lines ...eventLine) state {
	s.events = appendBounded(s.events, lines, maxEvents)
	if s.pane == eventPane && s.back > 0 {
		s.back = min(s.back+len(lines), len(s.events)) // what is read stays in place
	}
	return s
}

func (s state) takeLines(in linesEvent) state {
	if in.of != s.log.of {
		return s // of an earlier log
	}
	s.log.lines = appendBounded(s.log.lines, in.lines, maxLines)
	if in.err != nil {
		s.log.err = in.err.Error()
	}
	if s.pane == logPane && s.back > 0 {
		s.back = min(s.back+len(in.lines), len(s.log.lines))
	}
	return s
}

// appendBounded returns the last items of both lists. It shares no memory with the first one.
func appendBounded[T any](had, more []T, limit int) []T {
	all := slices.Concat(had, more)
	return all[max(0, len(all)-limit):]
}

func (s state) takeDetail(in detailEvent) state {
	if s.detail == nil || s.detail.id != in.id {
		return s
	}
	d := *s.detail
	d.asking, d.err = false, ""
	if in.err != nil {
		d.err = in.err.Error()
	} else {
		d.info = &in.info
	}
	s.detail = &d
	return s
}

// askDetail asks for the open rank at intervals, one question at a time.
func (s state) askDetail() (state, []any) {
	d := s.detail
	if d == nil || d.asking || !s.broken.since.IsZero() {
		return s, nil
	}
	if !d.asked.IsZero() && s.now.Sub(d.asked) < detailInterval {
		return s, nil
	}
	next := *d
	next.asking, next.asked = true, s.now
	s.detail = &next
	return s, []any{askRank(next.id)}
}

// wants returns what is on the screen.
func (s state) wants() wanted {
	w := wanted{ranks: map[rankID]bool{}, hosts: map[string]bool{}}
	for _, r := range s.visibleRows() {
		if r.host != nil {
			w.hosts[r.host.ID] = true
		}
		if r.proc != nil {
			w.ranks[r.proc.id()] = true
		}
	}
	if s.detail != nil {
		w.ranks[s.detail.id] = true
	}
	return w
}

func (w wanted) equal(o wanted) bool {
	return maps.Equal(w.ranks, o.ranks) && maps.Equal(w.hosts, o.hosts)
}

// matches reports whether a row has the searched text in its name or status.
func (s state) matches(r row) bool {
	text := strings.ToLower(r.name + " " + r.status + " " + r.current)
	return s.search != "" && strings.Contains(text, strings.ToLower(s.search))
}
