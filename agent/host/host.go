package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/build"
	"github.com/castnet-io/castnet/internal/launch"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/logger"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/subjects"
)

// labelQuiet is how long Start listens for a host that has the label already.
const labelQuiet = 250 * time.Millisecond

// Options configures a host. Label, Bus and Settings are required. A limit that is set here goes before
// what Config says.
type Options struct {
	Label     string            // unique among live hosts; follows the label rule
	ID        subjects.HostID   // of that label; zero: a fresh one
	Bus       *bus.Bus          // the host's own connections; not owned
	Settings  agent.BusSettings // how its procs reach the bus
	Space     subjects.Space
	Dir       string        // run directory for output files; "" = a temporary one that goes with the host
	Allow     []string      // paths of programs that may run, besides the host's own; directories allow what is in them
	AllowUser bool          // allow any program of the host's own user, too
	Builtin   []string      // arguments that make the host's own binary a proc with built-in actors; nil = none
	LogCap    int64         // bytes of each output of a proc that its file keeps at least, twice as many at most; 0: logs.file-cap
	StateDir  string        // to be found again by the next host that has it (HOST-10); "" = nothing outlives the host
	Subreaper bool          // where there are no cgroups, see launch.Options
	Ready     time.Duration // for a proc to be ready in; 0: host.ready, less: without end
	Launches  int           // procs that are launched at a time; 0: spawn.concurrency
	Stops     int           // procs that are stopped at a time, 1 to 256; 0: terminate.concurrency
	Labels    map[string]string
	Local     *Local       // run procs in this process; nil: as processes of their own
	Config    *keys.Config // limits; nil: all defaults
	Version   string
	Level     string         // log level of procs; "": proc.log-level
	Log       zerolog.Logger // the zero Logger: warnings and errors go to stderr; zerolog.Nop() is silent
}

// id is the host's address.
func (o Options) id() (subjects.HostID, error) {
	if !o.ID.IsValid() {
		return subjects.NewHostID(o.Label)
	}
	if o.ID.Label() != o.Label {
		return o.ID, fmt.Errorf("start host %s: the ID %s is of another label", o.Label, o.ID)
	}
	return o.ID, nil
}

// withDefaults fills in what was left out, and refuses what cannot be.
func (o Options) withDefaults() (Options, error) {
	o.Launches = cmp.Or(o.Launches, keys.SpawnConcurrency.Get(o.Config))
	o.Stops = cmp.Or(o.Stops, keys.TerminateConcurrency.Get(o.Config))
	o.Log = logger.OrStderr(o.Log)
	o.LogCap = cmp.Or(o.LogCap, int64(keys.LogsFileCap.Get(o.Config)))
	switch {
	case o.Bus == nil:
		return o, fmt.Errorf("start host %s: no bus", o.Label)
	case o.Launches < 0:
		return o, fmt.Errorf("start host %s: %d launches at a time: want 1 or more, or 0 for spawn.concurrency", o.Label, o.Launches)
	case o.Stops < 0 || o.Stops > agent.MaxAtOnce:
		return o, fmt.Errorf("start host %s: %d stops at a time: want 1 to %d, or 0 for terminate.concurrency", o.Label, o.Stops, agent.MaxAtOnce)
	}
	for k, v := range o.Labels {
		if err := subjects.CheckLabel("host label key", k); err != nil {
			return o, err
		}
		if len(v) > maxLabel || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
			return o, fmt.Errorf("start host %s: label %s=%q: want printable text of at most %d bytes", o.Label, k, v, maxLabel)
		}
	}
	return o, nil
}

// ready is how long the procs of a client with this configuration may take; 0 is without end.
func (o Options) ready(c *keys.Config) time.Duration {
	return max(0, cmp.Or(o.Ready, keys.HostReady.Get(c)))
}

// maxLabel bounds the value of a label.
const maxLabel = 256

// Host is a running host agent.
type Host struct {
	id      subjects.HostID
	proc    *actor.Proc
	router  *cast.Router
	run     runner
	left    chan struct{}
	scratch string // a run directory to remove; "" = not ours
	store   *store // nil: no state directory
	pulse   *pulse // nil: it has not begun
	first   uint64 // packets of earlier lives had numbers below this
}

// Start starts a host agent: when it returns, the host can be found.
func Start(ctx context.Context, o Options) (*Host, error) {
	id, err := o.id()
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	if err := labelFree(ctx, o); err != nil {
		return nil, err
	}
	h := &Host{id: id, left: make(chan struct{})}
	if o.StateDir != "" {
		if err := h.remember(o); err != nil {
			return nil, errors.Join(fmt.Errorf("start host %s: %w", o.Label, err), h.Close(ctx))
		}
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "castnet-"+o.Label+"-"); err != nil {
			return nil, errors.Join(fmt.Errorf("start host %s: run directory: %w", o.Label, err), h.Close(ctx))
		}
		h.scratch = o.Dir
	} else if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("start host %s: run directory: %w", o.Label, err), h.Close(ctx))
	}
	if o.Dir, err = filepath.Abs(o.Dir); err == nil {
		err = h.start(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start host %s: %w", o.Label, err), h.Close(ctx))
	}
	return h, nil
}

// remember takes the state directory, and is who the host was that had it before.
func (h *Host) remember(o Options) (err error) {
	if o.Local != nil {
		return errors.New("a state directory is for procs that can outlive the host: want none with Local")
	}
	if o.ID.IsValid() {
		return errors.New("a state directory says who the host is: want none with an ID")
	}
	dir, err := filepath.Abs(o.StateDir)
	if err != nil {
		return err
	}
	if h.store, err = openStore(dir, o.Log); err != nil {
		return err
	}
	who, err := h.store.identify(o.Label, time.Now())
	h.id, h.first = who.ID, who.First
	return err
}

func (h *Host) start(ctx context.Context, o Options) error {
	id, err := build.ID()
	if err != nil {
		return err
	}
	registry, err := actor.NewRegistry(agentType.Made(newAgent, methods()...).Enduring())
	if err != nil {
		return err
	}
	if o.Local != nil {
		h.run = newLocalRunner(o)
	} else {
		lo := launch.Options{
			Log: o.Log, Subreaper: o.Subreaper, KillWait: keys.TerminateKillWait.Get(o.Config), NoDeathSignal: !keys.ProcDeathSignal.Get(o.Config),
		}
		if h.store != nil {
			lo.StateDir = h.store.dir
		}
		h.run = &execRunner{o, launch.New(lo), h.store}
	}
	var left []found
	if r, ok := h.run.(*execRunner); ok {
		left = r.takeOver() // before anybody can say anything to this host: what an earlier one left says nothing more
	}
	opts := actor.Options{ID: h.id.Proc(), Bus: o.Bus, Space: o.Space, Registry: registry, Log: o.Log,
		Links:       link.Config{First: h.first},
		Coordinator: func(actor.Event) {}, // it is logged and published
	}
	agent.Configure(&opts, o.Config)
	if h.proc, err = actor.NewProc(ctx, opts); err != nil {
		return err
	}
	agent.SetConfig(h.proc, o.Config)
	if h.router, err = cast.Start(h.proc, nil); err != nil {
		return err
	}
	h.pulse = newPulse(h.id, keys.SupervisionHeartbeat.Get(o.Config))
	params := config{
		id: h.id, opts: o, run: h.run, build: id, started: time.Now(), left: func() { close(h.left) }, closes: h.pulse.closes, takes: h.pulse.takes,
		found: left, first: h.first,
	}
	if _, err := h.proc.Spawn(ctx, actor.Spawning{Type: agentType.Name(), Name: agent.Name, Params: params, Announce: true, Greet: true, Mailbox: agent.Mailbox}); err != nil {
		return err
	}
	for _, who := range []string{h.id.String(), subjects.Any} {
		if err := h.proc.SubscribeLossy(h.requests(), o.Space.HostVerbs(who, ""), h.ask); err != nil {
			return err
		}
	}
	if err := micro.Serve(services{h.proc}, h.service(o)); err != nil {
		return err
	}
	h.pulse.start(h.proc)
	return nil
}

// requests is the Inbox of what plain clients ask the host. The control lane answers them.
func (h *Host) requests() *bus.Inbox { return h.proc.Bus().Control().Lossy("requests") }

// ask hands a foreign client's request to the agent's endpoint of the verb's name (HOST-17).
func (h *Host) ask(m bus.Msg) {
	if s, err := h.proc.Space().Parse(m.Subject); err == nil {
		h.proc.Foreign(agent.Name, s.Verb, actor.ForeignMessage{Msg: m, From: s.From, Urgent: true})
	}
}

// labelFree asks the live hosts whether one has the label (HOST-1).
func labelFree(ctx context.Context, o Options) error {
	hosts, err := agent.Hosts(ctx, o.Bus, o.Space, labelQuiet)
	if err != nil {
		return fmt.Errorf("look for a host labelled %s: %w", o.Label, err)
	}
	for _, h := range hosts {
		if h.Label == o.Label {
			return fmt.Errorf("host label %q is taken by %s (pid %d): want a label that no live host has", o.Label, h.ID, h.PID)
		}
	}
	return nil
}

// Done is closed once the agent has ended, however that came: a host without it watches nothing.
func (h *Host) Done() <-chan struct{} { return h.proc.Done(agent.Name) }

// Left is closed once the host was asked to stop everything and leave, and has: it is to be closed.
func (h *Host) Left() <-chan struct{} { return h.left }

// Proc is what the host's agent lives in: for what else the program that runs the host has to say as the host.
func (h *Host) Proc() *actor.Proc { return h.proc }

// ID is the host's address.
func (h *Host) ID() subjects.HostID { return h.id }

// Close stops every proc, waits for their ends, and ends the agent (HOST-5). The bus stays open.
func (h *Host) Close(ctx context.Context) error {
	var errs []error
	h.pulse.closes("it was closed")
	if h.proc != nil {
		errs = append(errs, h.proc.Close(ctx))
	}
	h.pulse.close()
	if h.router != nil {
		h.router.Close()
	}
	if h.run != nil {
		errs = append(errs, h.run.close())
	}
	errs = append(errs, h.store.close())
	if h.scratch != "" {
		errs = append(errs, os.RemoveAll(h.scratch))
	}
	return errors.Join(errs...)
}
