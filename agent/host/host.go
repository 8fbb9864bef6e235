package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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

// labelCheckQuiet is the wait of Start for another host with the same label.
const labelCheckQuiet = 250 * time.Millisecond

// Options configure a host. Label, Bus and Settings are required. A limit here overrides Config.
type Options struct {
	Label    string            // unique among live hosts; see the label rule
	ID       subjects.HostID   // with that label; zero: a fresh one
	Bus      *bus.Bus          // the host's own connections; not owned
	Settings agent.BusSettings // how its procs reach the bus
	// MintCreds makes the text of a credentials file for a proc, valid for CredsLife (HOST-20); nil:
	// all procs have the credentials of Settings.
	MintCreds func() ([]byte, error)
	CredsLife time.Duration
	Space     subjects.Space
	RunDir    string   // directory for output files of this host only; "" = a temporary one
	Allow     []string // permitted programs besides the host's own; a directory permits all in it
	AllowUser bool     // permit programs owned by the host's user
	// AllowCommands are permitted programs with fixed arguments: each is a path, and the first
	// arguments of a command.
	AllowCommands [][]string
	ProcUser      string // USER[:GROUP] of procs; "" = the host's user. Needs root
	ProcLimits    ProcLimits
	// Command replaces the caller's executable in spawns that name no program. The host allows it.
	// Empty: the caller's executable.
	Command agent.Command
	// arguments with which the host's own binary is a proc with built-in actors; nil = none
	Builtin      []string
	LogCap       int64         // minimum size of a proc's output file, at most doubled; 0: logs.max-file-size
	StateDir     string        // state for the next host (HOST-10); "" = nothing outlives the host
	Subreaper    bool          // without cgroups, see launch.Options
	ReadyTimeout time.Duration // time for a proc to become ready; 0: proc.ready-timeout, negative: no limit
	MaxLaunches  int           // concurrent launches; 0: spawn.concurrency
	MaxStops     int           // concurrent stops, 1 to 256; 0: terminate.concurrency
	Labels       map[string]string
	Local        *Local       // run procs in this process; nil: in OS processes
	Config       *keys.Config // limits at the start, which attached programs add to; nil: defaults
	Tracer       actor.Tracer // makes spans of the agent's messages; nil: none
	Version      string
	Maker        subjects.Sender // the process for which it was started, which it obeys; zero: none
	// Metrics returns the metrics of other procs in this process, such as a gateway's, for those of
	// the host. It may be called on any goroutine; nil: there are none.
	Metrics      func() map[subjects.ProcID]agent.MeshMetrics
	ProcLogLevel string         // log level of procs; "": proc.log-level
	Stdout       io.Writer      // for the stdout of procs with logs.mirror; nil: that of this process
	Stderr       io.Writer      // likewise
	Log          zerolog.Logger // zero: warnings and errors to stderr; zerolog.Nop(): none

	procUser *launch.User // ProcUser, once it is known
}

// ProcLimits are limits of the kernel for each launched process; 0: those of the host. A mesh may
// have tighter ones, and none that are wider.
type ProcLimits struct {
	Files        uint64 // open files of a process
	Processes    uint64 // processes and threads of the user of procs; no limit for root
	AddressSpace uint64 // bytes of a process
}

// Check refuses limits that the host may not set, or that no proc can live with.
func (l ProcLimits) Check() error { return launch.ProcessLimits(l).Check() }

// permits refuses wider limits of a mesh.
func (l ProcLimits) permits(m agent.Mesh) error {
	for _, limit := range []struct {
		name        string
		asked, most uint64
	}{
		{"open files", uint64(m.Limits.Files), l.Files}, {"pids", uint64(m.Limits.Pids), l.Processes},
	} {
		if limit.most > 0 && limit.asked > limit.most {
			return fmt.Errorf("mesh %s: limit of %d %s: want at most %d, as this host permits", m.ID, limit.asked,
				limit.name, limit.most)
		}
	}
	return nil
}

// hostID returns the host's address.
func (o Options) hostID() (subjects.HostID, error) {
	if !o.ID.IsValid() {
		return subjects.NewHostID(o.Label)
	}
	if o.ID.Label() != o.Label {
		return o.ID, fmt.Errorf("start host %s: the ID %s has another label", o.Label, o.ID)
	}
	return o.ID, nil
}

// withDefaults fills in defaults and refuses invalid options.
func (o Options) withDefaults() (Options, error) {
	o.MaxLaunches = cmp.Or(o.MaxLaunches, keys.SpawnConcurrency.Get(o.Config))
	o.Log = logger.OrStderr(o.Log)
	o.LogCap = cmp.Or(o.LogCap, int64(keys.LogsMaxFileSize.Get(o.Config)))
	o.Config = o.Config.Clone()
	if o.Command.Path != "" {
		o.Allow = append(slices.Clone(o.Allow), o.Command.Path)
	}
	switch {
	case o.Bus == nil:
		return o, fmt.Errorf("start host %s: want a bus", o.Label)
	case o.Local != nil && o.ProcLimits != (ProcLimits{}):
		return o, fmt.Errorf("start host %s: procs in its own process have no limits of their own", o.Label)
	case o.MintCreds != nil && (o.Local != nil || o.CredsLife < time.Second):
		return o, fmt.Errorf("start host %s: credentials of procs live for %s: want 1s or more, and no Local",
			o.Label, o.CredsLife)
	case o.Local != nil && o.ProcUser != "":
		return o, fmt.Errorf("start host %s: procs in its own process have no user of their own", o.Label)
	case o.MaxLaunches < 0:
		return o, fmt.Errorf("start host %s: %d concurrent launches: want 1 or more, or 0 for spawn.concurrency",
			o.Label, o.MaxLaunches)
	case o.MaxStops < 0 || o.MaxStops > agent.MaxConcurrentMoves:
		return o, fmt.Errorf("start host %s: %d concurrent stops: want 1 to %d, or 0 for terminate.concurrency",
			o.Label, o.MaxStops, agent.MaxConcurrentMoves)
	}
	for k, v := range o.Labels {
		if err := subjects.CheckLabel("host label key", k); err != nil {
			return o, err
		}
		if len(v) > maxLabelValue || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
			return o, fmt.Errorf("start host %s: label %s=%q: want printable text of at most %d bytes", o.Label,
				k, v, maxLabelValue)
		}
	}
	return o, nil
}

// maxStops returns the number of concurrent stops.
func (o Options) maxStops() int { return cmp.Or(o.MaxStops, keys.TerminateConcurrency.Get(o.Config)) }

// readyTimeout returns the ready timeout of procs with this client configuration; 0 is no limit.
func (o Options) readyTimeout(c *keys.Config) time.Duration {
	return max(0, cmp.Or(o.ReadyTimeout, keys.ProcReadyTimeout.Get(c)))
}

// maxLabelValue bounds the length of a label's value.
const maxLabelValue = 256

// Host is a running host agent.
type Host struct {
	id          subjects.HostID
	proc        *actor.Proc
	router      *cast.Router
	runner      runner
	left        chan struct{}
	runDir      runDir
	credentials *credentials                    // of procs; nil: none
	store       *store                          // nil: no state directory
	closeBy     atomic.Pointer[time.Time]       // deadline of Close
	heartbeater *heartbeater                    // nil: not started
	firstPacket uint64                          // lower packet numbers belong to earlier incarnations
	maker       atomic.Pointer[subjects.Sender] // see Options.Maker; nil: none so far
}

// Start starts a host agent. On return the host can be found.
func Start(ctx context.Context, o Options) (*Host, error) {
	id, err := o.hostID()
	if err != nil {
		return nil, err
	}
	o, err = o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Host{id: id, left: make(chan struct{})}
	if o.Maker.IsValid() {
		h.maker.Store(&o.Maker)
	}
	if o.StateDir != "" {
		if err := h.openState(o); err != nil {
			return nil, errors.Join(fmt.Errorf("start host %s: %w", o.Label, err), h.Close(ctx))
		}
	}
	if err := checkLabelFree(ctx, o, h.id); err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	h.runDir, err = openRunDir(o.RunDir, o.Label, o.Log)
	o.RunDir = h.runDir.path
	if err == nil {
		err = h.start(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start host %s: %w", o.Label, err), h.Close(ctx))
	}
	return h, nil
}

// openState locks the state directory and restores the identity stored in it.
func (h *Host) openState(o Options) (err error) {
	if o.Local != nil {
		return errors.New("procs of Local cannot outlive the host: want no state directory")
	}
	if o.ID.IsValid() {
		return errors.New("a state directory holds the host's ID: want only one of them")
	}
	dir, err := filepath.Abs(o.StateDir)
	if err != nil {
		return err
	}
	h.store, err = openStore(dir, o.Log)
	if err != nil {
		return err
	}
	who, err := h.store.loadIdentity(o.Label, time.Now())
	h.id, h.firstPacket = who.ID, who.FirstPacket
	return err
}

func (h *Host) start(ctx context.Context, o Options) error {
	tickets, err := o.ticketKey()
	if err != nil {
		return err
	}
	id, err := build.ID()
	if err != nil {
		return err
	}
	registry, err := actor.NewRegistry(definition())
	if err != nil {
		return err
	}
	if o.Local != nil {
		h.runner = newLocalRunner(o)
	} else {
		lo := launch.Options{
			Log: o.Log, Subreaper: o.Subreaper, KillWait: keys.TerminateKillWait.Get(o.Config),
			NoDeathSignal: !keys.ProcDeathSignal.Get(o.Config), ProcessLimits: launch.ProcessLimits(o.ProcLimits),
		}
		if o.ProcUser != "" {
			lo.User, err = launch.FindUser(o.ProcUser)
			if err != nil {
				return fmt.Errorf("cannot start host %s: %w", o.Label, err)
			}
			o.procUser = lo.User
		}
		if err := lo.ProcessLimits.CheckFor(lo.User); err != nil {
			return fmt.Errorf("cannot start host %s: %w", o.Label, err)
		}
		if h.store != nil {
			lo.StateDir = h.store.dir
		}
		h.runner = &execRunner{o, launch.New(lo), h.store, h.runDir.lock != nil}
	}
	var left []adoptedProc
	if r, ok := h.runner.(*execRunner); ok {
		// before any message reaches this host, so that leftovers of an earlier one send nothing more
		left = r.adoptAll()
	}
	base := h.runDir.path
	if h.store != nil {
		base = h.store.dir
	}
	h.credentials, err = openCredentials(o, base, left)
	if err != nil {
		return err
	}
	opts := actor.Options{ID: h.id.Proc(), Principal: subjects.Host.Principal(h.id.Label()), Bus: o.Bus,
		Space: o.Space, Registry: registry, Log: o.Log, Tracer: o.Tracer,
		Links:       link.Config{FirstSeq: h.firstPacket},
		Coordinator: func(actor.Event) {}, // logged and published elsewhere
	}
	agent.ConfigureProc(&opts, o.Config)
	// the agent's Cleanup ends the procs
	opts.Cleanup = max(opts.Cleanup, keys.TerminateGrace.Get(o.Config)+keys.TerminateKillWait.Get(o.Config))
	h.proc, err = actor.NewProc(ctx, opts)
	if err != nil {
		return err
	}
	agent.SetConfig(h.proc, o.Config)
	h.router, err = cast.Start(h.proc, nil)
	if err != nil {
		return err
	}
	h.heartbeater = newHeartbeater(h.id, keys.SupervisionHeartbeatInterval.Get(o.Config))
	params := params{
		id: h.id, opts: o, runner: h.runner, store: h.store, tickets: tickets, build: id,
		credentials: h.credentials, started: time.Now(),
		onLeft:    func() { close(h.left) },
		closeBy:   &h.closeBy,
		maker:     &h.maker,
		onClosing: h.heartbeater.announceClosing, onModeChange: h.heartbeater.announceMode,
		adopted: left, firstPacket: h.firstPacket,
	}
	if _, err := h.proc.Spawn(ctx, actor.SpawnSpec{Type: agentType.Name(), Name: agent.Name, Params: params,
		Announce: true, AnnounceStart: true, Mailbox: agent.MailboxSize}); err != nil {
		return err
	}
	for _, filter := range []string{o.Space.HostReads(h.id.String(), ""), o.Space.HostReads(subjects.Any, ""),
		o.Space.HostWrites(h.id, "")} {
		if err := h.proc.Foreign().Subscribe(h.requestInbox(), filter, h.handleForeign); err != nil {
			return err
		}
	}
	on := h.proc.Foreign().Service(h.proc.Bus().Control(), micro.Inbox)
	if err := micro.Serve(on, h.service(o)); err != nil {
		return err
	}
	h.heartbeater.start(h.proc)
	return nil
}

// requestInbox returns the inbox for requests of plain clients. The control connection carries it.
func (h *Host) requestInbox() *bus.Inbox { return h.proc.Bus().Control().Lossy("requests") }

// handleForeign passes a foreign request to the agent endpoint named by its verb (HOST-12).
func (h *Host) handleForeign(m bus.Msg) {
	s, err := h.proc.Space().Parse(m.Subject)
	if err != nil {
		return
	}
	f := actor.ForeignMessage{Msg: m, From: s.Sender, Urgent: true}
	if want := agent.VerbKind(s.Verb); want != s.Kind {
		f.Refuse = fmt.Errorf("verb %q of a host: want it on %s., got %s.", s.Verb, want, s.Kind)
	}
	h.proc.Foreign().Deliver(agent.Name, s.Verb, f)
}

// checkLabelFree asks the live hosts whether one has the label (HOST-1). A silent host has it until
// it is known to be gone, except an earlier incarnation of this one.
func checkLabelFree(ctx context.Context, o Options, own subjects.HostID) error {
	hosts, silent, err := agent.DiscoverListedHosts(ctx, o.Bus, o.Space, labelCheckQuiet)
	if err != nil {
		return fmt.Errorf("cannot look for a host labelled %s: %w", o.Label, err)
	}
	for _, h := range hosts {
		if h.Label == o.Label {
			return fmt.Errorf("host label %q is taken by %s (pid %d): want a label that no live host has",
				o.Label, h.ID, h.PID)
		}
	}
	for _, id := range silent {
		if id.Label() == o.Label && id != own && !agent.HostIsGone(ctx, o.Bus, o.Space, id) {
			return fmt.Errorf("host label %q is taken by %s, which is connected, and slow to answer: want a label "+
				"that no live host has", o.Label, id)
		}
	}
	return nil
}

// Done is closed when the agent has ended for any reason. A host without its agent watches nothing.
func (h *Host) Done() <-chan struct{} { return h.proc.Done(agent.Name) }

// StopAllDone is closed once a StopAll request has been carried out. The caller then closes the
// host.
func (h *Host) StopAllDone() <-chan struct{} { return h.left }

// Proc returns the proc of the host agent. The host's program can run further actors there.
func (h *Host) Proc() *actor.Proc { return h.proc }

// RunDir returns the directory for the output of procs.
func (h *Host) RunDir() string { return h.runDir.path }

// ID returns the host's address.
func (h *Host) ID() subjects.HostID { return h.id }

// Close stops every proc, waits for their ends, and ends the agent (HOST-5). Procs have
// terminate.grace, but at most three quarters of the time until the deadline of ctx. The bus stays
// open.
func (h *Host) Close(ctx context.Context) error {
	var errs []error
	if by, ok := ctx.Deadline(); ok {
		h.closeBy.Store(&by)
	}
	h.heartbeater.announceClosing("it was closed")
	if h.proc != nil {
		errs = append(errs, h.proc.Close(ctx))
	}
	h.heartbeater.close()
	if h.router != nil {
		h.router.Close()
	}
	if h.runner != nil {
		errs = append(errs, h.runner.close())
	}
	return errors.Join(append(errs, h.credentials.close(), h.store.close(), h.runDir.close())...)
}
