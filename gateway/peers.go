package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Tokens after `hb.` of messages between gateways.
const (
	heartbeatKind = "gateway" // all: that they are there
	claimKind     = "claim"   // those that keep claims: what they have accepted
)

// actorName is the actor of each gateway that answers probes, aliveName its port.
const (
	actorName = "gateway"
	pingName  = "alive"
)

var (
	gatewayType  = actor.NewType[*livenessActor, actor.None](actorName)
	pingEndpoint = actor.NewEndpoint[*livenessActor, actor.None, actor.None](pingName)
)

// livenessActor is the actor.
type livenessActor struct{}

func (*livenessActor) ping(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

func livenessDef() actor.Def {
	made := func(*actor.Context, actor.None) (*livenessActor, error) { return &livenessActor{}, nil }
	return gatewayType.Define(made, pingEndpoint.Handle((*livenessActor).ping))
}

// peerMessage is a message between gateways: a heartbeat with at most one other field.
type peerMessage struct {
	Leaves  bool   `json:"leaves,omitempty"`
	Claim   *claim `json:"claim,omitempty"`   // this and what follows goes to those that keep claims
	Release uint64 `json:"release,omitempty"` // a claim's ID
	Gateway string `json:"of,omitempty"`      // the dead gateway whose claim it was; "" = the sender
}

func (w peerMessage) kind() string {
	if w.Claim != nil || w.Release != 0 {
		return claimKind
	}
	return heartbeatKind
}

// peers announces this gateway's accepted requests to the others, and answers for dead gateways
// (GW-4).
type peers struct {
	g    *Gateway
	self string

	mu        sync.Mutex // guards all below
	table     *peerTable
	nextClaim uint64
	claims    *bus.Sub // nil: others keep them
}

func newPeers(g *Gateway) *peers {
	self := g.proc.ID().Process().String()
	p := &peers{g: g, self: self, table: newPeerTable(self)}
	p.table.resetView(time.Now()) // it has heard nobody so far
	return p
}

// join announces this gateway to the others.
func (p *peers) join() error {
	if err := p.g.proc.SubscribeLossy(p.heartbeats(), p.g.space.Heartbeats(heartbeatKind), p.receive); err != nil {
		return err
	}
	return p.updateClaimSub() // until others are heard of
}

// updateClaimSub listens to claims if this gateway is to keep any, and only then. One goroutine at a time calls it.
func (p *peers) updateClaimSub() error {
	p.mu.Lock()
	keeps := p.table.holdsClaims()
	claims := p.claims
	p.mu.Unlock()
	var err error
	switch {
	case keeps == (claims != nil):
		return nil
	case keeps:
		claims, err = p.heartbeats().Subscribe(p.g.space.Heartbeats(claimKind), p.receive)
	default:
		err = claims.Unsubscribe()
		claims = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
	if claims == nil {
		p.table.dropClaims()
	}
	return err
}

// heartbeats is the Inbox of messages between gateways.
func (p *peers) heartbeats() *bus.Inbox { return p.g.data.Lossy(agent.HeartbeatInbox) }

// receive hears the others, on the pump of the heartbeats.
func (p *peers) receive(m bus.Msg) {
	s, err := p.g.space.Parse(m.Subject)
	if err != nil || s.From == p.self {
		return
	}
	if _, err := subjects.ParseProcessID(s.From); err != nil {
		return // no gateway
	}
	var w peerMessage
	if err := json.Unmarshal(m.Data, &w); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case w.Leaves:
		p.table.removePeer(s.From)
	case w.Claim != nil && w.Claim.Timeout > 0 && w.Claim.Timeout <= maxClaim:
		p.table.addClaim(s.From, *w.Claim, now)
	case w.Release != 0 && w.Gateway != "":
		p.table.removeClaim(w.Gateway, w.Release)
	case w.Release != 0:
		p.table.removeClaim(s.From, w.Release)
	default:
		p.table.noteHeartbeat(s.From, now)
	}
}

func (p *peers) publish(w peerMessage) {
	b, err := json.Marshal(w) // of texts and numbers
	if err == nil {
		err = p.g.data.Publish(p.g.space.Heartbeat(w.kind(), p.self), b)
	}
	if err != nil {
		p.g.log.Debug().Err(err).Msg("cannot notify the other gateways")
	}
}

// claim announces that this gateway answers a request, if another gateway may listen; done releases
// the claim.
func (p *peers) claim(r request) (done func()) {
	if r.reply == "" {
		return func() {}
	}
	p.mu.Lock()
	p.nextClaim++
	id := p.nextClaim
	alone := p.table.isAlone(time.Now())
	p.mu.Unlock()
	if alone {
		return func() {}
	}
	p.publish(peerMessage{Claim: &claim{ID: id, Reply: r.reply, From: r.from, Format: r.format.ContentType(), Stream: r.wantsStream, Timeout: r.ttl}})
	return func() { p.publish(peerMessage{Release: id}) }
}

// announceLeave announces that this gateway has answered everything and leaves.
func (p *peers) announceLeave() { p.publish(peerMessage{Leaves: true}) }

// onBusState applies a change of the own connections.
func (p *peers) onBusState(s bus.State) {
	if s.Kind == bus.Disconnected || s.Kind == bus.Reconnected {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.table.resetView(time.Now())
	}
}

// run runs until ctx ends.
func (p *peers) run(ctx context.Context) {
	p.publish(peerMessage{})
	asks, beats := time.NewTicker(probeInterval), time.NewTicker(heartbeatInterval)
	defer asks.Stop()
	defer beats.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
			p.publish(peerMessage{})
			if err := p.updateClaimSub(); err != nil {
				p.g.log.Debug().Err(err).Msg("cannot update the subscription to the claims of other gateways")
			}
		case <-asks.C:
			p.mu.Lock()
			ask, orphans := p.table.tick(time.Now())
			p.mu.Unlock()
			for _, of := range ask {
				wg.Go(func() { p.probe(ctx, of) })
			}
			for _, o := range orphans {
				p.answerFor(o)
			}
		}
	}
}

// probe asks a gateway whether it lives.
func (p *peers) probe(ctx context.Context, of string) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	e := probeNotSent
	if id, err := subjects.ParseProcessID(of); err == nil {
		subject := p.g.space.Port(id.Proc().Actor(actorName).Port(pingName), p.self)
		_, err = p.g.control.Request(ctx, bus.Msg{Subject: subject, Data: []byte("null")}, actor.IsAnswer)
		switch {
		case err == nil:
			e = probeAlive
		case errors.Is(err, bus.ErrNoResponders):
			e = probeNoResponder
		case errors.Is(err, context.DeadlineExceeded):
			e = probeNoAnswer
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.table.noteProbeResult(of, e, time.Now())
}

// answerFor answers for a dead gateway.
func (p *peers) answerFor(o failureRecord) {
	p.g.log.Warn().Str("gateway", o.gateway).Int("casts", len(o.claims)).Msg("a gateway died during casts: answering for it")
	for _, c := range o.claims {
		format, err := wire.FormatOf(c.Format, nil)
		if err == nil && c.Reply != "" && p.g.proc.MayAnswer(c.Reply, c.From) {
			r := request{reply: c.Reply, format: format}
			p.g.counts.expired.Add(1)
			err = p.g.publishNow(r, r.message(outcome{err: &actor.Error{
				Code: actor.CodeUnavailable, Text: fmt.Sprintf("gateway %s died during the cast: the cast may have run", o.gateway),
			}}))
			if err == nil && c.Stream { // the addressed ranks are not known
				err = p.g.publishNow(r, r.message(outcome{empty: true}))
			}
			if err != nil {
				p.g.log.Warn().Err(err).Str("to", c.Reply).Msg("cannot answer for a dead gateway")
			}
		}
		p.publish(peerMessage{Release: c.ID, Gateway: o.gateway})
	}
}
