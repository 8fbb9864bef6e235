package main

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/cli"
)

// sendResult is the result of a cast without replies. Its JSON names are stable.
type sendResult struct {
	Asked        int     `json:"asked"`
	Sent         int     `json:"sent"` // passed to the bus
	Failed       []reply `json:"failed"`
	FailedRegion string  `json:"failed_region,omitempty"`
}

// castSend sends to all ranks and reports those known to be gone.
func (a *app) castSend(ctx context.Context, k resolvedCast) error {
	err := cast.Send(ctx, k.throttledMesh, k.endpoint, k.message)
	c, err := k.fromCast(err, len(k.askedRanks()), 0)
	if err != nil {
		return err
	}
	if err := k.net.Proc().Flush(ctx); err != nil { // all messages are out before this process ends
		return err
	}
	p := sendResult{Asked: c.Asked, Sent: c.Answered, Failed: c.Failed, FailedRegion: c.FailedRegion}
	switch a.output {
	case asJSON:
		err = a.writeJSON(p)
	case asNDJSON:
		err = a.writeJSONLine(p)
	default:
		a.notef("asked %d · sent %d · failed %s", p.Asked, p.Sent, formatRanks(len(p.Failed), p.FailedRegion))
	}
	if err != nil {
		return err
	}
	return c.partialError(k.base, "did not get the message")
}

// castChoose prints the reply of one rank.
func (a *app) castChoose(ctx context.Context, k resolvedCast) error {
	view, err := cast.Pick(ctx, k.throttledMesh)
	if err != nil {
		return err
	}
	begun := time.Now()
	value, err := k.endpoint.Call(ctx, k.throttledMesh.Ref(view).Via(k.net.Proc()), k.message)
	if err != nil {
		return cli.WithCode(cli.ExitCode(err), fmt.Errorf("[%s] %s", k.point(view), k.failedReply(view, err).Error))
	}
	raw, err := encodeValue(value)
	if err != nil {
		return err
	}
	chosen := reply{Rank: k.rank(view), Point: k.point(view), Value: raw, MS: millisSince(begun)}
	switch a.output {
	case asJSON:
		return a.writeJSON(chosen)
	case asNDJSON:
		return a.writeJSONLine(chosen)
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", raw)
	if err == nil {
		a.notef("asked %s", chosen.Point)
	}
	return err
}
