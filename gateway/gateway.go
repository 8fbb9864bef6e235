package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

const (
	queueGroup = "gateway" // the queue group of all gateways
	maxCasts   = 1024      // at a time
	maxBytes   = 64 << 20  // of the bodies of those, or one
	// Log messages that clients can cause have this limit; the counters have all.
	noisyBurst  = 20
	noisyPeriod = 10 * time.Second
)

// Errors of a closing gateway, for running casts and for later requests.
var (
	errClosing = &actor.Error{Code: actor.CodeUnavailable, Text: "the gateway is closing: the cast may have run"}
	errClosed  = &actor.Error{Code: actor.CodeUnavailable, Text: "the gateway is closing: nothing was cast"}
)

// Options configures a gateway. Label is required.
type Options struct {
	Label     string         // label of the gateway's host
	Bus       *bus.Options   // how to reach the bus; nil: as mesh.Connect
	Root      string         // first token of every subject; "" = castnet
	Namespace string         // "" = default
	Version   string         // for discovery
	Config    *config.Config // limits; nil: what the environment says
	Tracer    actor.Tracer   // makes spans of requests and their casts; nil: none
	Log       zerolog.Logger
}

// Gateway is a running gateway.
type Gateway struct {
	net             *mesh.Net
	proc            *actor.Proc
	space           subjects.Space
	data, control   *bus.Conn
	log, sampledLog zerolog.Logger
	version         string
	label           string

	hosts     *hosts
	directory *directory
	claims    *claims
	catalog   catalog
	counts    counters
	sub       *bus.Sub
	release   []func()

	// admit takes one request of a sender, or says that it sends too many.
	admit       func(from subjects.Sender) *actor.Error
	active      atomic.Int64 // casts under way
	activeBytes atomic.Int64 // of their bodies
	handoff     chan bus.Msg // to a worker that waits for it
	idleWorkers atomic.Int64 // workers that wait
	outbox      *outbox
	ctx         context.Context
	cancel      context.CancelCauseFunc

	mu      sync.Mutex // held while a goroutine starts, or none does any more
	closing bool
	wg      sync.WaitGroup
}

// Start starts a gateway with its own connections. When it returns, the gateway serves the
// namespace.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	g := &Gateway{label: o.Label, version: o.Version, handoff: make(chan bus.Msg), outbox: newOutbox()}
	n, err := mesh.Connect(ctx, mesh.Options{
		Bus: o.Bus, Root: o.Root, Namespace: o.Namespace, Label: "gateway", Name: "gateway/" + o.Label,
		Principal: subjects.Gateway.Principal(o.Label),
		Config:    o.Config, Log: o.Log, Tracer: o.Tracer,
		OnFailure: func(actor.Event) {}, // it is logged; requests are served all the same
	})
	if err != nil {
		return nil, fmt.Errorf("start the gateway of %s: %w", o.Label, err)
	}
	g.net = n
	g.proc = n.Proc()
	g.space = n.Proc().Space()
	g.data, g.control = n.Bus().Data(), n.Bus().Control()
	g.log = o.Log.With().Stringer("gateway", g.proc.ID().Process()).Logger()
	g.sampledLog = g.log.Sample(&zerolog.BurstSampler{Burst: noisyBurst, Period: noisyPeriod})
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.admit = g.proc.Foreign().Admit
	g.hosts, err = newHosts(n)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the gateway of %s: %w", o.Label, err), n.Close(ctx))
	}
	g.directory = newDirectory(g.hosts, g.isGone, g.spawn)
	g.claims = newClaims(g)
	if err := g.serve(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the gateway of %s: %w", o.Label, err), g.Close(ctx))
	}
	return g, nil
}

// serve subscribes everything: requests last.
func (g *Gateway) serve(ctx context.Context) error {
	err := g.claims.updateSub() // until others are known
	if err == nil {
		err = g.discover()
	}
	if err == nil {
		g.hosts.copyFromPeer(ctx) // before it is asked itself
		_, err = g.data.Lossy(micro.Inbox).SubscribeGroup(g.space.Heartbeats(agent.KindHostList), queueGroup,
			g.serveHostList)
	}
	if err != nil {
		return err
	}
	g.release = append(g.release,
		g.proc.Members().OnUnreachable(func(id subjects.ProcID, _ error) { g.directory.markStale(id.Mesh) }),
		g.net.Bus().Watch(g.hosts.onBusState))
	g.spawn(g.claims.run)
	g.spawn(g.confirm)
	g.spawn(func(ctx context.Context) { _, _, _ = g.hosts.scan(ctx) }) // else the first cast does
	g.sub, err = g.requests().SubscribeGroup(g.space.Gateways(), queueGroup, g.receive)
	return err
}

// requests is the Inbox of clients' requests.
func (g *Gateway) requests() *bus.Inbox { return g.data.Lossy("requests") }

// ID is the gateway's address: its process.
func (g *Gateway) ID() subjects.ProcessID { return g.proc.ID().Process() }

// Announced is the gateway's entry in the heartbeats of its host (agent.Heartbeat.Gateway): its
// address, while it can serve.
func (g *Gateway) Announced() subjects.ProcessID {
	if g.Err() != nil || g.data.URL() == "" {
		return subjects.ProcessID{}
	}
	return g.ID()
}

// Done is closed once the gateway serves no more: its bus broke, or it was closed.
func (g *Gateway) Done() <-chan struct{} { return g.net.Bus().Done() }

// Err is the reason why the bus broke; nil while it works and after Close.
func (g *Gateway) Err() error { return g.net.Bus().Err() }

// Close takes no new requests, refuses delivered ones, and answers running ones with an error
// unless their answer is there. It waits for all that until ctx ends. A second call does nothing.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return nil
	}
	g.closing = true
	g.mu.Unlock()
	for _, f := range g.release {
		f()
	}
	g.cancel(errClosing)
	var errs []error
	if g.sub != nil {
		errs = append(errs, g.sub.Drain(ctx))
	}
	answered := make(chan struct{})
	go func() {
		g.wg.Wait() // a cast ends with its context
		close(answered)
	}()
	select {
	case <-answered:
		g.claims.publish(peerMessage{Leaves: true})
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("close the gateway of %s: %d casts are under way: %w", g.label,
			g.active.Load(), ctx.Err()))
	}
	g.hosts.watcher.Close()
	return errors.Join(append(errs, g.net.Close(ctx))...)
}

// spawn runs f on a goroutine that Close waits for; false: it closes.
func (g *Gateway) spawn(f func(context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return false
	}
	g.wg.Go(func() { f(g.ctx) })
	return true
}

// receive takes a request, on the pump of the requests.
func (g *Gateway) receive(m bus.Msg) {
	g.counts.requests.Add(1)
	from := subjects.Anon()
	if s, err := g.space.Parse(m.Subject); err == nil {
		from = s.Sender
	}
	if m.Reply != "" && !g.proc.Foreign().MayAnswer(m.Reply, from) {
		g.counts.unanswerable.Add(1)
		g.sampledLog.Warn().Str("reply", m.Reply).Stringer("from", from).
			Msg("request with a reply subject of another sender")
		return
	}
	if err := g.admit(from); err != nil { // before others are refused for his sake
		g.refuse(m, err)
		return
	}
	err := g.acquire(m)
	if err == nil && !g.dispatch(m) {
		err = errClosed
	}
	if err != nil {
		g.releaseRequest(m)
		g.refuse(m, err)
	}
}

// acquire counts a request as running until it is done, or refuses it above the bound.
func (g *Gateway) acquire(m bus.Msg) *actor.Error {
	casts := g.active.Add(1)
	size := g.activeBytes.Add(int64(len(m.Data)))
	if casts > maxCasts {
		return &actor.Error{Code: actor.CodeUnavailable,
			Text: fmt.Sprintf("this gateway is at its limit of %d casts", maxCasts)}
	}
	if size > maxBytes && size > int64(len(m.Data)) {
		return &actor.Error{Code: actor.CodeUnavailable,
			Text: fmt.Sprintf("the casts of this gateway are at their limit of %d bytes", maxBytes)}
	}
	return nil
}

func (g *Gateway) releaseRequest(m bus.Msg) {
	g.activeBytes.Add(-int64(len(m.Data)))
	g.active.Add(-1)
}

// refuse answers a request without running it.
func (g *Gateway) refuse(m bus.Msg, err error) {
	g.counts.refused.Add(1)
	r, _ := parseReplyInfo(g.space, m)
	g.newResponder(r, g.publishNow)(outcome{err: err})
}

// answer answers one request.
func (g *Gateway) answer(ctx context.Context, m bus.Msg) {
	began := time.Now()
	r, err := parse(g.space, m, config.GatewayMaxTimeout.Get(g.net.Config()))
	r.publishBy = began.Add(r.ttl + busReturnTimeout)
	var ended requestOutcome
	respond := g.newResponder(r, g.publishConfirmed)
	say := func(o outcome) {
		ended.note(o)
		respond(o)
	}
	defer func() { g.counts.end(ended.is, time.Since(began)) }()
	if err == nil && r.reply == "" && r.collect != modeSend {
		err = badRequest("a request without a reply subject: want one, or %s %s", headerCollect, modeSend)
	}
	if err != nil {
		say(outcome{err: err})
		return
	}
	done := g.claims.announce(r) // before anything is cast (GW-4)
	defer done()
	ctx, cancel := context.WithTimeout(actor.WithTrace(ctx, r.trace), r.ttl)
	defer cancel()
	if r.traceDest != "" && g.proc.Foreign().MayAnswer(r.traceDest, r.from) { // a client may read it
		ctx = actor.WithTraceDest(ctx, r.traceDest)
	}
	ctx, span := g.proc.StartSpan(ctx, func() actor.Operation {
		return actor.Operation{Kind: actor.OpServe, Actor: subjects.ActorID{Name: r.actor}, Endpoint: r.endpoint,
			Awaited: r.reply != ""}
	})
	var last error
	g.run(ctx, r, func(o outcome) {
		last = o.err
		if errors.Is(context.Cause(ctx), errClosing) && o.isTruncated() {
			o.err = errClosing
			o.partial = false
			o.empty = false
		}
		say(o)
	})
	if span != nil {
		span.End(actor.Outcome{Err: last})
	}
}

// isTruncated reports whether closing the gateway cut an answer short: ranks that it did not wait
// for are missing.
func (o outcome) isTruncated() bool {
	if o.coverage != nil {
		return o.coverage.missing > 0
	}
	if o.point != nil {
		return isNoAnswer(o.err)
	}
	return o.err != nil
}

// newResponder publishes the answer to a request. After an error, a stream also gets its end.
func (g *Gateway) newResponder(r request, publish func(request, bus.Msg) error) responder {
	var one responder
	one = func(o outcome) {
		if r.wantsStream && o.err != nil && o.point == nil {
			end := outcome{empty: true, coverage: o.coverage}
			if end.coverage == nil {
				end.coverage = &coverage{}
			}
			o.coverage = nil
			defer one(end)
		}
		if o.err != nil && !o.partial {
			text := oneLine(o.err.Error(), maxPartial)
			g.counts.lastError.Store(&text)
		}
		if r.reply != "" {
			if err := publish(r, r.message(o)); err != nil {
				g.sampledLog.Warn().Err(err).Str("to", r.reply).Msg("cannot send an answer")
			}
		} else if o.err != nil {
			g.counts.unanswerable.Add(1)
			g.sampledLog.Warn().Err(o.err).Stringer("from", r.from).Str("mesh", r.mesh).
				Msg("request without a reply subject failed")
		}
	}
	return one
}

// publish sends one message of an answer, once there is a server to send it to, if it is there in
// time for the whole answer.
func (g *Gateway) publish(r request, m bus.Msg) error {
	err := g.publishNow(r, m)
	if !errors.Is(err, bus.ErrDisconnected) {
		return err
	}
	ctx, cancel := context.WithDeadline(g.ctx, r.publishBy)
	defer cancel()
	back := make(chan struct{}, 1)
	defer g.net.Bus().Watch(func(s bus.State) {
		if s.Kind == bus.Reconnected {
			select {
			case back <- struct{}{}:
			default:
			}
		}
	})()
	for errors.Is(err, bus.ErrDisconnected) && ctx.Err() == nil {
		if g.data.URL() == "" {
			select {
			case <-back:
			case <-ctx.Done():
			}
		}
		err = g.publishNow(r, m)
	}
	return err
}

// busReturnTimeout is the time after its deadline that an answer waits for a lost connection.
const busReturnTimeout = 30 * time.Second

// publishNow sends one message of an answer. It replaces a message that is too large by an error.
func (g *Gateway) publishNow(r request, m bus.Msg) error {
	err := g.data.PublishMsg(m)
	if errors.Is(err, bus.ErrTooLarge) {
		why := r.tooLarge(len(m.Data), g.data.MaxPayload())
		delete(m.Header, headerPartial)
		actor.FailForeign(&m, r.format, r.actor, r.endpoint, why)
		err = g.data.PublishMsg(m)
	}
	return err
}

// isGone reports whether no rank of a mesh lives.
func (g *Gateway) isGone(e *entry) bool {
	t, err := mesh.ActorsOn[any](e.procs, "").Target()
	if err != nil {
		return true
	}
	for rank := range t.Placement.Extent.NumRanks() { // mostly, the first one lives
		newest := g.proc.Members().LatestGeneration(t.Placement.Proc(rank))
		if _, dead := g.proc.Members().Down(newest); !dead {
			return false
		}
	}
	return true
}
