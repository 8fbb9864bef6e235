package worlds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/subjects"
)

// Options configures a Service. Bus is required, and is used by nothing else.
type Options struct {
	Bus     *bus.Bus // not owned
	Space   subjects.Space
	Label   string         // whose service it is: its host's
	Config  *config.Config // limits; nil: all defaults
	Version string         // for discovery
	Log     zerolog.Logger
	Hold    <-chan struct{} // the service acts when this is closed; nil: at once
}

// Service is one of several that a system has: one acts, the others stand by (WORLD-13).
type Service struct {
	opts  Options
	id    subjects.MeshID // who it is to the others
	store *store          // nil: worlds do not outlive it

	trouble string // with the lease, as the log has it

	cancel context.CancelFunc
	done   chan struct{} // closed when it acts no more and never will
}

const (
	// closeWithin is how long the end of a term may take.
	closeWithin = 3 * time.Second
	// loadWithin bounds reading the worlds.
	loadWithin = 10 * time.Second
	// again is between two tries to begin a term that failed to.
	again = time.Second
	// mailbox is room for the ends of as many procs at once.
	mailbox = 1 << 14
	// procName is the label of the proc of a system controller.
	procName = "system"
	// maxReplicas is how many servers of a cluster keep the worlds.
	maxReplicas = 3
)

// Start starts a Service. Without JetStream it says so in the log, and worlds end with it. Where JetStream does not answer
// (bus.ErrJetStreamAway), the caller may try again.
func Start(ctx context.Context, o Options) (*Service, error) {
	id, err := subjects.NewMeshID("system")
	if err != nil {
		return nil, err
	}
	s := &Service{opts: o, id: id, done: make(chan struct{})}
	kv, err := openBucket(ctx, o)
	switch {
	case err == nil:
		s.store = &store{kv: kv, open: func(ctx context.Context) (*bus.KV, error) { return openBucket(ctx, o) }}
	case !errors.Is(err, bus.ErrNoJetStream):
		return nil, fmt.Errorf("start the system controller: %w", err)
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(s.done)
		if s.held(ctx) {
			return
		}
		if s.store == nil {
			o.Log.Info().Msg("there is no JetStream: worlds do not outlive this hostd, and no other one takes over")
			s.alone(ctx)
		} else {
			s.contend(ctx)
		}
	}()
	return s, nil
}

// held waits until the service may act; true: ctx has ended before.
func (s *Service) held(ctx context.Context) bool {
	if s.opts.Hold != nil {
		select {
		case <-s.opts.Hold:
		case <-ctx.Done():
		}
	}
	return ctx.Err() != nil
}

// openBucket opens the bucket of the space. Where it has to be made, so many servers keep it as there are.
func openBucket(ctx context.Context, o Options) (*bus.KV, error) {
	how := bus.KVOptions{Bucket: bucketOf(o.Space)}
	if o.Bus.Control().Clustered() {
		how.Replicas = maxReplicas
		kv, err := o.Bus.Control().KV(ctx, how)
		_, denied := errors.AsType[*bus.PermissionError](err)
		known := errors.Is(err, bus.ErrNoJetStream) || errors.Is(err, bus.ErrJetStreamAway)
		if err == nil || denied || known || ctx.Err() != nil {
			return kv, err
		}
		o.Log.Warn().Err(err).Msgf("worlds are kept by one server, and not by %d", maxReplicas)
		how.Replicas = 1
	}
	return o.Bus.Control().KV(ctx, how)
}

// Durable reports whether worlds outlive the service.
func (s *Service) Durable() bool { return s.store != nil }

// Done is closed when it has ended: by Close, because the bus broke, or because the whole system was stopped.
func (s *Service) Done() <-chan struct{} { return s.done }

// Close ends it; another one takes over. Procs of worlds go on, where worlds are saved.
func (s *Service) Close(ctx context.Context) error {
	s.cancel()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the system controller: %w", ctx.Err())
	}
}

func (s *Service) limits() limits {
	return limits{
		presence: true, names: true,
		silence: config.WorldSilence.Get(s.opts.Config), eviction: config.WorldEviction.Get(s.opts.Config),
		stopWithin: config.WorldStop.Get(s.opts.Config), reservation: config.ProcSpawnIdle.Get(s.opts.Config),
	}
}

// lease is how long procs outlive the last word of a controller that nobody follows.
func (s *Service) lease() time.Duration {
	if s.store != nil {
		return 0
	}
	return config.SupervisionOrphan.Get(s.opts.Config)
}

// contend acts while it has the lease, and looks for it while it has not, until ctx ends.
func (s *Service) contend(ctx context.Context) {
	l := &lease{self: s.id.String()}
	var now *running
	defer func() {
		now.end()
		s.giveBack(l)
	}()
	for !now.quit() {
		l.handOver(now)
		if now != nil && !l.leading {
			s.opts.Log.Warn().Uint64("epoch", now.epoch).AnErr("why", cmp.Or(now.why(), l.lost())).Msg("the system controller's term is over")
			now.end()
			now = nil
		}
		if l.leading {
			s.refill(ctx)
		}
		if l.leading && now == nil {
			now = s.begin(ctx, l.known.Epoch, l.follows)
		}
		if !s.once(ctx, l, now) {
			return
		}
	}
}

// refill fills a bucket that was gone, a part of it at a time.
func (s *Service) refill(ctx context.Context) {
	switch n, err := s.store.fill(ctx); {
	case err != nil:
		s.opts.Log.Warn().Err(err).Msg("the new bucket is not filled so far")
	case n > 0:
		s.opts.Log.Warn().Int("worlds", n).Msg("the bucket of the worlds was gone: filled another one with what the system controller knew")
	}
}

// handOver ends a term that has ended itself.
func (l *lease) handOver(now *running) {
	select {
	case <-now.over():
		if l.leading {
			l.outranked(max(now.ready.floor, now.epoch))
		}
	default:
	}
}

// once does the next thing about the lease; false: ctx has ended.
func (s *Service) once(ctx context.Context, l *lease, now *running) bool {
	switch a := l.act(time.Now()).(type) {
	case rest:
		select {
		case <-time.After(time.Until(a.until)):
		case <-now.over():
		case <-ctx.Done():
		case <-s.opts.Bus.Done():
		}
	case lookAt:
		g, revision, err := s.store.grant(ctx)
		s.tellLease(err)
		if err != nil {
			if l.unseen(time.Now()) {
				s.reopen(ctx)
			}
			break
		}
		if g.Holder != "" && g.Holder != l.self {
			s.store.forget()
		}
		if revision == 0 && l.known.Epoch > 0 { // somebody else has made the bucket again
			s.reopen(ctx)
		}
		l.saw(time.Now(), g, revision)
	case writeTo:
		sent := time.Now()
		revision, err := s.store.writeGrant(ctx, a)
		l.wrote(sent, time.Now(), a, revision, err == nil)
		if err != nil && !errors.Is(err, bus.ErrRevision) {
			s.tellLease(err)
			s.reopen(ctx)
		}
	}
	return ctx.Err() == nil && s.opts.Bus.Err() == nil
}

// reopen opens the bucket again, which may be gone. Who has the lease does so first, so that the controller that knows the
// worlds is the one that fills a new bucket.
func (s *Service) reopen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reopenWithin)
	defer cancel()
	if err := s.store.reopen(ctx); err != nil {
		s.opts.Log.Warn().Err(err).Msg("cannot open the bucket of the worlds")
	}
}

// tellLease logs why the lease cannot be read or written, once for each reason.
func (s *Service) tellLease(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != "" && now != s.trouble {
		s.opts.Log.Warn().Err(err).Msg("the lease of the system controller is out of reach")
	}
	s.trouble = now
}

// giveBack lets another one act at once.
func (s *Service) giveBack(l *lease) {
	if w, ok := l.back(); ok && s.opts.Bus.Err() == nil {
		if _, err := s.store.writeGrant(context.Background(), w); err != nil {
			s.opts.Log.Debug().Err(err).Msg("the lease of the system controller was not given back: it runs out")
		}
	}
}

// running is a term. The nil term is none.
type running struct {
	epoch uint64
	proc  *actor.Proc
	hosts *presence.Watcher
	keeps *controller.Keeper
	ready *readiness
}

func (r *running) over() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.ready.over
}

// quit reports whether the whole system was stopped.
func (r *running) quit() bool {
	select {
	case <-r.over():
		return r.ready.quit
	default:
		return false
	}
}

// why says what ended the term, when that was not the lease.
func (r *running) why() error {
	select {
	case <-r.over():
		return r.ready.why
	default:
		return nil
	}
}

func (r *running) end() {
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	if r.hosts != nil {
		r.hosts.Close()
	}
	if r.keeps != nil {
		r.keeps.Close()
	}
	if err := r.proc.Close(ctx); err != nil {
		log := r.proc.Log()
		log.Warn().Err(err).Msg("the system controller did not end as it should")
	}
}

// begin starts a term, which may follow one that it was there to see; nil: it could not, and will be tried again.
func (s *Service) begin(ctx context.Context, epoch uint64, follows bool) *running {
	r, err := s.start(ctx, epoch, follows)
	if err != nil {
		s.opts.Log.Error().Err(err).Msg("the system controller could not begin")
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
		return nil
	}
	s.opts.Log.Info().Uint64("epoch", epoch).Stringer("proc", r.proc.ID()).Msg("this is the system controller now")
	return r
}

// start reads the worlds, and only then can anybody find the controller.
func (s *Service) start(ctx context.Context, epoch uint64, follows bool) (*running, error) {
	reading, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	records, err := s.store.load(reading)
	if err != nil {
		return nil, err
	}
	id, err := subjects.NewMeshID(procName)
	if err != nil {
		return nil, err
	}
	registry, err := actor.NewRegistry(def(), controller.Def())
	if err != nil {
		return nil, err
	}
	r := &running{epoch: epoch, ready: &readiness{over: make(chan struct{})}}
	o := actor.Options{
		ID: subjects.ProcID{Mesh: id}, Bus: s.opts.Bus, Space: s.opts.Space, Registry: registry, Log: s.opts.Log,
		Coordinator: func(e actor.Event) { r.ready.end(errors.New(e.Report()), 0, false) }, // another one begins where it ended
	}
	agent.Configure(&o, s.opts.Config)
	if r.proc, err = actor.NewProc(ctx, o); err != nil {
		return nil, err
	}
	agent.SetConfig(r.proc, s.opts.Config)
	var found []inventory
	if records.adopting() > 0 {
		var floor uint64
		if found, floor, err = survey(ctx, r.proc, config.DiscoveryQuiet.Get(s.opts.Config)); err != nil {
			s.opts.Log.Warn().Err(err).Msg("cannot ask the hosts which worlds they run")
		}
		if floor > epoch {
			r.ready.end(fmt.Errorf("hosts have heard of epoch %d", floor), floor, false)
			return r, nil
		}
	}
	r.keeps = controller.NewKeeper(r.proc)
	if r.hosts, err = presence.New(r.proc); err == nil {
		params := term{s, epoch, records, found, follows, r.ready, r.hosts, r.keeps}
		_, err = r.proc.Spawn(ctx, actor.Spawning{Type: Type.Name(), Name: name, Params: params, Mailbox: mailbox})
	}
	if err == nil {
		err = micro.Serve(services{r.proc}, s.describe(r))
	}
	if err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

// services lets package micro subscribe for as long as the proc is there.
type services struct{ *actor.Proc }

func (s services) Subscribe(subject string, handle func(bus.Msg)) error {
	return s.SubscribeLossy(s.Bus().Data().Lossy(micro.Inbox), subject, handle)
}

func (s services) Publish(m bus.Msg) error { return s.Bus().Data().PublishMsg(m) }

// describe is the controller for discovery, which is how it is found.
func (s *Service) describe(r *running) micro.Service {
	p := r.proc
	subject := func(endpoint string) string { return p.Space().PortsNamed(p.ID(), endpoint) }
	return micro.Service{
		Name: serviceName, ID: p.ID().Mesh.String(), Version: s.opts.Version, Description: "owns worlds: what outlives its maker",
		Metadata: map[string]string{
			metaSpace: p.Space().String(), metaActor: p.ID().Actor(name).String(), metaEpoch: strconv.FormatUint(r.epoch, 10),
			"label": s.opts.Label, "durable": strconv.FormatBool(s.Durable()),
		},
		Info: func(answer func([]micro.Endpoint)) { answer(agent.Endpoints(p.Registry(), Type.Name(), subject)) },
		Stats: func() []micro.Stats {
			info, _ := p.Actor(name)
			return agent.Stats(p.Registry(), Type.Name(), []actor.Info{info}, subject)
		},
	}
}
