package actortest

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// PingPongs are actors that send a message to and fro.
var PingPongs = actor.NewType[*PingPong, PingPongParams]("ping-pong")

// Ping is how they do it.
var Ping = actor.NewEndpoint[*PingPong, Ball, actor.None]("ping")

// PingPongParams is what a PingPong is made from; all may be left out.
type PingPongParams struct {
	Returned actor.PortRef[actor.Returned] // gets what comes back to the actor
	FailAt   []uint64                      // the actor fails when it gets a Ball with one of these TTLs
	Delay    time.Duration                 // before it sends the Ball back
}

// Ball is what is sent: with a TTL of 0 it says true to Done, else it goes to Peer with a TTL that is
// one less, and the actor that sends it is the next Peer.
type Ball struct {
	TTL  uint64
	Peer actor.Ref[*PingPong]
	Done actor.PortRef[bool]
}

// PingPong sends a Ball back.
type PingPong struct{ params PingPongParams }

func newPingPong(_ *actor.Context, params PingPongParams) (*PingPong, error) {
	return &PingPong{params}, nil
}

func (p *PingPong) ping(ctx *actor.Context, b Ball) (actor.None, error) {
	for _, at := range p.params.FailAt {
		if b.TTL == at {
			return actor.None{}, fmt.Errorf("told to fail at TTL %d", at)
		}
	}
	if b.TTL == 0 {
		return actor.None{}, b.Done.Send(ctx, true)
	}
	// PostAfter, because its errors come back, too.
	_, err := Ping.PostAfter(ctx, p.params.Delay, b.Peer, Ball{b.TTL - 1, actor.Self[*PingPong](ctx), b.Done})
	return actor.None{}, err
}

// Undeliverable hands on what came back.
func (p *PingPong) Undeliverable(ctx *actor.Context, r actor.Returned) error {
	if !p.params.Returned.ID().IsValid() {
		return nil
	}
	return p.params.Returned.Send(ctx, r)
}
