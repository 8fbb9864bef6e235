package screen

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/castnet-io/castnet/mesh"
)

// Options configure a screen.
type Options struct {
	Interval time.Duration                    // between samples, at least
	Sort     string                           // one of inspect.SortKeys
	Scope    string                           // the target; "": all
	Only     func(mesh string, rank int) bool // the ranks of the target; nil: all
	Color    bool
	In       io.Reader // nil: no keyboard
	Out      io.Writer
	Environ  []string
}

// Run shows the screen until a key quits it, ctx ends or the bus is closed for good.
func Run(ctx context.Context, conn *mesh.Net, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := newFeed(ctx, conn, o)
	first, err := f.sample(ctx) // a castnet without hosts has no screen
	if err != nil {
		return err
	}
	m := &model{state: newState(o), feed: f}
	m.apply(sampleEvent{first})
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out),
		tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler())
	f.send = func(input any) { program.Send(input) }
	var serving sync.WaitGroup
	serving.Go(f.run)
	_, err = program.Run()
	ended := ctx.Err()
	cancel()
	serving.Wait()
	if errors.Is(err, tea.ErrProgramKilled) && ended != nil {
		return ended
	}
	return err
}

// model runs the steps of a state in a terminal.
type model struct {
	state
	feed *feed
	last wanted
}

// apply runs one step, and passes its effects on. It returns those for the terminal.
func (m *model) apply(input any) tea.Cmd {
	var effects []any
	m.state, effects = m.step(time.Now(), input)
	if w := m.wants(); !w.equal(m.last) {
		m.last = w
		m.feed.want(w, m.sample.Partial)
	}
	var cmds []tea.Cmd
	for _, e := range effects {
		switch e := e.(type) {
		case quit:
			cmds = append(cmds, tea.Quit)
		case suspend:
			cmds = append(cmds, tea.Suspend)
		case redraw:
			cmds = append(cmds, tea.ClearScreen)
		case askRank:
			replace(m.feed.ranks, rankID(e))
		case followLog:
			replace(m.feed.logs, logTarget(e))
		}
	}
	return tea.Batch(cmds...)
}

// tickInterval is the time between two looks at the clock.
const tickInterval = time.Second

func tick() tea.Cmd {
	return tea.Tick(tickInterval, func(time.Time) tea.Msg { return tickEvent{} })
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch in := msg.(type) {
	case tea.KeyPressMsg:
		return m, m.apply(keyEvent(in.String()))
	case tea.WindowSizeMsg:
		return m, m.apply(sizeEvent{in.Width, in.Height})
	case tea.MouseWheelMsg:
		by := wheelEvent(wheelRows)
		if in.Button == tea.MouseWheelUp {
			by = -by
		}
		return m, m.apply(by)
	case tea.MouseClickMsg:
		return m, m.apply(clickEvent(in.Y))
	case tickEvent:
		return m, tea.Batch(m.apply(in), tick())
	case busClosed:
		return m, tea.Quit
	case sampleEvent, sampleFailed, busEvent, newsEvent, noteEvent, detailEvent, linesEvent:
		return m, m.apply(in)
	}
	return m, nil
}

// wheelRows is the number of rows of one notch of the wheel.
const wheelRows = 3

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = true
	if m.state.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}
