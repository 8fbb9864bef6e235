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
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/micro"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

const (
	group    = "gateway" // the queue group of all gateways
	maxCasts = 1024      // at a time
	maxBytes = 64 << 20  // of the bodies of those, or one
	// What clients can cause is logged this often at most; the counters have it all.
	noisyBurst  = 20
	noisyPeriod = 10 * time.Second
)

// What a gateway says when it closes: of casts that are under way, and of requests that come to it all the same.
var (
	errClosing = &actor.Error{Code: actor.CodeUnavailable, Text: "the gateway stops: whether the cast ran is not known"}
	errClosed  = &actor.Error{Code: actor.CodeUnavailable, Text: "the gateway stops: nothing was cast"}
)

// Options configures a gateway. Label is required.
type Options struct {
	Label     string         // whose gateway it is: its host's
	Bus       *bus.Options   // how to reach the bus; nil: as mesh.Connect
	Root      string         // first token of every subject; "" = castnet
	Namespace string         // "" = default
	Version   string         // for discovery
	Config    *config.Config // limits; nil: what the environment says
	Log       zerolog.Logger
}

// Gateway is a running gateway.
type Gateway struct {
	net           *mesh.Net
	proc          *actor.Proc
	space         subjects.Space
	data, control *bus.Conn
	log, loud     zerolog.Logger
	version       string
	label         string

	hosts     *hosts
	directory *directory
	peers     *peers
	catalog   catalog
	counts    counts
	sub       *bus.Sub
	release   []func()

	admit  func(from string) *actor.Error // takes one request of a sender, or says that it sends too many
	under  atomic.Int64                   // casts under way
	bytes  atomic.Int64                   // of their bodies
	next   chan bus.Msg                   // to a worker that waits for it
	idle   atomic.Int64                   // workers that wait
	outbox *outbox
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex // held while a goroutine starts, or none does any more
	closing bool
	wg      sync.WaitGroup
}

// counts are what a gateway did.
type counts struct {
	requests, failed, refused, unanswerable, mourned atomic.Uint64
	took                                             atomic.Int64 // nanoseconds in all
	last                                             atomic.Pointer[string]
}

// Start starts a gateway with connections of its own: when it returns, it is one of those that serve the
// namespace.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	g := &Gateway{label: o.Label, version: o.Version, next: make(chan bus.Msg), outbox: newOutbox()}
	net, err := mesh.Connect(ctx, mesh.Options{
		Bus: o.Bus, Root: o.Root, Namespace: o.Namespace, Label: "gateway", Name: "gateway/" + o.Label,
		Actors: []actor.Def{aliveDef()}, Config: o.Config, Log: o.Log,
		OnFailure: func(actor.Event) {}, // it is logged; requests are served all the same
	})
	if err != nil {
		return nil, fmt.Errorf("start the gateway of %s: %w", o.Label, err)
	}
	g.net, g.proc, g.space = net, net.Proc(), net.Proc().Space()
	g.data, g.control = net.Bus().Data(), net.Bus().Control()
	g.log = o.Log.With().Stringer("gateway", g.proc.ID().Process()).Logger()
	g.loud = g.log.Sample(&zerolog.BurstSampler{Burst: noisyBurst, Period: noisyPeriod})
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.admit = g.proc.AdmitForeign
	watcher, err := presence.New(g.proc)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the gateway of %s: %w", o.Label, err), net.Close(ctx))
	}
	g.hosts = newHosts(net, watcher)
	g.directory = newDirectory(g.hosts, g.isGone, g.spawn)
	g.peers = newPeers(g)
	if err := g.serve(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the gateway of %s: %w", o.Label, err), g.Close(ctx))
	}
	return g, nil
}

// serve subscribes everything: requests last.
func (g *Gateway) serve(ctx context.Context) error {
	_, err := g.proc.Spawn(ctx, actor.Spawning{Type: gatewayType.Name(), Name: actorName, Params: actor.None{}})
	if err == nil {
		err = g.peers.join()
	}
	if err == nil {
		err = g.proc.Subscribe(g.space.FirstEvents(actor.KindActor, agent.Name), g.hosts.listen(g.space))
	}
	if err == nil {
		err = g.discover()
	}
	if err == nil {
		g.hosts.inherit(ctx) // before it is asked itself
		_, err = g.data.Lossy(micro.Inbox).SubscribeGroup(g.space.Heartbeats(agent.HostList), group, g.list)
	}
	if err != nil {
		return err
	}
	g.release = append(g.release,
		g.proc.OnUnreachable(func(id subjects.ProcID, _ error) { g.directory.age(id.Mesh) }),
		g.net.Bus().Watch(g.hosts.stir),
		g.net.Bus().Watch(g.peers.stir))
	g.spawn(g.peers.watch)
	g.spawn(g.confirm)
	g.spawn(func(ctx context.Context) { _, _ = g.hosts.look(ctx) }) // else the first cast does
	g.sub, err = g.requests().SubscribeGroup(g.space.Gateways(), group, g.receive)
	return err
}

// requests is the Inbox of what clients ask to be cast.
func (g *Gateway) requests() *bus.Inbox { return g.data.Lossy("requests") }

// ID is the gateway's address: its process.
func (g *Gateway) ID() subjects.ProcessID { return g.proc.ID().Process() }

// Done is closed once the gateway serves nobody any more: its bus broke, or it was closed.
func (g *Gateway) Done() <-chan struct{} { return g.net.Bus().Done() }

// Err says why the bus broke; nil while it works and after Close.
func (g *Gateway) Err() error { return g.net.Bus().Err() }

// Close takes no more requests, refuses those that the server has sent here already, answers those under
// way with an error unless their answer is there, and waits for all that, until ctx ends. A second call does
// nothing.
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
		g.peers.leave()
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("close the gateway of %s: %d casts are under way: %w", g.label, g.under.Load(), ctx.Err()))
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
	from := "anon"
	if s, err := g.space.Parse(m.Subject); err == nil {
		from = s.From
	}
	if m.Reply != "" && !g.proc.MayAnswer(m.Reply, from) {
		g.counts.unanswerable.Add(1)
		g.loud.Warn().Str("reply", m.Reply).Str("from", from).Msg("a request with a reply subject that is not its sender's")
		return
	}
	if err := g.admit(from); err != nil { // before others are refused for his sake
		g.refuse(m, err)
		return
	}
	err := g.take(m)
	if err == nil && !g.work(m) {
		err = errClosed
	}
	if err != nil {
		g.done(m)
		g.refuse(m, err)
	}
}

// take counts a request as one that is under way until it is done, or says that there are too many.
func (g *Gateway) take(m bus.Msg) *actor.Error {
	casts, size := g.under.Add(1), g.bytes.Add(int64(len(m.Data)))
	switch {
	case casts > maxCasts:
		return &actor.Error{Code: actor.CodeUnavailable, Text: fmt.Sprintf("this gateway casts %d times at once already", maxCasts)}
	case size > maxBytes && size > int64(len(m.Data)):
		return &actor.Error{Code: actor.CodeUnavailable, Text: fmt.Sprintf("what this gateway casts at once may have %d bytes in all", maxBytes)}
	}
	return nil
}

func (g *Gateway) done(m bus.Msg) {
	g.bytes.Add(-int64(len(m.Data)))
	g.under.Add(-1)
}

// refuse answers a request that is not looked at.
func (g *Gateway) refuse(m bus.Msg, err error) {
	g.counts.refused.Add(1)
	r, _ := preface(g.space, m)
	g.say(r, g.publishNow)(outcome{err: err})
}

// answer answers one request.
func (g *Gateway) answer(ctx context.Context, m bus.Msg) {
	began := time.Now()
	r, err := parse(g.space, m, config.GatewayDeadline.Get(g.net.Config()))
	r.until = began.Add(r.ttl + awaitServer)
	say := g.say(r, g.publishSafely)
	defer func() { g.counts.took.Add(int64(time.Since(began))) }()
	if err == nil && r.reply == "" && r.collect != post {
		err = bad("a request without a reply subject: only %s %s wants no answer", headerCollect, post)
	}
	if err != nil {
		say(outcome{err: err})
		return
	}
	done := g.peers.claim(r) // before anything is cast (GW-4)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, r.ttl)
	defer cancel()
	g.run(ctx, r, func(o outcome) {
		if errors.Is(context.Cause(ctx), errClosing) && o.isCutShort() {
			o.err, o.partial, o.empty = errClosing, false, false
		}
		say(o)
	})
}

// isCutShort reports that an answer says less than it would have, had the gateway not closed: who was not
// waited for is missing.
func (o outcome) isCutShort() bool {
	switch {
	case o.cover != nil:
		return o.cover.missing > 0
	case o.at != nil:
		return silent(o.err)
	}
	return o.err != nil
}

// say publishes what is said to a request. What asks for a stream gets its end after an error, too.
func (g *Gateway) say(r request, publish func(request, bus.Msg) error) say {
	var one say
	one = func(o outcome) {
		if r.streams && o.err != nil && o.at == nil {
			end := outcome{empty: true, cover: o.cover}
			if end.cover == nil {
				end.cover = &coverage{}
			}
			o.cover = nil
			defer one(end)
		}
		if o.err != nil && !o.partial {
			g.counts.failed.Add(1)
			text := oneLine(o.err.Error(), maxPartial)
			g.counts.last.Store(&text)
		}
		switch {
		case r.reply != "":
			if err := publish(r, r.message(o)); err != nil {
				g.loud.Warn().Err(err).Str("to", r.reply).Msg("an answer was not sent")
			}
		case o.err != nil:
			g.counts.unanswerable.Add(1)
			g.loud.Warn().Err(o.err).Str("from", r.from).Str("mesh", r.mesh).Msg("a request that wants no answer failed")
		}
	}
	return one
}

// publish sends one message of an answer, once there is a server to send it to, if it is there in time for
// the whole answer.
func (g *Gateway) publish(r request, m bus.Msg) error {
	err := g.publishNow(r, m)
	if !errors.Is(err, bus.ErrDisconnected) {
		return err
	}
	ctx, cancel := context.WithDeadline(g.ctx, r.until)
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

// awaitServer is how long after its deadline an answer waits for a connection that is lost.
const awaitServer = 30 * time.Second

// publishNow sends one message of an answer. What is too large becomes an error that says so.
func (g *Gateway) publishNow(r request, m bus.Msg) error {
	err := g.data.PublishMsg(m)
	if errors.Is(err, bus.ErrTooLarge) {
		why := r.tooLarge(len(m.Data), g.data.MaxPayload())
		delete(m.Header, headerPartial)
		actor.FailForeign(&m, r.format, why)
		err = g.data.PublishMsg(m)
	}
	return err
}

// isGone reports that no rank of a mesh lives.
func (g *Gateway) isGone(e *entry) bool {
	t, err := mesh.On[any](e.procs, "").Target()
	if err != nil {
		return true
	}
	for rank := range t.Placement.Extent.NumRanks() { // mostly, the first one lives
		if _, dead := g.proc.Down(t.Placement.Proc(rank)); !dead {
			return false
		}
	}
	return true
}
