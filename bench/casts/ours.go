package casts

import (
	"context"
	"errors"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Ours is who casts with castnet.
type Ours struct {
	seat
	to target
}

// NewOurs starts a proc that casts to the ranks of the mesh that the share is of.
func NewOurs(ctx context.Context, srv *server.Server, s Share) (*Ours, error) {
	c := &Ours{}
	if err := c.start(ctx, srv, s); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

func (c *Ours) start(ctx context.Context, srv *server.Server, s Share) error {
	if err := c.open(ctx, srv); err != nil {
		return err
	}
	id, err := subjects.NewHostID("bench")
	if err != nil {
		return err
	}
	p, err := c.seat.start(ctx, id.Proc(), nil)
	c.to = target{p, s.placement(), s.placement().Extent.Region()}
	return err
}

// Reduce has castnet sum up.
func (c *Ours) Reduce(ctx context.Context, m []byte) error {
	sum, err := cast.Reduce(ctx, c.to, measure, m, cast.Sum[int64]())
	if err != nil {
		return err
	}
	return checkSum(sum, c.to.region.NumRanks(), len(m))
}

// Gather has every answer by its rank.
func (c *Ours) Gather(ctx context.Context, m []byte) error {
	all, err := cast.Gather(ctx, c.to, sign, m)
	if err != nil {
		return err
	}
	return checkAnswers(all.Values(), len(m), every)
}

// Post waits until every fate is known.
func (c *Ours) Post(ctx context.Context, m []byte) error {
	if err := cast.Send(ctx, c.to, hear, m); err != nil {
		return err
	}
	return c.to.via.Flush(ctx)
}

// GatherTwo gathers from two ranks, the first and the one in the middle, which is in another
// process.
func (c *Ours) GatherTwo(ctx context.Context, m []byte) error {
	step := c.to.region.NumRanks() / 2
	two, err := c.to.region.SliceStep("rank", 0, 2*step, step)
	if err != nil {
		return err
	}
	all, err := cast.Gather(ctx, target{c.to.via, c.to.place, two}, sign, m)
	if err != nil {
		return err
	}
	return checkAnswers(all.Values(), len(m), func(i int) int { return i * step })
}

// CallOne calls the rank in the middle.
func (c *Ours) CallOne(ctx context.Context, m []byte) error {
	n := c.to.region.NumRanks() / 2
	answer, err := sign.Call(ctx, c.to.Ref(n).Via(c.to.via), m)
	if err != nil {
		return err
	}
	return checkAnswers([][]byte{answer}, len(m), func(int) int { return n })
}

// target is a region of the mesh: what package mesh hands to users.
type target struct {
	via    *actor.Proc
	place  cast.Placement
	region shape.Region
}

func (t target) Target() (cast.Target, error) {
	return cast.Target{Via: t.via, Placement: t.place, Actor: rankName, Region: t.region}, nil
}

func (t target) Ref(n int) actor.Ref[*rank] {
	base, err := t.region.BaseRank(n)
	if err != nil {
		return actor.ErrRef[*rank](err)
	}
	return actor.RefOf[*rank](t.place.Proc(base).Actor(rankName))
}
