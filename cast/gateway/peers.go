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

// The tokens after `hb.` of what gateways tell each other.
const (
	beatKind  = "gateway" // all: that they are there
	claimKind = "claim"   // those that keep claims: what they have accepted
)

// actorName is the actor of each gateway that says that it lives, aliveName what it is asked.
const (
	actorName = "gateway"
	aliveName = "alive"
)

var (
	gatewayType = actor.NewType[*alive, actor.None](actorName)
	aliveness   = actor.NewEndpoint[*alive, actor.None, actor.None](aliveName)
)

// alive is the actor.
type alive struct{}

func (*alive) alive(*actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }

func aliveDef() actor.Def {
	made := func(*actor.Context, actor.None) (*alive, error) { return &alive{}, nil }
	return gatewayType.Made(made, aliveness.By((*alive).alive))
}

// word is what a gateway tells the others: that it is there, and one of the rest.
type word struct {
	Leaves  bool   `json:"leaves,omitempty"`
	Claim   *claim `json:"claim,omitempty"`   // this and what follows goes to those that keep claims
	Release uint64 `json:"release,omitempty"` // a claim's ID
	Of      string `json:"of,omitempty"`      // the dead gateway whose claim it was; "" = the sender
}

func (w word) kind() string {
	if w.Claim != nil || w.Release != 0 {
		return claimKind
	}
	return beatKind
}

// peers tells the other gateways what this one has accepted, and answers for those that die (GW-4).
type peers struct {
	g    *Gateway
	self string

	mu     sync.Mutex // guards all below
	book   *book
	next   uint64
	claims *bus.Sub // nil: others keep them
}

func newPeers(g *Gateway) *peers {
	self := g.proc.ID().Process().String()
	p := &peers{g: g, self: self, book: newBook(self)}
	p.book.stir(time.Now()) // it has heard nobody so far
	return p
}

// join makes this gateway one of those that are there.
func (p *peers) join() error {
	if err := p.g.proc.SubscribeLossy(p.heartbeats(), p.g.space.Heartbeats(beatKind), p.listen); err != nil {
		return err
	}
	return p.attend() // until others are heard of
}

// attend listens to claims if this gateway is to keep any, and only then. One goroutine at a time calls it.
func (p *peers) attend() error {
	p.mu.Lock()
	keeps, claims := p.book.keeps(), p.claims
	p.mu.Unlock()
	var err error
	switch {
	case keeps == (claims != nil):
		return nil
	case keeps:
		claims, err = p.heartbeats().Subscribe(p.g.space.Heartbeats(claimKind), p.listen)
	default:
		err, claims = claims.Unsubscribe(), nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claims = claims; claims == nil {
		p.book.drop()
	}
	return err
}

// heartbeats is the Inbox of what gateways tell each other.
func (p *peers) heartbeats() *bus.Inbox { return p.g.data.Lossy(agent.HeartbeatInbox) }

// listen hears the others, on the pump of the heartbeats.
func (p *peers) listen(m bus.Msg) {
	s, err := p.g.space.Parse(m.Subject)
	if err != nil || s.From == p.self {
		return
	}
	if _, err := subjects.ParseProcessID(s.From); err != nil {
		return // no gateway
	}
	var w word
	if err := json.Unmarshal(m.Data, &w); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case w.Leaves:
		p.book.leave(s.From)
	case w.Claim != nil && w.Claim.For > 0 && w.Claim.For <= maxClaim:
		p.book.claim(s.From, *w.Claim, now)
	case w.Release != 0 && w.Of != "":
		p.book.release(w.Of, w.Release)
	case w.Release != 0:
		p.book.release(s.From, w.Release)
	default:
		p.book.hear(s.From, now)
	}
}

func (p *peers) tell(w word) {
	b, err := json.Marshal(w) // of texts and numbers
	if err == nil {
		err = p.g.data.Publish(p.g.space.Heartbeat(w.kind(), p.self), b)
	}
	if err != nil {
		p.g.log.Debug().Err(err).Msg("the other gateways were not told")
	}
}

// claim says that this gateway answers a request, if there may be others to hear that; the returned function
// that it has.
func (p *peers) claim(r request) (done func()) {
	if r.reply == "" {
		return func() {}
	}
	p.mu.Lock()
	p.next++
	id, alone := p.next, p.book.alone(time.Now())
	p.mu.Unlock()
	if alone {
		return func() {}
	}
	p.tell(word{Claim: &claim{ID: id, Reply: r.reply, From: r.from, Format: r.format.ContentType(), Stream: r.streams, For: r.ttl}})
	return func() { p.tell(word{Release: id}) }
}

// leave says that this gateway has answered everything, and goes.
func (p *peers) leave() { p.tell(word{Leaves: true}) }

// stir takes what became of the own connections.
func (p *peers) stir(s bus.State) {
	if s.Kind == bus.Disconnected || s.Kind == bus.Reconnected {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.book.stir(time.Now())
	}
}

// watch runs until ctx ends.
func (p *peers) watch(ctx context.Context) {
	p.tell(word{})
	asks, beats := time.NewTicker(askEvery), time.NewTicker(beatEvery)
	defer asks.Stop()
	defer beats.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
			p.tell(word{})
			if err := p.attend(); err != nil {
				p.g.log.Debug().Err(err).Msg("the claims of other gateways are not heard as they should be")
			}
		case <-asks.C:
			p.mu.Lock()
			ask, orphans := p.book.tick(time.Now())
			p.mu.Unlock()
			for _, of := range ask {
				wg.Go(func() { p.ask(ctx, of) })
			}
			for _, o := range orphans {
				p.mourn(o)
			}
		}
	}
}

// ask asks a gateway whether it lives.
func (p *peers) ask(ctx context.Context, of string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	e := unsaid
	if id, err := subjects.ParseProcessID(of); err == nil {
		subject := p.g.space.Port(id.Proc().Actor(actorName).Port(aliveName), p.self)
		_, err = p.g.control.Request(ctx, bus.Msg{Subject: subject, Data: []byte("null")}, actor.IsAnswer)
		switch {
		case err == nil:
			e = lives
		case errors.Is(err, bus.ErrNoResponders):
			e = absent
		case errors.Is(err, context.DeadlineExceeded):
			e = mute
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.book.answer(of, e, time.Now())
}

// mourn answers for a gateway that has died.
func (p *peers) mourn(o obituary) {
	p.g.log.Warn().Str("gateway", o.of).Int("casts", len(o.claims)).Msg("a gateway died during casts: answering for it")
	for _, c := range o.claims {
		format, err := wire.FormatOf(c.Format, nil)
		if err == nil && c.Reply != "" && p.g.proc.MayAnswer(c.Reply, c.From) {
			r := request{reply: c.Reply, format: format}
			p.g.counts.mourned.Add(1)
			err = p.g.publishNow(r, r.message(outcome{err: &actor.Error{
				Code: actor.CodeUnavailable, Text: fmt.Sprintf("the gateway %s died during the cast: whether it ran is not known", o.of),
			}}))
			if err == nil && c.Stream { // whom it asked is not known either
				err = p.g.publishNow(r, r.message(outcome{empty: true}))
			}
			if err != nil {
				p.g.log.Warn().Err(err).Str("to", c.Reply).Msg("the word that a gateway died was not sent")
			}
		}
		p.tell(word{Release: c.ID, Of: o.of})
	}
}
