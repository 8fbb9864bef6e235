package actortest

import (
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// PingPongs are actors that send a message to and fro.
var PingPongs = actor.NewType[*PingPong, PingPongParams]("ping-pong")

// Ping is their endpoint.
var Ping = actor.NewEndpoint[*PingPong, Ball, actor.None]("ping")

// PingPongParams are the parameters of a PingPong; all are optional.
type PingPongParams struct {
	Returned actor.PortRef[actor.DeadLetter] // gets what comes back to the actor
	FailAt   []uint64                        // the actor fails when it gets a Ball with one of these TTLs
	Delay    time.Duration                   // before it sends the Ball back
}

// Ball is the message. With a TTL of 0 its receiver sends true to Done. Otherwise the receiver
// sends it to Peer with a TTL less by one, and with itself as the next Peer.
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
			return actor.None{}, fmt.Errorf("requested failure at TTL %d", at)
		}
	}
	if b.TTL == 0 {
		return actor.None{}, b.Done.Send(ctx, true)
	}
	// SendAfter, because its errors come back, too.
	_, err := Ping.SendAfter(ctx, p.params.Delay, b.Peer, Ball{b.TTL - 1, actor.Self[*PingPong](ctx), b.Done})
	return actor.None{}, err
}

// HandleDeadLetter passes dead letters on.
func (p *PingPong) HandleDeadLetter(ctx *actor.Context, r actor.DeadLetter) error {
	if !p.params.Returned.ID().IsValid() {
		return nil
	}
	return p.params.Returned.Send(ctx, r)
}
