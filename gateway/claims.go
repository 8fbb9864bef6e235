package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

const (
	claimKind       = "claim"                // the `hb.` kind of messages between gateways
	claimInterval   = 250 * time.Millisecond // between two checks of the gateways with claims
	absentGrace     = time.Second            // without an announcement after which a gateway counts as dead
	startGrace      = 10 * time.Second       // the same without any so far: its host may be starting
	stallAfter      = time.Second            // without a check after which this process was itself paused
	takeoverStagger = time.Second            // after which the next gateway answers for a dead one
	claimGrace      = 5 * time.Second        // for which a claim is kept after its deadline
	maxClaim        = 24 * time.Hour         // maximum of gateway.max-timeout
	claimReplicas   = 3                      // gateways that keep the claims of one
	maxClaims       = 16 * maxCasts          // that a gateway keeps
)

// claim is a gateway's announcement, before it casts, that it will answer a request.
type claim struct {
	ID       uint64          `json:"id"`
	Reply    string          `json:"reply"`
	From     subjects.Sender `json:"from"`
	Format   string          `json:"format"`           // a content type
	Stream   bool            `json:"stream,omitempty"` // an empty message ends the answer
	Trace    string          `json:"trace,omitempty"`  // of the request
	Timeout  time.Duration   `json:"timeout"`          // until its deadline, in nanoseconds
	deadline time.Time
}

// claimant is a gateway with claims.
type claimant struct {
	claims      map[uint64]claim // by ID
	announced   bool             // a host has announced it
	absentSince time.Time        // since when no live host has announced it; zero: one does
	due         time.Time        // when this gateway answers for it; zero: it lives
}

// claimTable keeps the claims of other gateways, and decides which of these are dead. It is pure.
type claimTable struct {
	self      string
	live      []string             // the other live gateways, sorted
	claimants map[string]*claimant // by gateway
	size      int                  // of all claims
	checkedAt time.Time
}

func newClaimTable(self string) *claimTable {
	return &claimTable{self: self, claimants: map[string]*claimant{}}
}

// add keeps a claim if this gateway is one of its keepers. The gateway that sent it lives.
func (t *claimTable) add(of string, c claim, now time.Time) {
	if t.size >= maxClaims || t.position(of) >= claimReplicas {
		return
	}
	g := t.claimants[of]
	if g == nil {
		_, announced := slices.BinarySearch(t.live, of)
		g = &claimant{claims: map[uint64]claim{}, announced: announced}
		t.claimants[of] = g
	}
	g.absentSince = time.Time{}
	g.due = time.Time{}
	c.deadline = now.Add(c.Timeout)
	if _, repeated := g.claims[c.ID]; !repeated {
		t.size++
	}
	g.claims[c.ID] = c
}

// remove forgets a claim: its request is answered.
func (t *claimTable) remove(of string, id uint64) {
	g := t.claimants[of]
	if g == nil {
		return
	}
	if _, there := g.claims[id]; there {
		t.size--
		delete(g.claims, id)
	}
	if len(g.claims) == 0 {
		delete(t.claimants, of)
	}
}

// removeAll forgets the claims of a gateway.
func (t *claimTable) removeAll(of string) {
	if g := t.claimants[of]; g != nil {
		t.size -= len(g.claims)
		delete(t.claimants, of)
	}
}

// dropClaims forgets all claims, because their releases are no longer heard.
func (t *claimTable) dropClaims() {
	clear(t.claimants)
	t.size = 0
}

// position is this gateway's place among the live ones except of, the lowest ID first.
func (t *claimTable) position(of string) int {
	n, _ := slices.BinarySearch(t.live, t.self)
	if _, counted := slices.BinarySearch(t.live, of); counted && of < t.self {
		n--
	}
	return n
}

// keepsClaims reports whether this gateway may be one of the keepers of another's claims.
func (t *claimTable) keepsClaims() bool { return t.position("") <= claimReplicas }

// check returns the claims to answer now, by their dead gateways. live are the gateways that live
// hosts announce. The other keepers answer in turn, until one has.
func (t *claimTable) check(now time.Time, live map[string]bool) map[string][]claim {
	paused := !t.checkedAt.IsZero() && now.Sub(t.checkedAt) > stallAfter
	t.checkedAt = now
	t.live = t.live[:0]
	for id := range live {
		if id != t.self {
			t.live = append(t.live, id)
		}
	}
	slices.Sort(t.live)
	orphans := map[string][]claim{}
	for of, g := range t.claimants {
		for id, c := range g.claims {
			if now.After(c.deadline.Add(claimGrace)) {
				t.remove(of, id)
			}
		}
		if len(g.claims) == 0 {
			continue
		}
		g.observe(now, live[of], paused)
		if g.due.IsZero() && g.isDead(now) {
			g.due = now.Add(time.Duration(t.position(of)) * takeoverStagger)
		}
		if !g.due.IsZero() && !now.Before(g.due) {
			for _, c := range g.claims {
				orphans[of] = append(orphans[of], c)
			}
			slices.SortFunc(orphans[of], func(x, y claim) int { return int(int64(x.ID) - int64(y.ID)) })
			t.removeAll(of)
		}
	}
	return orphans
}

// observe notes whether a live host announces the gateway now. Absence before a pause of this
// process proves nothing.
func (g *claimant) observe(now time.Time, announced, paused bool) {
	if announced {
		g.announced = true
		g.absentSince = time.Time{}
	} else if g.absentSince.IsZero() || paused {
		g.absentSince = now
	}
}

func (g *claimant) isDead(now time.Time) bool {
	grace := startGrace
	if g.announced {
		grace = absentGrace
	}
	return !g.absentSince.IsZero() && now.Sub(g.absentSince) >= grace
}

// peerMessage is a message between gateways, with one of its fields.
type peerMessage struct {
	Leaves  bool   `json:"leaves,omitempty"` // the sender has answered everything
	Claim   *claim `json:"claim,omitempty"`
	Release uint64 `json:"release,omitempty"` // a claim's ID
	Gateway string `json:"gateway,omitempty"` // the dead gateway whose claim it was; "" = the sender
}

// claims announces this gateway's accepted requests to the others, and answers for dead gateways
// (GW-4).
type claims struct {
	g      *Gateway
	self   string
	lastID atomic.Uint64

	mu    sync.Mutex // guards all below
	table *claimTable
	sub   *bus.Sub // nil: others keep claims
}

func newClaims(g *Gateway) *claims {
	self := g.proc.ID().Process().String()
	return &claims{g: g, self: self, table: newClaimTable(self)}
}

// updateSub listens to claims if this gateway is to keep any, and only then. One goroutine at a
// time calls it.
func (p *claims) updateSub() error {
	p.mu.Lock()
	keeps := p.table.keepsClaims()
	sub := p.sub
	p.mu.Unlock()
	var err error
	switch {
	case keeps == (sub != nil):
		return nil
	case keeps:
		sub, err = p.g.data.Lossy(agent.HeartbeatInbox).Subscribe(p.g.space.Heartbeats(claimKind), p.receive)
	default:
		err = sub.Unsubscribe()
		sub = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sub = sub
	if sub == nil {
		p.table.dropClaims()
	}
	return err
}

// receive hears the others, on the pump of the heartbeats.
func (p *claims) receive(m bus.Msg) {
	s, err := p.g.space.Parse(m.Subject)
	if err != nil {
		return
	}
	id, err := s.Sender.Process()
	if err != nil || id.String() == p.self || s.Sender.Role() != subjects.Gateway {
		return // no other gateway
	}
	of := id.String()
	var w peerMessage
	if err := json.Unmarshal(m.Data, &w); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case w.Leaves:
		p.table.removeAll(of)
	case w.Claim != nil && w.Claim.Timeout > 0 && w.Claim.Timeout <= maxClaim:
		p.table.add(of, *w.Claim, time.Now())
	case w.Release != 0 && w.Gateway != "":
		p.table.remove(w.Gateway, w.Release)
	case w.Release != 0:
		p.table.remove(of, w.Release)
	}
}

func (p *claims) publish(w peerMessage) {
	b, err := json.Marshal(w) // of texts and numbers
	if err == nil {
		err = p.g.data.Publish(p.g.space.Heartbeat(claimKind, p.g.proc.Sender()), b)
	}
	if err != nil {
		p.g.log.Debug().Err(err).Msg("cannot notify the other gateways")
	}
}

// announce announces that this gateway answers a request, if another gateway may listen; done
// releases the claim.
func (p *claims) announce(r request) (done func()) {
	id := p.lastID.Add(1)
	if r.reply == "" || p.g.hosts.haveOnlyGateway(p.self) {
		return func() {}
	}
	p.publish(peerMessage{Claim: &claim{
		ID: id, Reply: r.reply, From: r.from, Format: r.format.ContentType(), Stream: r.wantsStream,
		Trace: r.trace.String(), Timeout: r.ttl,
	}})
	return func() { p.publish(peerMessage{Release: id}) }
}

// run runs until ctx ends.
func (p *claims) run(ctx context.Context) {
	checks := time.NewTicker(claimInterval)
	defer checks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-checks.C:
		}
		live := p.g.hosts.gateways()
		p.mu.Lock()
		orphans := p.table.check(time.Now(), live)
		p.mu.Unlock()
		for of, all := range orphans {
			p.answerFor(of, all)
		}
		if err := p.updateSub(); err != nil {
			p.g.log.Debug().Err(err).Msg("cannot update the subscription to the claims of other gateways")
		}
	}
}

// answerFor answers for a dead gateway.
func (p *claims) answerFor(gateway string, all []claim) {
	p.g.log.Warn().Str("gateway", gateway).Int("casts", len(all)).
		Msg("a gateway died during casts: answering for it")
	for _, c := range all {
		format, err := wire.FormatOf(c.Format, nil)
		if err == nil && c.Reply != "" && p.g.proc.Foreign().MayAnswer(c.Reply, c.From) {
			trace, _ := actor.ParseTrace(c.Trace) // most have none
			r := request{reply: c.Reply, format: format, trace: trace}
			p.g.counts.expired.Add(1)
			err = p.g.publishNow(r, r.message(outcome{err: &actor.Error{
				Code: actor.CodeUnavailable,
				Text: fmt.Sprintf("gateway %s died during the cast: the cast may have run", gateway),
			}}))
			if err == nil && c.Stream { // the addressed ranks are not known
				err = p.g.publishNow(r, r.message(outcome{empty: true}))
			}
			if err != nil {
				p.g.log.Warn().Err(err).Str("to", c.Reply).Msg("cannot answer for a dead gateway")
			}
		}
		p.publish(peerMessage{Release: c.ID, Gateway: gateway})
	}
}
