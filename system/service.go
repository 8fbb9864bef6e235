package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// Options configures a Service. Bus is required; the Service needs one of its own.
type Options struct {
	Bus       *bus.Bus // the Service does not close it
	Space     subjects.Space
	Label     string         // of the host that runs the service
	Config    *config.Config // limits; nil: all defaults
	Version   string         // for discovery
	Log       zerolog.Logger
	StartWhen <-chan struct{} // the service acts once this is closed; nil: at once
}

// Service runs a system controller. Of several services in a system one acts, the others stand by
// (WORLD-13).
type Service struct {
	opts  Options
	id    subjects.MeshID // the holder in the lease
	store *store          // nil: worlds do not outlive the service

	past history // of all terms

	latestProc atomic.Pointer[actor.Proc] // of the latest term; nil: there was none

	leaseTrouble string // the last logged error of the lease

	cancel context.CancelFunc
	done   chan struct{} // closed when the service has ended
}

const (
	// termCloseTimeout bounds the end of a term.
	termCloseTimeout = 3 * time.Second
	// loadTimeout bounds reading the worlds.
	loadTimeout = 10 * time.Second
	// beginRetry is the time between two attempts to begin a term.
	beginRetry = time.Second
	// controllerMailbox bounds the waiting messages, such as the ends of procs.
	controllerMailbox = 1 << 14
	// procName is the label of the proc of a system controller.
	procName = "system"
	// maxReplicas is the number of servers of a cluster that store the worlds.
	maxReplicas = 3
)

// Start starts a Service. Without JetStream it logs that worlds end with it. If JetStream does not
// answer (bus.ErrJetStreamUnavailable), the caller may try again.
func Start(ctx context.Context, o Options) (*Service, error) {
	id, err := subjects.NewMeshID("system")
	if err != nil {
		return nil, err
	}
	s := &Service{opts: o, id: id, done: make(chan struct{})}
	kv, err := openBucket(ctx, o)
	if err != nil && !errors.Is(err, bus.ErrNoJetStream) {
		return nil, fmt.Errorf("cannot start the system controller: %w", err)
	}
	if err == nil {
		s.store = &store{kv: kv, open: func(ctx context.Context) (*bus.KV, error) { return openBucket(ctx, o) }}
	}
	forget, err := s.past.listen(o.Bus.Data(), o.Space)
	if err != nil {
		return nil, fmt.Errorf("cannot start the system controller: %w", err)
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(s.done)
		defer func() {
			if err := forget(); err != nil && !errors.Is(err, bus.ErrClosed) {
				o.Log.Debug().Err(err).Msg("cannot unsubscribe from events")
			}
		}()
		if s.awaitStart(ctx) {
			return
		}
		if s.store == nil {
			o.Log.Info().Msg("no JetStream: worlds end with this hostd, and no other hostd takes over")
			s.runStandalone(ctx)
		} else {
			s.contend(ctx)
		}
	}()
	return s, nil
}

// awaitStart waits until the service may act; true: ctx has ended.
func (s *Service) awaitStart(ctx context.Context) bool {
	if s.opts.StartWhen != nil {
		select {
		case <-s.opts.StartWhen:
		case <-ctx.Done():
		}
	}
	return ctx.Err() != nil
}

// openBucket opens the bucket of the space. In a cluster maxReplicas servers store a new bucket. If
// that is impossible, one server does.
func openBucket(ctx context.Context, o Options) (*bus.KV, error) {
	how := bus.KVOptions{Bucket: o.Space.Bucket()}
	if o.Bus.Control().Clustered() {
		how.Replicas = maxReplicas
		kv, err := o.Bus.Control().KV(ctx, how)
		_, denied := errors.AsType[*bus.PermissionError](err)
		known := errors.Is(err, bus.ErrNoJetStream) || errors.Is(err, bus.ErrJetStreamUnavailable)
		if err == nil || denied || known || ctx.Err() != nil {
			return kv, err
		}
		o.Log.Warn().Err(err).Msgf("cannot store worlds on %d servers: using one server", maxReplicas)
		how.Replicas = 1
	}
	return o.Bus.Control().KV(ctx, how)
}

// Durable reports whether worlds outlive the service.
func (s *Service) Durable() bool { return s.store != nil }

// Done returns a channel that is closed when the service has ended: by Close, because the bus
// broke, or because the whole system was stopped.
func (s *Service) Done() <-chan struct{} { return s.done }

// Close ends the service, and another one takes over. Procs of saved worlds continue.
func (s *Service) Close(ctx context.Context) error {
	s.cancel()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot close the system controller: %w", ctx.Err())
	}
}

func (s *Service) limits() limits {
	return limits{
		silence:     config.WorldProcTimeout.Get(s.opts.Config),
		eviction:    config.WorldEvictionTimeout.Get(s.opts.Config),
		stopWithin:  config.WorldStopTimeout.Get(s.opts.Config),
		reservation: config.ProcSpawnProgressTimeout.Get(s.opts.Config),
	}
}

// lease is the time for which procs outlive the last controller if none follows; 0: for ever.
func (s *Service) lease() time.Duration {
	if s.store != nil {
		return 0
	}
	return config.SupervisionLeaseTTL.Get(s.opts.Config)
}

// contend acts while the service has the lease, and tries to take it otherwise, until ctx ends.
func (s *Service) contend(ctx context.Context) {
	defer s.listen()()
	l := &lease{self: s.id.String()}
	var now *activeTerm
	defer func() {
		now.stop()
		s.releaseLease(l)
	}()
	for !now.quit() {
		l.handOver(now)
		if now != nil && !l.leading {
			s.opts.Log.Warn().Uint64("epoch", now.epoch).AnErr("cause", cmp.Or(now.endReason(), l.lossError())).
				Msg("the system controller's term is over")
			now.stop()
			now = nil
		}
		if l.leading {
			s.refill(ctx)
		}
		if l.leading && now == nil {
			now = s.tryStartTerm(ctx, l.known.Epoch, l.sawRenewal)
		}
		if !s.stepLease(ctx, l, now) {
			return
		}
	}
}

// listen subscribes to searches for the controller without answering. Find thus sees between two
// terms that another term follows.
func (s *Service) listen() (stop func()) {
	sub, err := s.opts.Bus.Data().Lossy(micro.Inbox).Subscribe(ping(s.opts.Space), func(bus.Msg) {})
	if err != nil {
		s.opts.Log.Warn().Err(err).Msg("cannot subscribe to searches for the system controller")
		return func() {}
	}
	return func() {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, bus.ErrClosed) {
			s.opts.Log.Debug().Err(err).Msg("cannot unsubscribe from searches for the system controller")
		}
	}
}

// refill fills a lost bucket, one part at a time.
func (s *Service) refill(ctx context.Context) {
	n, err := s.store.fill(ctx)
	if err != nil {
		s.opts.Log.Warn().Err(err).Msg("cannot fill the new bucket")
	} else if n > 0 {
		s.opts.Log.Warn().Int("worlds", n).Msg("the bucket of the worlds was lost: recreated it from memory")
	}
}

// handOver gives up the lease after a term that has ended itself.
func (l *lease) handOver(now *activeTerm) {
	select {
	case <-now.done():
		if l.leading {
			l.outranked(max(now.end.floor, now.epoch))
		}
	default:
	}
}

// stepLease carries out the next action of the lease; false: ctx has ended.
func (s *Service) stepLease(ctx context.Context, l *lease, now *activeTerm) bool {
	switch a := l.next(time.Now()).(type) {
	case waitUntil:
		select {
		case <-time.After(time.Until(a.until)):
		case <-now.done():
		case <-ctx.Done():
		case <-s.opts.Bus.Done():
		}
	case readLease:
		g, revision, err := s.store.readLease(ctx)
		s.logLeaseError(err)
		if err != nil {
			if l.readFailed(time.Now()) {
				s.reopen(ctx)
			}
			break
		}
		if g.Holder != "" && g.Holder != l.self {
			s.store.invalidate()
		}
		if revision == 0 && l.known.Epoch > 0 { // another controller has recreated the bucket
			s.reopen(ctx)
		}
		l.observed(time.Now(), g, revision)
	case writeLease:
		sent := time.Now()
		revision, err := s.store.writeLease(ctx, a)
		l.writeDone(sent, time.Now(), a, revision, err == nil)
		if err != nil && !errors.Is(err, bus.ErrRevisionConflict) {
			s.logLeaseError(err)
			s.reopen(ctx)
		}
	}
	return ctx.Err() == nil && s.opts.Bus.Err() == nil
}

// reopen opens a bucket that may be lost. The lease holder does so first, because it can fill a new
// bucket.
func (s *Service) reopen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reopenTimeout)
	defer cancel()
	if err := s.store.reopen(ctx); err != nil {
		s.opts.Log.Warn().Err(err).Msg("cannot open the bucket of the worlds")
	}
}

// logLeaseError logs that the lease cannot be read or written, once for each cause.
func (s *Service) logLeaseError(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != "" && now != s.leaseTrouble {
		s.opts.Log.Warn().Err(err).Msg("cannot reach the lease of the system controller")
	}
	s.leaseTrouble = now
}

// releaseLease lets another service act at once.
func (s *Service) releaseLease(l *lease) {
	if w, ok := l.releaseWrite(); ok && s.opts.Bus.Err() == nil {
		if _, err := s.store.writeLease(context.Background(), w); err != nil {
			s.opts.Log.Debug().Err(err).Msg("cannot release the lease of the system controller: it expires")
		}
	}
}

// activeTerm is a running term; nil: none.
type activeTerm struct {
	epoch   uint64
	proc    *actor.Proc
	hosts   *presence.Watcher
	renewer *controller.LeaseRenewer
	end     *termEnd
}

func (r *activeTerm) done() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.end.done
}

// quit reports whether the whole system was stopped.
func (r *activeTerm) quit() bool {
	select {
	case <-r.done():
		return r.end.quit
	default:
		return false
	}
}

// endReason is the controller's own reason for the end of the term; nil: the loss of the lease.
func (r *activeTerm) endReason() error {
	select {
	case <-r.done():
		return r.end.err
	default:
		return nil
	}
}

func (r *activeTerm) stop() {
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), termCloseTimeout)
	defer cancel()
	if r.hosts != nil {
		r.hosts.Close()
	}
	if r.renewer != nil {
		r.renewer.Close()
	}
	if err := r.proc.Close(ctx); err != nil {
		log := r.proc.Log()
		log.Warn().Err(err).Msg("cannot close the proc of the system controller")
	}
}

// tryStartTerm starts a term. It returns nil after an error, once it is time to try again. follows:
// another controller acted until now.
func (s *Service) tryStartTerm(ctx context.Context, epoch uint64, follows bool) *activeTerm {
	r, err := s.startTerm(ctx, epoch, follows)
	if err != nil {
		s.opts.Log.Error().Err(err).Msg("cannot start a term of the system controller")
		select {
		case <-time.After(beginRetry):
		case <-ctx.Done():
		}
		return nil
	}
	s.opts.Log.Info().Uint64("epoch", epoch).Stringer("proc", r.proc.ID()).Msg("became the system controller")
	return r
}

// startTerm reads the worlds, and then starts the controller and makes it discoverable.
func (s *Service) startTerm(ctx context.Context, epoch uint64, follows bool) (*activeTerm, error) {
	reading, cancel := context.WithTimeout(ctx, loadTimeout)
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
	r := &activeTerm{epoch: epoch, end: &termEnd{done: make(chan struct{})}}
	o := actor.Options{
		ID: subjects.ProcID{Mesh: id}, Principal: subjects.System.Principal(s.opts.Label), Bus: s.opts.Bus,
		Space: s.opts.Space, Registry: registry, Log: s.opts.Log,
		Coordinator: func(e actor.Event) { r.end.set(errors.New(e.Report()), 0, false) }, // the next term follows
	}
	agent.ConfigureProc(&o, s.opts.Config)
	r.proc, err = actor.NewProc(ctx, o)
	if err != nil {
		return nil, err
	}
	agent.SetConfig(r.proc, s.opts.Config)
	var found []inventory
	if records.adoptTimeLeft() > 0 {
		var floor uint64
		found, floor, err = survey(ctx, r.proc, config.DiscoveryQuietPeriod.Get(s.opts.Config))
		if err != nil {
			s.opts.Log.Warn().Err(err).Msg("cannot list the worlds on the hosts")
		}
		if floor > epoch {
			r.end.set(fmt.Errorf("hosts know the later epoch %d", floor), floor, false)
			return r, nil
		}
	}
	r.renewer = controller.NewLeaseRenewer(r.proc)
	r.hosts, err = presence.New(r.proc)
	if err == nil {
		params := term{s, epoch, records, found, follows, r.end, r.hosts, r.renewer}
		_, err = r.proc.Spawn(ctx, actor.SpawnSpec{
			Type: Type.Name(), Name: actorName, Params: params, Mailbox: controllerMailbox,
		})
	}
	if err == nil {
		err = micro.Serve(r.proc.Foreign().Service(r.proc.Bus().Data(), micro.Inbox), s.describe(r))
	}
	if err != nil {
		r.stop()
		return nil, err
	}
	s.latestProc.Store(r.proc)
	return r, nil
}

// describe describes the controller for discovery; Find uses it.
func (s *Service) describe(r *activeTerm) micro.Service {
	p := r.proc
	subject := func(endpoint string) string { return p.Space().PortsNamed(p.ID(), endpoint) }
	return micro.Service{
		Name: serviceName, ID: serviceID(p.Space()), Version: s.opts.Version,
		Description: "owns worlds and detached meshes",
		Metadata: map[string]string{
			metaSpace: p.Space().String(),
			metaActor: p.ID().Actor(actorName).String(),
			metaEpoch: strconv.FormatUint(r.epoch, 10),
			"label":   s.opts.Label,
			"durable": strconv.FormatBool(s.Durable()),
		},
		Info: func(answer func([]micro.Endpoint)) {
			answer(agent.DescribeEndpoints(p.Registry(), Type.Name(), subject))
		},
		Stats: func() []micro.Stats {
			return agent.EndpointStats(p.Registry(), Type.Name(), agent.ProcMetrics(p), subject)
		},
	}
}
