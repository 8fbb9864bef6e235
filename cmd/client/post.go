package main

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
)

// posted is the outcome of a cast that waits for no answers; its JSON names are stable.
type posted struct {
	Asked        int     `json:"asked"`
	Posted       int     `json:"posted"` // handed to the bus
	Failed       []reply `json:"failed"`
	FailedRegion string  `json:"failed_region,omitempty"`
}

// castPost tells all ranks, and says of those that are known to be gone.
func (a *app) castPost(ctx context.Context, k casting) error {
	err := cast.Post(ctx, k.to, k.endpoint, k.message)
	c, err := k.fromCast(err, len(k.asked()), 0)
	if err != nil {
		return err
	}
	if err := k.net.Proc().Flush(ctx); err != nil { // nothing is on its way any more when this process ends
		return err
	}
	p := posted{Asked: c.Asked, Posted: c.Answered, Failed: c.Failed, FailedRegion: c.FailedRegion}
	switch a.output {
	case asJSON:
		err = a.document(p)
	case asNDJSON:
		err = a.line(p)
	default:
		a.note("asked %d · posted %d · failed %s", p.Asked, p.Posted, named(len(p.Failed), p.FailedRegion))
	}
	if err != nil {
		return err
	}
	return c.partial(k.base, "were not told")
}

// castChoose prints the answer of one rank.
func (a *app) castChoose(ctx context.Context, k casting) error {
	view, err := cast.Pick(ctx, k.to)
	if err != nil {
		return err
	}
	begun := time.Now()
	value, err := k.endpoint.Call(ctx, k.to.Ref(view).Via(k.net.Proc()), k.message)
	if err != nil {
		return cli.WithCode(cli.ExitCode(err), fmt.Errorf("[%s] %s", k.point(view), k.failedReply(view, err).Error))
	}
	raw, err := encodeValue(value)
	if err != nil {
		return err
	}
	chosen := reply{Rank: k.rank(view), Point: k.point(view), Value: raw, MS: since(begun)}
	switch a.output {
	case asJSON:
		return a.document(chosen)
	case asNDJSON:
		return a.line(chosen)
	}
	if _, err = fmt.Fprintf(a.out, "%s\n", raw); err == nil {
		a.note("asked %s", chosen.Point)
	}
	return err
}
